"""Records: what a scan accepts, where it stops, and what it says."""

import pytest
from crc32c import crc32c

from penstock.core.entries import EntryKind
from penstock.core.types import Index, Term
from penstock.storage.disk import File
from penstock.storage.record import (
    PROMISED_MAX,
    RECORD_HEADER_BYTES,
    Scan,
    chain_seed,
    copy_header,
    decode_header,
    encode_header,
    later_headers,
)
from penstock.testing.disk import FaultyDisk

SALT = 77
NOOP = int(EntryKind.NOOP)
"""Its payload is not looked at."""


def record(
    index: int, payload: bytes, chain: int = 0, promised: int = 1, salt: int = SALT
) -> tuple[bytes, int]:
    header, after = encode_header(
        NOOP, len(payload), Term(3), Index(index), chain, crc32c(payload), promised, salt
    )
    return header + payload, after


def records(count: int) -> tuple[bytes, list[int]]:
    """Records from 1 on, and where each begins."""
    data, chain, positions = b"", 0, []
    for index in range(1, count + 1):
        positions.append(len(data))
        encoded, chain = record(index, b"payload %d" % index * index, chain)
        data += encoded
    return data, positions


def file_of(data: bytes) -> File:
    file = FaultyDisk().open("/f", create=True)
    file.write(0, [data])
    return file


def scan(data: bytes, *, sparse: bool = False, last: int = 0, chunk_bytes: int = 64) -> Scan:
    return Scan(
        file_of(data),
        position=0,
        end=len(data),
        salt=SALT,
        sparse=sparse,
        last=Index(last),
        chain=0,
        chunk_bytes=chunk_bytes,
    )


def test_a_header_says_what_was_put_in() -> None:
    encoded, chain = record(9, b"hello", chain=5, promised=4)
    header = decode_header(encoded, 0, SALT)
    assert header is not None
    assert (header.index, header.term, header.kind, header.length) == (9, 3, NOOP, 5)
    assert (header.previous_chain, header.chain) == (5, chain)
    assert header.durable == 5
    assert header.size == len(encoded) == RECORD_HEADER_BYTES + 5


def test_a_far_promise_saturates() -> None:
    encoded, _ = record(1 << 40, b"", promised=1 << 40)
    header = decode_header(encoded, 0, SALT)
    assert header is not None
    assert header.promised == PROMISED_MAX
    assert header.durable == 0


@pytest.mark.parametrize("position", range(RECORD_HEADER_BYTES))
def test_every_byte_of_a_header_is_checked(position: int) -> None:
    encoded = bytearray(record(9, b"hello")[0])
    encoded[position] ^= 1
    assert decode_header(bytes(encoded), 0, SALT) is None


def test_a_record_of_another_segment_is_none_of_this_one() -> None:
    encoded, chain = record(9, b"hello", salt=1)
    assert decode_header(encoded, 0, 2) is None
    header = decode_header(encoded, 0, 1)
    assert header is not None
    copied = decode_header(copy_header(header, 2), 0, 2)
    assert copied is not None
    assert (copied.index, copied.chain) == (9, chain)


@pytest.mark.parametrize("chunk_bytes", [1, 50, 1 << 20])
def test_a_scan_finds_all_records(chunk_bytes: int) -> None:
    data, positions = records(12)
    walk = scan(data + bytes(300), chunk_bytes=chunk_bytes)
    found = list(walk)
    assert [item.position for item in found] == positions
    assert [bytes(item.payload) for item in found] == [b"payload %d" % i * i for i in range(1, 13)]
    assert (walk.position, walk.last, walk.problem) == (len(data), 12, "")


def test_a_scan_stops_at_a_changed_payload() -> None:
    data, positions = records(5)
    damaged = bytearray(data)
    damaged[positions[2] + RECORD_HEADER_BYTES] ^= 1
    walk = scan(bytes(damaged))
    assert len(list(walk)) == 2
    assert walk.position == positions[2]
    assert "entry 3 does not match" in walk.problem


def test_a_scan_stops_where_the_file_ends_too_soon() -> None:
    data, positions = records(5)
    walk = scan(data[: positions[4] + RECORD_HEADER_BYTES + 3])
    assert len(list(walk)) == 4
    assert "cut short" in walk.problem


def test_a_scan_stops_at_a_gap_unless_gaps_are_expected() -> None:
    one, chain = record(1, b"one")
    three, _ = record(3, b"three", chain)
    walk = scan(one + three)
    assert len(list(walk)) == 1
    assert "entry 3 stands where 2 belongs" in walk.problem
    assert len(list(scan(one + three, sparse=True))) == 2
    assert len(list(scan(three + one, sparse=True))) == 1


def test_a_scan_stops_where_the_chain_breaks() -> None:
    one, chain = record(1, b"one")
    two, _ = record(2, b"two", chain + 1)
    for sparse in (False, True):
        walk = scan(one + two, sparse=sparse)
        assert len(list(walk)) == 1
        assert "chain" in walk.problem


def test_later_records_are_found_behind_garbage() -> None:
    data, positions = records(6)
    garbage = b"\xa9\xd7" * 500 + bytes((1 << 20) - 1020)  # a record across two reads
    found = later_headers(
        file_of(garbage + data[positions[2] :]),
        position=1,
        end=len(garbage) + len(data),
        salt=SALT,
    )
    assert [header.index for header in found] == [3, 4, 5, 6]


def test_a_chain_without_a_past_starts_from_its_mark() -> None:
    assert chain_seed(Index(0), Term(0)) == 0
    assert chain_seed(Index(5), Term(1)) != chain_seed(Index(5), Term(2))
