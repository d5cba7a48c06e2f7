"""One file of a simulated disk: its content in the page cache, on the platter, and the unsynced
changes between them.

A `CachedFile` has two images. `cache` is what every read returns. `durable` is what a power cut
leaves for certain. Between them lie the changes made since the last sync, in order, and a power cut
decides what became of each. The model is that of ext4 and its neighbours, taken at their worst:

- **Sectors are atomic, writes are not.** Any subset of the 512-byte sectors written since the last
  sync may have reached the platter, in any order. A sector written several times may hold any of
  its versions: the kernel may have written it back between two of them.
- **Sizes follow the journal.** Growing, cutting and allocating are metadata, which is journaled in
  order: the file's size is that after some prefix of its unsynced changes. Data and journal are
  independent of each other, so a file may have grown over sectors that never arrived; these read
  as zeros (ext4 with `data=writeback` or after `fallocate`, XFS).
- **What was cut stays cut.** Bytes beyond a truncation that reached the journal never come back:
  their blocks are freed, and if the file grows again it has zeros there. Conversely, while the
  truncation has not reached the journal, data written later to the freed blocks is not reachable,
  because the file still owns the old ones; only the block that was cut in its middle is shared.
- **A failed sync loses the data and keeps quiet.** Linux reports the error once and marks the pages
  clean. Reads still see the data, later syncs succeed, and the next power cut reveals that it was
  never written, unless its sector was dirtied and synced again. Sizes do become durable later on.

What is not modelled: damage to sectors that were not written (see `FaultyDisk.flip_bit`), and sync
order between files: every file meets its fate alone.
"""

from dataclasses import dataclass
from random import Random

SECTOR_BYTES = 512
BLOCK_BYTES = 4096

_WRITE, _TRUNCATE, _GROW = range(3)
_Change = tuple[int, int, bytes]  # kind; position or size; data of a write


@dataclass(slots=True)
class CrashReport:
    """The effect of a power cut; summed over files, and over power cuts for coverage."""

    sectors_kept: int = 0
    """Unsynced sectors that have their latest version."""
    sectors_lost: int = 0
    """Unsynced sectors that have an older version, or none."""
    writes_torn: int = 0
    """Writes of which some sectors arrived and some did not."""
    sizes_lost: int = 0
    """Files whose latest size did not survive."""
    names_lost: int = 0
    """Creations, renames and removals that did not survive."""


