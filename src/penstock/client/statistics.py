"""The counters of a client."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Counted by the parts of a client."""

    sent: int = 0
    sent_bytes: int = 0
    batches: int = 0
    received: int = 0
    received_bytes: int = 0
    receives: int = 0
    acked: int = 0
    released: int = 0
    rejected: int = 0
    extended: int = 0
    leases_lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatistics:
    """A client's numbers at one moment."""

    sent: int
    """Messages that were stored."""
    sent_bytes: int
    batches: int
    """In how many batches they went."""
    received: int
    received_bytes: int
    receives: int
    """The number of answers that brought messages."""
    acked: int
    released: int
    rejected: int
    extended: int
    leases_lost: int
    """Verdicts that came too late: another receiver had the message by then."""
    retries: int
    """Attempts that had to be repeated."""
    waiting_bytes: int
    """Bytes that wait to be sent or acknowledged."""
