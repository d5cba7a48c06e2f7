"""Messages by their offsets, for queues: a batch is read and opened once, not once per message.

What queues lease they lease in small runs of offsets, mostly one after the other: ten receives of
ten messages come out of one batch of a hundred, or out of a hundred batches of one. So a read takes
more than it was asked for and keeps it as a *stretch*: whole batches, one after the other, as they
lie in the log.

    run       1200 ─ 1210                                  asked for
    stretch   1180 ────┬─────────┬───────────┬──── 1400    read: whole batches
                       1195 ─ 1210                         opened: messages as far as needed

A stretch knows everything from its start to its end: an offset within it that has no message has
none any more. Stretches of a partition do not overlap. A reader that goes on where a stretch ends
gets the next one four times as long, up to a bound; one that jumps about begins anew.

Batches within a stretch are opened when a message of them is needed, and read no further than
that: a batch of half a million records does not stop the world. Who wants a message far from all
that was read gets it by itself, without those in between. Where it was found is remembered for
longer than the batch: the messages of one FIFO group may lie in as many batches as there are. A
batch with a single message is as soon opened again as found, and not kept open.

Committed messages do not change, so what is kept is never wrong; that a message has gone below the
start of the log is looked up each time. The stretches used last are kept, within a bound of bytes.

A batch that cannot be opened came from a broken client. Its offsets count, and a receiver may wait
for them in order, so each is delivered as a message without a value that is marked `UNREADABLE`: it
can fail and become a dead letter like any other.
"""

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Protocol

from penstock.core.delivery_headers import UNREADABLE
from penstock.core.errors import InvalidBatch
from penstock.core.limits import (
    MESSAGES_OPENED_BYTES_MAX,
    MESSAGES_READ_BYTES_MAX,
    MESSAGES_READ_BYTES_MIN,
)
from penstock.core.message import Message
from penstock.core.message_batches import Marks, OpenBatch, new_marks
from penstock.core.records import BATCH_HEADER_BYTES, read_header, read_outline
from penstock.core.types import Offset, PartitionId
from penstock.machines.partitions import HoldsPartitions

_STRETCH_BYTES = 1_000
_BATCH_BYTES = 100
_OPEN_BATCH_BYTES = 500
_MESSAGE_BYTES = 200
_RECORD_BYTES_MIN = 7
_FAR_MESSAGES = 16
_MARKED_BATCHES_MAX = 2_000
_MARKED_RECORDS_MAX = 100_000
"""Batches with more are marked anew each time: their marks take too much room."""
_offset_of = attrgetter("offset")


class Readable(Protocol):
    """A shard, or a replica of one."""

    @property
    def machine(self) -> HoldsPartitions: ...

    def fetch(self, partition: PartitionId, offset: Offset, bytes_max: int) -> bytes: ...


