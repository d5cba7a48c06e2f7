"""Writes several buffers with one call to the system, and keeps back-pressure.

`writelines` of asyncio's own transports does not look at the write buffer's limit from Python
3.12.0 to 3.12.8 and in 3.13.0 and 3.13.1 (CVE-2024-12254): the protocol is not paused, and a peer
that does not read fills the memory. Setting the limit again makes the transport look. uvloop and
other versions pause by themselves.
"""

import sys
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeAlias

_PAUSES: Final = not ((3, 12) <= sys.version_info < (3, 12, 9)) and not (
    (3, 13) <= sys.version_info < (3, 13, 2)
)


Part: TypeAlias = "bytes | bytearray | memoryview[Any]"


class PartsTransport(Protocol):
    """The part of a transport that is used here."""

    def writelines(self, parts: Iterable[Part], /) -> None:
        """Write all parts in order."""
        ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Pause the protocol above `high`."""
        ...


def write_parts(
    transport: PartsTransport,
    parts: Iterable[Part],
    high_bytes: int,
) -> None:
    """Write all parts; `high_bytes` is the limit that the transport has already."""
    transport.writelines(parts)
    if not _PAUSES:
        transport.set_write_buffer_limits(high_bytes)
