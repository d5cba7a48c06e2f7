"""Stored batches for a receive by lease: how many messages fit an answer, and the bytes to send.

Messages are sent in the batches they are stored in, unchanged. A batch may hold messages that the
receiver did not acquire: it skips them. What is acquired must be sent: Kafka's share consumers take
an offset that an answer acquires and does not bring for a gap, and acknowledge it as one. So what
is ready is measured first, and no more is leased than fits.

A batch is read once for one receive, however often it is needed.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.core.limits import KIB
from penstock.core.records import read_outline
from penstock.core.types import Offset
from penstock.machines.run import State
from penstock.machines.work import WorkGroup

READ_BYTES = 256 * KIB
"""How much is read at once; a larger batch is still read whole."""
SMALL_SHARE = 4
"""A batch that cannot be cut is sent whole if at least one in so many of its messages is wanted."""

Range = tuple[Offset, Offset]
Read = Callable[[Offset, int], bytes]


class StoredBatch(NamedTuple):
    """A batch, and the offsets it stands for."""

    first: int
    end: int
    data: memoryview


class Piece(NamedTuple):
    """A batch, and which of its messages are wanted."""

    batch: StoredBatch
    spans: list[Range]


class StoredBatches:
    """The batches of one partition that a fetch has looked at; `read` reads from an offset on."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._batches: dict[int, StoredBatch] = {}
        self._firsts: list[int] = []

    def first(self) -> StoredBatch | None:
        """The one with the lowest offsets of those that were looked at."""
        return self._batches[self._firsts[0]] if self._firsts else None

    def at(self, offset: int) -> StoredBatch | None:
        """The batch that holds an offset, or the next one after a gap; None: there is no more."""
        return self._known(offset) or self._look(offset)

    def _known(self, offset: int) -> StoredBatch | None:
        place = bisect_right(self._firsts, offset) - 1
        found = self._batches[self._firsts[place]] if place >= 0 else None
        return found if found is not None and offset < found.end else None

    def _look(self, offset: int) -> StoredBatch | None:
        view = memoryview(self._read(Offset(offset), READ_BYTES))
        found: StoredBatch | None = None
        position = 0
        while position < len(view):
            first, size, count, _, _ = read_outline(view, position)
            batch = StoredBatch(first, first + count, view[position : position + size])
            position += size
            if first not in self._batches:
                self._batches[first] = batch
                insort(self._firsts, first)
            if found is None and offset < batch.end:
                found = batch
        return found


def ready_ranges(work: WorkGroup, end: Offset) -> Iterator[Range]:
    """What a work group could deliver now, by offset; near enough to measure."""
    for run in work.runs_from(work.start):
        if run.state is State.READY:
            yield run.first, run.end
    if work.cursor < end:
        yield work.cursor, end


def measure(
    ranges: Iterable[Range],
    batches: StoredBatches,
    messages_max: int,
    bytes_max: int,
    *,
    rounds_up: bool = False,
) -> int:
    """How many of these messages fit; the first batch always does. `rounds_up`: as many as are
    wanted, and all that are ready of the batch that holds the last of them."""
    messages, size = 0, 0
    counted: set[int] = set()
    for first, end in ranges:
        at = first
        while at < end and messages < messages_max:
            batch = batches.at(at)
            if batch is None:
                messages += end - at
                break
            if batch.first not in counted:
                if size and size + len(batch.data) > bytes_max:
                    return messages
                counted.add(batch.first)
                size += len(batch.data)
            messages += min(end, batch.end) - at
            at = Offset(batch.end)
        if messages >= messages_max:
            return messages if rounds_up else messages_max
    return messages


def collect(
    runs: Sequence[Range], batches: StoredBatches, bytes_max: int
) -> tuple[list[Piece], list[Range]]:
    """The batches that hold these messages, in order, each with what is wanted of it; and the
    messages that did not fit."""
    pieces: list[Piece] = []
    size = 0
    for first, end in runs:
        at = first
        while at < end:
            batch = batches.at(at)
            if batch is None or batch.first >= end:
                break  # A gap up to the end.
            span = Offset(max(at, batch.first)), Offset(min(end, batch.end))
            if pieces and pieces[-1].batch.first == batch.first:
                pieces[-1].spans.append(span)
            else:
                if size and size + len(batch.data) > bytes_max:
                    return pieces, _rest(runs, at)
                size += len(batch.data)
                pieces.append(Piece(batch, [span]))
            at = Offset(batch.end)
    return pieces, []


def sent_bytes(pieces: Iterable[Piece], *, whole: bool) -> int:
    """About how many bytes of an answer these batches take, and not much less: `whole`, or cut to
    what is wanted of them."""
    size = 0
    for batch, spans in pieces:
        wanted, total = sum(end - first for first, end in spans), batch.end - batch.first
        cut = not whole and wanted * SMALL_SHARE < total
        size += len(batch.data) * wanted // total if cut else len(batch.data)
    return size


def _rest(runs: Sequence[Range], offset: Offset) -> list[Range]:
    return [(max(first, offset), end) for first, end in runs if end > offset]
