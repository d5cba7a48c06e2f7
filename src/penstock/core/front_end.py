"""What every front-end can say of itself at a moment, whatever protocol it speaks."""

from collections.abc import Mapping

import msgspec

from penstock.core.request_times import RequestReading


class FrontEndStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, and what is under way now."""

    protocol: str
    requests: RequestReading
    connections: int = 0
    accepted: int = 0
    refused: int = 0
    """Connections that were not let in: there were too many."""
    faulted: int = 0
    """Connections that were closed on a client: rubbish, silence, a failure of our own."""
    throttled: int = 0
    """How often a client was made to wait, or to retry, because memory was short."""
    bytes_in: int = 0
    bytes_out: int = 0
    held_bytes: Mapping[str, int] = {}
    """What requests and answers under way take up in memory, by what it is."""
