"""The settings of a client. The defaults suit most programs.

Durations are in seconds, sizes in bytes. Everything has a bound: what a program sends faster than
the broker takes it, it waits for.
"""

from dataclasses import dataclass, field
from os import getpid
from socket import gethostname

from penstock.client.producer.compression import Compression
from penstock.core.errors import InvalidRequest
from penstock.core.limits import MIB


def own_name() -> str:
    """The default client id: host name and process id."""
    return f"{gethostname()}:{getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The limits on the size of a batch.

    A batch leaves when it is full, or when the one before it has been acknowledged; while that one
    is under way, messages gather. So a lone message leaves at once, and a busy sender's batches
    grow by themselves. With `linger`, an idle sender waits that long for company as well: it saves
    requests and costs every `await send(…)` that much time, which is why it is 0."""

    bytes_max: int = 1 * MIB
    messages_max: int = 10_000
    linger: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """All of it. `replace` makes a changed copy."""

    timeout: float = 30.0
    """The default timeout of a call, retries included."""
    attempt_timeout: float = 5.0
    """The timeout of one attempt; then another node may be tried."""
    batching: Batching = field(default_factory=Batching)
    compression: Compression = field(default_factory=Compression)
    buffer_bytes_max: int = 64 * MIB
    """The limit on bytes waiting to be sent. Above it, `send` waits."""
    receive_bytes_max: int = 4 * MIB
    """About how much one request for messages brings; a larger single batch still comes."""
    prefetch_bytes_max: int = 16 * MIB
    """The bytes of prefetched messages that a consumer may hold."""
    client_id: str = field(default_factory=own_name)
    """The name of this program, for people: the broker records it with every lease."""
    auto_create: bool = True
    """A queue or topic that is sent to and does not exist is made, if the broker allows it; so is
    the queue of a worker."""
    seed: int | None = None
    """For the jitter of retries; the same seed makes the same waits."""

    def __post_init__(self) -> None:
        for name in ("timeout", "attempt_timeout", "buffer_bytes_max", "receive_bytes_max"):
            if getattr(self, name) <= 0:
                raise InvalidRequest(f"{name} = {getattr(self, name)} must be more than 0")
        if self.batching.messages_max < 1 or self.batching.bytes_max < 1:
            raise InvalidRequest("a batch needs room for one message: raise bytes_max")
        if self.batching.linger < 0:
            raise InvalidRequest(f"linger = {self.batching.linger} is a time, 0 or more seconds")
