"""How far a work group has got in a partition: the cursor.

Everything from the cursor to the end of the partition waits and looks alike, except what the cursor
skips: messages that have a run already, because of their headers, or that are not delivered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from sortedcontainers import SortedDict

from penstock.core.types import Offset
from penstock.machines.state_bytes import ByteCount

SKIP_BYTES = 18
"""Of a skip in a snapshot, at most."""


class Cursor:
    """`end` is the partition's next offset, asked for when needed; `total` counts the bytes of what
    is skipped, together with others'."""

    __slots__ = ("_end", "_skipped", "_skips", "_total", "position")

    def __init__(
        self,
        position: Offset,
        end: Callable[[], Offset],
        skips: Iterable[tuple[Offset, Offset]] = (),
        total: ByteCount | None = None,
    ) -> None:
        self.position = position
        self._end = end
        self._skips: SortedDict[Offset, Offset] = SortedDict(skips)
        self._skipped: int = sum((end - first for first, end in self._skips.items()), 0)
        self._total = ByteCount() if total is None else total
        self._total.bytes += SKIP_BYTES * len(self._skips)

    @property
    def has_skips(self) -> bool:
        """Something lies ahead that is not delivered from here."""
        return bool(self._skips)

    def give_up(self) -> None:
        """The cursor is used no more; count its skips no more."""
        self._total.bytes -= SKIP_BYTES * len(self._skips)

    @property
    def waiting(self) -> int:
        """How many messages are untouched."""
        return self._end() - self.position - self._skipped

    @property
    def next(self) -> Offset | None:
        """The first of them."""
        return self.position if self.position < self._end() else None

    def covers(self, offset: Offset) -> bool:
        """This message is untouched."""
        if not self.position <= offset < self._end():
            return False
        place = self._skips.bisect_right(offset) - 1
        return place < 0 or bool(offset >= self._skips.peekitem(place)[1])

    def next_from(self, offset: Offset) -> Offset:
        """The first untouched message at or after an offset; the partition's end if
        there is none."""
        offset = max(offset, self.position)
        place = max(self._skips.bisect_right(offset) - 1, 0)
        for first in self._skips.islice(place):
            if first > offset:
                break
            offset = max(offset, self._skips[first])
        return min(offset, self._end())

    def copy_skips(self) -> Mapping[Offset, Offset]:
        """What will be skipped, in any order: for a snapshot."""
        return dict.copy(self._skips)

    def stretches(self) -> Iterator[tuple[Offset, Offset]]:
        """The ranges of untouched messages, in order."""
        first, last = self.position, self._end()
        for skip, end in self._skips.items():
            if first < skip:
                yield first, min(skip, last)
            first = end
        if first < last:
            yield first, last

    def take(self, most: int) -> tuple[Offset, Offset]:
        """Look at the next messages: up to `most` of them, and up to the next skip."""
        first = self.position
        end = min(first + most, self._end())
        if self._skips:
            end = min(end, self._skips.peekitem(0)[0])
        self.position = Offset(end)
        self._pass()
        return first, Offset(end)

    def skip(self, first: Offset, end: Offset) -> None:
        """Do not stop at these messages, which are still to come."""
        assert self.position <= first < end, f"{first} to {end} is behind {self.position}"
        skips = self._skips
        self._skipped += end - first
        if skips and (last := skips.peekitem(-1))[1] == first:
            skips[last[0]] = end
        else:
            skips[first] = end
            self._total.bytes += SKIP_BYTES
        self._pass()

    def pass_over(self, first: Offset, end: Offset, steps: int) -> tuple[int, Offset]:
        """Do not deliver the messages of a range, up to the partition's end. Returns how many
        waited, and how far it got: at most `steps` skips in the range are looked at."""
        skips, waiting = self._skips, self.waiting
        low, high = max(first, self.position), min(end, self._end())
        if low >= high:
            return 0, end
        place = skips.bisect_right(low) - 1
        if place < 0 or skips.peekitem(place)[1] < low:
            place += 1
        met = list(skips.islice(place, min(place + steps + 1, skips.bisect_left(high))))
        if len(met) > steps:
            high = end = met.pop()
        for one in met:
            low, high = min(low, one), max(high, skips[one])
            self._skipped -= skips.pop(one) - one
        skips[low] = high
        self._total.bytes += SKIP_BYTES * (1 - len(met))
        self._skipped += high - low
        self._pass()
        return waiting - self.waiting, end

    def jump_to_end(self) -> None:
        """Nothing waits any more."""
        self.give_up()
        self._skips.clear()
        self._skipped = 0
        self.position = self._end()

    def _pass(self) -> None:
        skips = self._skips
        while skips and skips.peekitem(0)[0] <= self.position:
            first, end = skips.popitem(0)
            self._total.bytes -= SKIP_BYTES
            self._skipped -= end - first
            self.position = max(self.position, end)
