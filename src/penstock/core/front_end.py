"""The statistics that every front-end reports, whatever its protocol."""

from collections.abc import Mapping

import msgspec

from penstock.core.request_times import RequestReading


class FrontEndStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, and the current number of connections and requests."""

    protocol: str
    requests: RequestReading
    connections: int = 0
    accepted: int = 0
    refused: int = 0
    """Connections that were not let in: there were too many."""
    faulted: int = 0
    """Connections that were closed on a client: rubbish, silence, a failure of our own."""
    throttled: int = 0
    """The number of times that a client was delayed or refused because memory was short."""
    bytes_in: int = 0
    bytes_out: int = 0
    held_bytes: Mapping[str, int] = {}
    """The memory that requests and answers in flight hold, by kind."""
