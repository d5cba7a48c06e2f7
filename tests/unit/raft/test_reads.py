"""Reads wait for a round that started after them."""

from penstock.core.types import Index
from penstock.raft.messages import ReadReady
from penstock.raft.reads import ReadQueue


def test_a_round_serves_the_reads_asked_before_it() -> None:
    reads = ReadQueue()
    reads.add(1)
    reads.add(2)
    wanted = [reads.round_wanted]
    reads.start(5, Index(9))
    reads.add(3)
    wanted.append(reads.round_wanted)
    assert wanted == [True, False], "read 3 waits behind the round that is under way"
    reads.confirm(4)
    assert reads.take() == ()
    reads.confirm(5)
    assert reads.take() == (ReadReady(1, Index(9)), ReadReady(2, Index(9)))
    assert reads.round_wanted
    assert len(reads) == 1


def test_a_later_round_confirms_the_earlier_ones() -> None:
    reads = ReadQueue()
    reads.add(1)
    reads.start(5, Index(9))
    reads.add(2)
    reads.start(6, Index(10))
    reads.confirm(6)
    assert [read.index for read in reads.take()] == [9, 10]
    assert not reads.round_open


def test_a_round_without_reads_is_not_remembered() -> None:
    reads = ReadQueue()
    reads.start(1, Index(3))
    assert not reads.round_open
