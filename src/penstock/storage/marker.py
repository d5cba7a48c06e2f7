"""The durable marker: the index up to which the log was synced, and a hint of the committed index.

It is the witness that tells a *lost promise* from a *torn tail*: a record that is bad or missing at
or below the marker had been synced, and its loss is damage. It is written after every sync of the
log, without a sync of its own and without a waiting request: if the newest marker is lost in a
crash, an older one claims less, which is safe, and the records themselves carry the same claim
(`promised` in `record`).

Before a truncation it is lowered, in both slots and synced, or else the cut would look like damage.

The commit index is a hint: clamped at a start to what the log holds, used as the bound of what
a damaged log may be trusted with.
"""

from typing import NamedTuple

from penstock.core.types import Index
from penstock.storage.disk import Disk
from penstock.storage.slots import SlotFile

MARKER_NAME = "marker"
_MAGIC = 0x4B52414D


class Marker(NamedTuple):
    """The content of the marker."""

    durable: Index
    committed: Index


class MarkerFile:
    """The file that holds the `Marker`."""

    def __init__(self, disk: Disk, path: str, *, create: bool = False) -> None:
        self._slots = SlotFile.open(disk, path, _MAGIC, create=create)

    def load(self) -> Marker | None:
        """Return the content at the time the file was opened; None if both slots are damaged."""
        numbers = self._slots.numbers
        return Marker(Index(numbers[0]), Index(numbers[1])) if numbers else None

    def make(self, marker: Marker) -> None:
        """In a file that is new, and that nothing relies on yet."""
        self._slots.make_both(marker)

    def note(self, marker: Marker) -> None:
        """After a sync of the log: one small write, no sync."""
        self._slots.write_next(marker)

    def write(self, marker: Marker) -> None:
        """Durable in both slots when it returns."""
        self._slots.write_both(marker)

    def close(self) -> None:
        self._slots.close()