class CachedFile:
    """The two images of one file and the changes between them."""

    __slots__ = ("cache", "durable", "handles", "linked", "path", "reserved_bytes", "unsynced")

    def __init__(self, path: str) -> None:
        self.path = path
        """Its present name, for messages and fault patterns."""
        self.cache = bytearray()
        self.durable = bytearray()
        self.unsynced: list[_Change] = []
        self.reserved_bytes = 0
        """Space it takes. Counted up to the highest byte written or allocated: holes cost too."""
        self.handles = 0
        self.linked = True

    def write(self, position: int, data: bytes) -> None:
        cache = self.cache
        size = len(cache)
        if position > size:
            cache.extend(bytes(position - size))
        cache[position : position + len(data)] = data
        self.unsynced.append((_WRITE, position, data))

    def truncate(self, size: int) -> None:
        cache = self.cache
        if size < len(cache):
            del cache[size:]
        else:
            cache.extend(bytes(size - len(cache)))
        self.unsynced.append((_TRUNCATE, size, b""))

    def grow(self, size: int) -> None:
        cache = self.cache
        if size > len(cache):
            cache.extend(bytes(size - len(cache)))
            self.unsynced.append((_GROW, size, b""))

    def sync(self) -> None:
        """Make content and size durable."""
        if not self.unsynced:
            return
        cache, durable = self.cache, self.durable
        size = len(cache)
        for kind, place, _ in self.unsynced:
            if kind == _TRUNCATE and place < len(durable):
                del durable[place:]
        durable.extend(bytes(size - len(durable)))
        for kind, place, data in self.unsynced:
            if kind == _WRITE:
                # Whole sectors go out: with them goes what a failed sync left behind in them.
                start = place - place % SECTOR_BYTES
                end = min(place + len(data) + -(place + len(data)) % SECTOR_BYTES, size)
                if start < end:
                    durable[start:end] = cache[start:end]
        self.unsynced.clear()

    def fail_sync(self) -> None:
        """The data is dropped, though it stays readable; what remains unsynced is the size."""
        self.unsynced = [
            (_GROW, place + len(data), b"") if kind == _WRITE else (kind, place, data)
            for kind, place, data in self.unsynced
        ]

    def crash(self, random: Random, report: CrashReport) -> None:
        """Decide what a power cut leaves; afterwards both images are the same."""
        if self.unsynced:
            sectors = self._unsynced_sectors()
            fate = _Fate(random, self.unsynced, sectors)
            self.durable = self._survivor(sectors, fate, report)
            self.unsynced.clear()
        self.cache = bytearray(self.durable)
        self.reserved_bytes = len(self.durable)
        self.handles = 0

    def fork(self) -> "CachedFile":
        """A copy that shares nothing with this one and that is not open."""
        copy = CachedFile(self.path)
        copy.cache[:] = self.cache
        copy.durable[:] = self.durable
        copy.unsynced = list(self.unsynced)
        copy.reserved_bytes = self.reserved_bytes
        copy.linked = self.linked
        return copy

    def _unsynced_sectors(self) -> dict[int, list[int]]:
        """The numbers of the changes that wrote to each sector, in order."""
        sectors: dict[int, list[int]] = {}
        for number, (kind, place, data) in enumerate(self.unsynced):
            if kind == _WRITE:
                last = (place + len(data) - 1) // SECTOR_BYTES
                for sector in range(place // SECTOR_BYTES, last + 1):
                    sectors.setdefault(sector, []).append(number)
        return sectors

    def _survivor(
        self, sectors: dict[int, list[int]], fate: "_Fate", report: CrashReport
    ) -> bytearray:
        image = bytearray(self.durable)
        for kind, place, data in self.unsynced[: fate.journaled]:
            if kind == _TRUNCATE:
                del image[place:]
            size = place + len(data)
            image.extend(bytes(max(0, size - len(image))))
        truncations = [
            number for number, change in enumerate(self.unsynced) if change[0] == _TRUNCATE
        ]
        for sector, writes in sectors.items():
            start = sector * SECTOR_BYTES
            end = min(start + SECTOR_BYTES, len(image))
            if start < end:
                changes = sorted(writes + truncations) if truncations else writes
                image[start:end] = self._sector(sector, changes, fate)[: end - start]
        _count(report, self.unsynced, sectors, fate)
        report.sizes_lost += len(image) != len(self.cache)
        return image

    def _sector(self, sector: int, changes: list[int], fate: "_Fate") -> bytearray:
        """The version of a sector that fate chose."""
        start = sector * SECTOR_BYTES
        written = fate.written[sector]
        content = self.durable[start : start + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0")
        for number in changes:
            kind, place, data = self.unsynced[number]
            if kind == _WRITE:
                if number < written:
                    low = max(place, start)
                    high = min(place + len(data), start + SECTOR_BYTES)
                    content[low - start : high - start] = data[low - place : high - place]
            else:
                journaled = number < fate.journaled
                if not journaled and start - start % BLOCK_BYTES >= place:
                    break  # The file still owns the old block; what follows went to another one.
                if journaled or number < written:
                    kept = min(max(place - start, 0), SECTOR_BYTES)
                    content[kept:] = bytes(SECTOR_BYTES - kept)
        return content


class _Fate:
    """The random choice: up to which change the journal, and each sector, got."""

    __slots__ = ("journaled", "written")

    def __init__(
        self, random: Random, changes: list[_Change], sectors: dict[int, list[int]]
    ) -> None:
        count = len(changes)
        mood = random.randrange(8)
        if mood == 0:
            self.journaled = 0
            self.written = dict.fromkeys(sectors, 0)
        elif mood == 1:
            self.journaled = count
            self.written = dict.fromkeys(sectors, count)
        elif mood <= 3:
            # A prefix of the changes, the last of them perhaps torn.
            whole = random.randrange(count)
            self.journaled = whole + random.randrange(2)
            self.written = {sector: whole + random.randrange(2) for sector in sectors}
        else:
            self.journaled = random.choice((0, count, random.randrange(count + 1)))
            luck = random.random()
            self.written = {
                sector: count if random.random() < luck else random.randrange(count)
                for sector in sectors
            }


def _count(
    report: CrashReport, changes: list[_Change], sectors: dict[int, list[int]], fate: _Fate
) -> None:
    arrived: dict[int, int] = {}
    for sector, writes in sectors.items():
        kept = fate.written[sector] > writes[-1]
        report.sectors_kept += kept
        report.sectors_lost += not kept
        for number in writes:
            arrived[number] = arrived.get(number, 0) + (fate.written[sector] > number)
    for number, count in arrived.items():
        _, place, data = changes[number]
        spans = (place + len(data) - 1) // SECTOR_BYTES - place // SECTOR_BYTES + 1
        report.writes_torn += 0 < count < spans