class MessageReader:
    """Reads messages of any shard; one per node."""

    def __init__(self, *, bytes_max: int = MESSAGES_OPENED_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._stretches: OrderedDict[tuple[PartitionId, Offset], _Stretch] = OrderedDict()
        self._starts: dict[PartitionId, list[Offset]] = {}
        self._marks: OrderedDict[tuple[PartitionId, int], Marks] = OrderedDict()
        self.bytes = 0
        """The approximate size of the cache."""

    def read(
        self, shard: Readable, partition: PartitionId, runs: Iterable[tuple[Offset, Offset]]
    ) -> list[Message]:
        """The messages from each first offset up to, not including, its end; those there are."""
        start, high_watermark = shard.machine.bounds(partition)
        found: list[Message] = []
        stretch: _Stretch | None = None
        for first, last in runs:
            offset, end = max(first, start), min(last, high_watermark)
            while offset < end:
                if stretch is None or not stretch.start <= offset < stretch.end:
                    stretch = self._find(partition, offset)
                    if stretch is None:
                        stretch = self._read_stretch(shard, partition, offset)
                    if stretch is None:
                        break
                before = stretch.bytes
                found += stretch.between(offset, end, lambda *one: self._marks_of(partition, *one))
                self.bytes += stretch.bytes - before
                if self.bytes > self._bytes_max:
                    self._trim()
                offset = stretch.end
        return found

    def forget(self, partition: PartitionId) -> None:
        """Let go of everything of a partition."""
        for start in self._starts.pop(partition, ()):
            self.bytes -= self._stretches.pop((partition, start)).bytes

    def _marks_of(self, partition: PartitionId, base: int, count: int) -> Marks:
        """The known positions of records in a batch."""
        if not _FAR_MESSAGES < count <= _MARKED_RECORDS_MAX:
            return new_marks()
        key = (partition, base)
        marks = self._marks.get(key)
        if marks is None:
            marks = self._marks[key] = new_marks()
            if len(self._marks) > _MARKED_BATCHES_MAX:
                self._marks.popitem(last=False)
        else:
            self._marks.move_to_end(key)
        return marks

    def _find(self, partition: PartitionId, offset: Offset) -> "_Stretch | None":
        starts = self._starts.get(partition)
        if starts is None:
            return None
        place = bisect_right(starts, offset) - 1
        if place < 0:
            return None
        key = (partition, starts[place])
        stretch = self._stretches[key]
        if offset >= stretch.end:
            return None
        self._stretches.move_to_end(key)
        return stretch

    def _read_stretch(
        self, shard: Readable, partition: PartitionId, offset: Offset
    ) -> "_Stretch | None":
        """Read on from an offset of which nothing is kept; None if there is nothing."""
        starts = self._starts.get(partition, [])
        place = bisect_right(starts, offset)
        room = MESSAGES_READ_BYTES_MIN
        if place:
            previous = self._stretches[(partition, starts[place - 1])]
            if previous.end == offset:
                room = min(4 * previous.room, MESSAGES_READ_BYTES_MAX)
        data = shard.fetch(partition, offset, room)
        if not data:
            return None
        stretch = _Stretch(data, offset, starts[place] if place < len(starts) else None, room)
        insort(self._starts.setdefault(partition, starts), stretch.start)
        self._stretches[(partition, stretch.start)] = stretch
        self.bytes += stretch.bytes
        return stretch

    def _trim(self) -> None:
        """Let go of what was not used for longest; what was used last stays."""
        while self.bytes > self._bytes_max and len(self._stretches) > 1:
            (partition, start), stretch = self._stretches.popitem(last=False)
            self.bytes -= stretch.bytes
            starts = self._starts[partition]
            del starts[bisect_left(starts, start)]
            if not starts:
                del self._starts[partition]


class _Stretch:
    """Batches that follow each other in the log; those opened so far are kept open."""

    __slots__ = ("_bases", "_data", "_opened", "_places", "bytes", "end", "room", "start")

    def __init__(self, data: bytes, offset: Offset, stop: Offset | None, room: int) -> None:
        """`data` was read from `offset` on; what lies from `stop` on is another stretch's."""
        self.room = room
        self._bases: list[int] = []
        self._places = [0]
        self._opened: dict[int, _OpenBatch] = {}
        place, size, end = 0, len(data), int(offset)
        while place < size:
            base, length, count, _, _ = read_outline(data, place)
            if stop is not None and base >= stop:
                data, end = data[:place], stop
                break
            self._bases.append(base)
            end = base + count
            place += length
            self._places.append(place)
        self._data = memoryview(data)
        self.start = Offset(min(offset, self._bases[0])) if self._bases else offset
        self.end = Offset(end)
        self.bytes = _STRETCH_BYTES + len(data) + _BATCH_BYTES * len(self._bases)

    def between(
        self, first: Offset, end: Offset, marks_of: Callable[[int, int], Marks]
    ) -> list[Message]:
        """The messages from `first` up to `end`, or up to the end of the stretch."""
        bases = self._bases
        number = max(bisect_right(bases, first) - 1, 0)
        found: list[Message] = []
        while number < len(bases) and bases[number] < end:
            batch = self._opened.get(number)
            if batch is None:
                place, after = self._places[number : number + 2]
                batch = _OpenBatch(self._data[place:after], marks_of)
                if batch.count > 1:
                    self._opened[number] = batch
                    self.bytes += batch.bytes
                    self._forget_packed()
            before = batch.bytes
            found += batch.between(first, end)
            if batch.count > 1:
                self.bytes += batch.bytes - before
            number += 1
        return found

    def _forget_packed(self) -> None:
        """Of a single batch, what was read is not needed once it is unpacked: so twice as many of
        the large ones are kept, among which the messages of a FIFO group lie scattered."""
        if len(self._bases) == 1:
            self.bytes -= len(self._data)
            self._data = memoryview(b"")


class _OpenBatch:
    """A batch, unpacked, and its messages as far as they were needed."""

    __slots__ = (
        "_header",
        "_messages",
        "_next",
        "_opened",
        "_record_bytes",
        "_scan",
        "_unreadable",
        "_unreadable_ms",
        "bytes",
        "count",
    )

    def __init__(self, batch: memoryview, marks_of: Callable[[int, int], Marks]) -> None:
        base, _, self.count, _, _ = read_outline(batch, 0)
        self._header = bytes(batch[:BATCH_HEADER_BYTES])
        self._messages: list[Message] = []
        self._next = base
        """The offset after those of the messages read so far."""
        self._opened: OpenBatch | None = None
        self._scan: Iterator[Message] | None = None
        self._unreadable: range | None = None
        """The offsets from which on it could not be read."""
        self._unreadable_ms = -1
        self._record_bytes = 0
        self.bytes = _OPEN_BATCH_BYTES
        try:
            self._opened = OpenBatch(batch, marks_of(base, self.count))
        except InvalidBatch:
            self._give_up()
        else:
            self._scan = self._opened.messages()
            # The records as they are and, once read, in parts.
            size = self._opened.size
            records = max(1, min(self.count, size // _RECORD_BYTES_MIN))
            self._record_bytes = size // records + _MESSAGE_BYTES
            self.bytes += size

    def between(self, first: Offset, end: Offset) -> list[Message]:
        """The messages from `first` up to `end`, or up to the end of the batch."""
        messages = self._messages
        if first - self._next > _FAR_MESSAGES and self._opened is not None:
            found = self._read_there(first, end)
            if found is not None:
                return found
        if self._scan is not None and (not messages or messages[-1].offset < end - 1):
            self._read_on(end)
        start = 0 if not messages or messages[0].offset >= first else self._place(first)
        if not messages or messages[-1].offset < end:
            found = messages[start:]
        else:
            found = messages[start : self._place(end)]
        if self._unreadable is not None:
            found += self._unreadable_between(first, end)
        return found

    def _place(self, offset: Offset) -> int:
        """The number of messages read so far that are before `offset`."""
        return bisect_left(self._messages, offset, key=_offset_of)

    def _read_there(self, first: Offset, end: Offset) -> list[Message] | None:
        """Read messages far from those read so far; None if the records up to them have to be
        read."""
        opened = self._opened
        assert opened is not None
        if not opened.complete or first > opened.last:
            return None
        found: list[Message] = []
        try:
            for message in opened.messages_from(first):
                if message.offset >= end:
                    break
                found.append(message)
                if message.offset == end - 1:
                    break  # Most are alone, and to look at the next would take as long again.
        except InvalidBatch:
            return None
        return found

    def _read_on(self, end: Offset) -> None:
        assert self._scan is not None
        last = end - 1
        before = len(self._messages)
        try:
            for message in self._scan:
                self._messages.append(message)
                if message.offset >= last:
                    break
            else:
                self._scan = None
        except InvalidBatch:
            self._give_up()
            self._scan = None
        if self._messages:
            self._next = self._messages[-1].offset + 1
        self.bytes += self._record_bytes * (len(self._messages) - before)

    def _give_up(self) -> None:
        header = read_header(self._header)
        first = self._messages[-1].offset + 1 if self._messages else header.base_offset
        self._unreadable = range(first, header.last_offset + 1)
        self._unreadable_ms = header.max_timestamp

    def _unreadable_between(self, first: Offset, end: Offset) -> list[Message]:
        assert self._unreadable is not None
        start, stop = max(first, self._unreadable.start), min(end, self._unreadable.stop)
        return [
            Message(Offset(offset), self._unreadable_ms, None, None, ((UNREADABLE, b"1"),))
            for offset in range(start, stop)
        ]
