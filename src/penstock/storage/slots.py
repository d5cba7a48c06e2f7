"""A file of two slots, for a few numbers that are overwritten in place and must survive torn
writes.

    byte 0      slot A: magic u32, generation u64, up to four numbers u64, CRC-32C u32
    byte 4096   slot B: the same

The slots lie in different sectors, and blocks, so no write and no torn sector touches both. The
valid slot with the higher generation is the content. Nothing is ever truncated and rewritten: a
file that is first emptied is a file that can be found empty.

Ways to write, for different needs: `write_both` (slot A, sync, slot B, sync) leaves two equal
copies, so that one rotten slot loses nothing; `write_next` (the older slot, no sync) costs one
small write and survives a torn one, since the other slot is still whole; `write_first` (slot A,
sync) is for a file that has a twin.
"""

import struct
from collections.abc import Callable

from penstock.core.checksum import crc32c
from penstock.storage.disk import Disk, File

SLOT_B = 4096
_SLOT = struct.Struct("<IQQQQQ")
_CHECKSUM = struct.Struct("<I")
SLOT_BYTES = _SLOT.size + _CHECKSUM.size
NUMBERS = 4

Numbers = tuple[int, ...]


class SlotFile:
    """The two slots of one open file. Only the writer touches its counter."""

    def __init__(self, file: File, magic: int) -> None:
        self._file = file
        self._magic = magic
        self.generation = 0
        self.numbers: Numbers | None = None
        """The numbers at the time the file was opened; None if neither slot is valid."""
        for position in (0, SLOT_B):
            found = self._read_slot(position)
            if found and (self.numbers is None or found[0] > self.generation):
                self.generation, self.numbers = found

    @classmethod
    def open(cls, disk: Disk, path: str, magic: int, *, create: bool = False) -> "SlotFile":
        return cls(disk.open(path, create=create), magic)

    def _read_slot(self, position: int) -> tuple[int, Numbers] | None:
        data = self._file.read(position, SLOT_BYTES)
        if len(data) < SLOT_BYTES:
            return None
        if _CHECKSUM.unpack_from(data, _SLOT.size)[0] != crc32c(data[: _SLOT.size]):
            return None
        magic, generation, *numbers = _SLOT.unpack_from(data)
        return (generation, tuple(numbers)) if magic == self._magic else None

    def _encode(self, numbers: Numbers) -> bytes:
        assert len(numbers) <= NUMBERS, f"{len(numbers)} numbers in a slot for {NUMBERS}"
        padded = numbers + (0,) * (NUMBERS - len(numbers))
        body = _SLOT.pack(self._magic, self.generation, *padded)
        return body + _CHECKSUM.pack(crc32c(body))

    def both_steps(self, numbers: Numbers) -> list[Callable[[], None]]:
        """Two steps, each durable when it returns: first slot A, then slot B."""

        def first() -> None:
            self.generation += 1
            self._file.write(0, [self._encode(numbers)])
            self._file.sync()

        def second() -> None:
            self._file.write(SLOT_B, [self._encode(numbers)])
            self._file.sync()

        return [first, second]

    def make_both(self, numbers: Numbers) -> None:
        """Both slots at once, durable when it returns: there is nothing yet that a tear could
        take."""
        self.generation += 1
        for position in (0, SLOT_B):
            self._file.write(position, [self._encode(numbers)])
        self._file.sync()

    def write_both(self, numbers: Numbers) -> None:
        for step in self.both_steps(numbers):
            step()

    def write_first(self, numbers: Numbers) -> None:
        """Slot A alone, durable when it returns; the caller counts `generation` for both twins."""
        self._file.write(0, [self._encode(numbers)])
        self._file.sync()

    def write_next(self, numbers: Numbers) -> None:
        """Overwrite the older slot, without a sync."""
        self.generation += 1
        position = SLOT_B if self.generation & 1 else 0
        self._file.write(position, [self._encode(numbers)])

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
