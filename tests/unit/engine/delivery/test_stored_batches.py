"""`engine.stored_batches`: how much fits, and which batches go out."""

from collections.abc import Sequence

from penstock.core.queue_rules import QueueRules, WorkRules
from penstock.core.records import stamp_batch
from penstock.core.types import Offset, Term
from penstock.core.verdicts import Verdict
from penstock.engine.delivery.stored_batches import (
    READ_BYTES,
    Range,
    StoredBatches,
    collect,
    measure,
    ready_ranges,
)
from penstock.machines.queue_commands import Settlement
from penstock.machines.work import WorkGroup
from tests.batches import build_batch


class Log:
    """Batches of a partition, with a note of every read."""

    def __init__(self, *batches: tuple[int, int]) -> None:
        """Of base offset and number of messages."""
        self.batches: list[tuple[int, int, bytes]] = []
        self.reads: list[int] = []
        for base, count in batches:
            data = build_batch(count)
            stamp_batch(data, base_offset=Offset(base), epoch=Term(1))
            self.batches.append((base, base + count, bytes(data)))

    def read(self, offset: Offset, bytes_max: int) -> bytes:
        self.reads.append(offset)
        found = b""
        for _, end, data in self.batches:
            if end > offset and (not found or len(found) + len(data) <= bytes_max):
                found += data
        return found

    def size(self, *places: int) -> int:
        return sum(len(self.batches[place][2]) for place in places)

    def data(self, *places: int) -> bytes:
        return b"".join(self.batches[place][2] for place in places)


def spans(*ranges: tuple[int, int]) -> Sequence[Range]:
    return [(Offset(first), Offset(end)) for first, end in ranges]


def test_as_many_as_fit() -> None:
    log = Log((0, 3), (3, 3), (6, 4))
    everything = spans((0, 10))
    for bytes_max, wanted in (
        (0, 3),
        (log.size(0), 3),
        (log.size(0, 1) - 1, 3),
        (log.size(0, 1), 6),
        (log.size(0, 1, 2), 10),
    ):
        assert measure(everything, StoredBatches(log.read), 100, bytes_max) == wanted
    for most in (1, 3, 4, 10):
        assert measure(everything, StoredBatches(log.read), most, 1 << 20) == most
    batches = StoredBatches(log.read)
    for most, wanted in ((1, 3), (3, 3), (4, 6), (10, 10)):
        assert measure(everything, batches, most, 1 << 20, rounds_up=True) == wanted
    assert measure(spans((1, 2), (4, 9)), batches, 1, 1 << 20, rounds_up=True) == 1


def test_a_batch_counts_once_and_what_is_missing_not_at_all() -> None:
    log = Log((0, 10), (20, 10))
    ranges = spans((0, 1), (3, 4), (5, 25))
    assert measure(ranges, StoredBatches(log.read), 100, log.size(0)) == 7, "up to the gap's end"
    assert measure(ranges, StoredBatches(log.read), 100, log.size(0, 1)) == 22
    assert measure(spans((40, 45)), StoredBatches(log.read), 100, 0) == 5, "all of it a gap"
    assert measure([], StoredBatches(log.read), 100, 1 << 20) == 0


def collected(
    ranges: Sequence[Range], batches: StoredBatches, bytes_max: int
) -> tuple[bytes, list[Range]]:
    """The batches as they go out, and what is left over."""
    pieces, rest = collect(ranges, batches, bytes_max)
    return b"".join(piece.batch.data for piece in pieces), rest


def test_batches_are_read_once() -> None:
    log = Log(*((10 * number, 10) for number in range(5)))
    batches = StoredBatches(log.read)
    ranges = spans((3, 4), (5, 25), (44, 46))
    assert measure(ranges, batches, 100, READ_BYTES) == 23
    assert collected(ranges, batches, READ_BYTES) == (log.data(0, 1, 2, 4), [])
    assert log.reads == [3]


def test_what_does_not_fit_is_left_over() -> None:
    log = Log((0, 3), (3, 3), (6, 4))
    ranges = spans((1, 2), (4, 8), (9, 10))
    data, rest = collected(ranges, StoredBatches(log.read), log.size(0))
    assert (data, rest) == (log.data(0), spans((4, 8), (9, 10)))
    data, rest = collected(ranges, StoredBatches(log.read), log.size(0, 1))
    assert (data, rest) == (log.data(0, 1), spans((6, 8), (9, 10)))
    data, rest = collected(spans((7, 8)), StoredBatches(log.read), 0)
    assert (data, rest) == (log.data(2), []), "one batch always goes"


def test_gaps_are_sent_as_nothing() -> None:
    log = Log((0, 2), (10, 2))
    assert collected(spans((4, 8)), StoredBatches(log.read), 1 << 20) == (b"", [])
    assert collected(spans((20, 22)), StoredBatches(log.read), 1 << 20) == (b"", [])
    assert collected(spans((1, 11)), StoredBatches(log.read), 1 << 20) == (log.data(0, 1), [])


def test_it_is_said_what_is_wanted_of_a_batch() -> None:
    log = Log((0, 3), (3, 3), (6, 4))
    pieces, _ = collect(spans((1, 2), (2, 8), (9, 10)), StoredBatches(log.read), 1 << 20)
    assert [(piece.batch.first, piece.spans) for piece in pieces] == [
        (0, spans((1, 2), (2, 3))),
        (3, spans((3, 6))),
        (6, spans((6, 8), (9, 10))),
    ]


def test_what_is_ready_in_a_work_group() -> None:
    end = Offset(20)
    work = WorkGroup(Offset(0), WorkRules(), QueueRules(), lambda: end)
    assert list(ready_ranges(work, end)) == spans((0, 20))
    epoch, _ = work.acquire(12, -1, now_ms=0)
    for first, last, verdict in ((0, 3, Verdict.ACK), (3, 5, Verdict.RELEASE)):
        work.settle(Settlement(Offset(first), Offset(last), epoch, verdict), 0)
    assert list(ready_ranges(work, end)) == spans((3, 5), (12, 20))
    work.acquire(20, -1, now_ms=0)
    assert list(ready_ranges(work, end)) == []
