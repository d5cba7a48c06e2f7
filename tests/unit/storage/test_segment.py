"""Segment headers, and the order of segments in a log."""

import pytest

from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.storage.identity import Identity
from penstock.storage.index import GrowingIndex
from penstock.storage.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    SegmentHeader,
    decode_segment_header,
)
from penstock.storage.segments import SegmentList
from tests.unit.storage.logs import IDENTITY


def header(base: int, *, number: int = 1, sparse: bool = False) -> SegmentHeader:
    return SegmentHeader.make(
        IDENTITY,
        base=Index(base),
        number=number,
        previous_term=Term(4),
        previous_chain=99,
        sparse=sparse,
    )


def segment(base: int, last: int, *, sparse: bool = False) -> Segment:
    made = Segment(
        header(base, number=base, sparse=sparse), index=GrowingIndex(Index(base)), capacity=0
    )
    made.restore(end=1000, last=Index(last), chain=1, terms=[(Index(base), Term(5))])
    return made


def test_a_header_says_what_was_put_in() -> None:
    made = header(17, sparse=True)
    encoded = made.encode()
    assert len(encoded) == SEGMENT_HEADER_BYTES
    assert decode_segment_header(encoded) == made
    assert made.belongs_to(IDENTITY)
    assert not made.belongs_to(Identity("other", ShardId(0), NodeId(1)))
    assert made.name == "00000000000000000017-000001.log"


@pytest.mark.parametrize("position", range(0, SEGMENT_HEADER_BYTES, 3))
def test_every_byte_of_a_header_is_checked(position: int) -> None:
    encoded = bytearray(header(17).encode())
    encoded[position] ^= 4
    assert decode_segment_header(bytes(encoded)) is None


def test_every_segment_has_its_own_salt() -> None:
    assert len({header(1).salt, header(2).salt, header(1, number=2).salt}) == 3


def test_terms_come_in_runs() -> None:
    made = Segment(header(10), index=GrowingIndex(Index(10)), capacity=0)
    for index, term in ((10, 4), (11, 5), (12, 5), (13, 7)):
        made.note(Index(index), Term(term), 100, index)
    assert [made.term(Index(i)) for i in (9, 10, 11, 12, 13)] == [4, 4, 5, 5, 7]
    assert made.terms == [(10, 4), (11, 5), (13, 7)]
    made.cut(Index(12), position=300, chain=11)
    assert (made.last, made.end, made.chain, made.last_term) == (11, 300, 11, 5)
    made.cut(Index(10), position=128, chain=99)
    assert made.last_term == 4


def test_the_contiguous_log_ends_at_a_gap_or_a_sparse_segment() -> None:
    assert SegmentList([segment(1, 9), segment(10, 20), segment(21, 20)]).first_index == 1
    assert SegmentList([segment(1, 9), segment(11, 20), segment(21, 20)]).first_index == 11
    sparse = SegmentList([segment(1, 9), segment(10, 20, sparse=True), segment(21, 20)])
    assert sparse.first_index == 21
    assert SegmentList([]).first_index == 1


def test_segments_are_found_by_index() -> None:
    a, b, c = segment(1, 9), segment(10, 20), segment(21, 30)
    log = SegmentList([a, b, c])
    assert [log.find(Index(i)).base for i in (1, 9, 10, 20, 21, 31)] == [1, 1, 10, 10, 21, 21]
    assert log.after(Index(9)) == [b, c]
    assert log.drop_after(a) == [b, c]
    assert log.active is a
    new = segment(5, 8, sparse=True)
    log.replace([a], [new])
    assert list(log) == [new]
