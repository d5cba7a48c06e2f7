"""Entries that a follower stores, and entries that would halt it."""

import struct

import msgspec
import pytest

from penstock.core.append_payload import Slice, check_append, encode_append
from penstock.core.entries import Entry, EntryKind, Membership, encode_membership
from penstock.core.errors import InvalidBatch
from penstock.core.limits import INDEX_MAX, TERM_MAX
from penstock.core.types import Index, NodeId, Offset, PartitionId, Term
from penstock.machines.commands import CreatePartition, encode_command
from penstock.machines.entry_check import check_entry
from tests.batches import build_batch, with_bytes


def entry(kind: EntryKind, payload: bytes, *, index: int = 1, term: int = 1) -> Entry:
    return Entry(Index(index), Term(term), kind, payload)


def batch_at(offset: int, count: int = 1) -> bytearray:
    batch = build_batch(count)
    struct.pack_into(">q", batch, 0, offset)
    return batch


def payload(
    *batches: bytearray, base: int = 5, span: int | None = None, count: int | None = None
) -> bytes:
    part = Slice(
        PartitionId(1),
        sum(map(len, batches)),
        Offset(base),
        len(batches) if span is None else span,
        len(batches) if count is None else count,
        0,
    )
    return encode_append(7, [(part, batches)])


def members(*voters: int, learners: tuple[int, ...] = ()) -> bytes:
    return encode_membership(Membership(tuple(map(NodeId, voters)), tuple(map(NodeId, learners))))


COMMAND = encode_command(CreatePartition(partition=PartitionId(1)), stamp_ms=1)
WHOLE = payload(batch_at(5), batch_at(6))


@pytest.mark.parametrize(
    "good",
    [
        entry(EntryKind.NOOP, b""),
        entry(EntryKind.COMMAND, COMMAND),
        entry(EntryKind.MEMBERSHIP, members(1, 2, learners=(3,))),
        entry(EntryKind.APPEND, WHOLE),
        # Compacted: gaps in front, between and behind.
        entry(EntryKind.APPEND, payload(batch_at(6), batch_at(9), span=8)),
        entry(EntryKind.APPEND, WHOLE, index=INDEX_MAX, term=TERM_MAX),
    ],
)
def test_what_a_leader_writes_is_taken(good: Entry) -> None:
    check_entry(good)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (entry(EntryKind.APPEND, b"garbage"), "payload of 7 bytes"),
        (entry(EntryKind.APPEND, b""), "payload of 0 bytes"),
        (entry(EntryKind.APPEND, struct.pack("<qI", 1, 0) + bytes(40)), "0 slices"),
        (entry(EntryKind.APPEND, struct.pack("<qI", 1, 1 << 31) + bytes(40)), "slices"),
        (entry(EntryKind.APPEND, WHOLE[:-1]), "do not fill"),
        (entry(EntryKind.APPEND, WHOLE + b"x"), "do not fill"),
        (entry(EntryKind.APPEND, payload(batch_at(5), count=2, span=2)), "within a batch"),
        (entry(EntryKind.APPEND, payload(batch_at(5), batch_at(6), count=1)), "behind"),
        (entry(EntryKind.APPEND, payload(batch_at(5), count=0)), "APPEND payload with Slice"),
        (entry(EntryKind.APPEND, payload(batch_at(5), base=-1)), "APPEND payload with Slice"),
        (entry(EntryKind.APPEND, payload(batch_at(4))), "a batch at 4"),
        (entry(EntryKind.APPEND, payload(batch_at(6))), "a batch at 6"),
        (entry(EntryKind.APPEND, payload(batch_at(6), batch_at(5))), "a batch at"),
        (entry(EntryKind.APPEND, payload(with_bytes(batch_at(5), 16, b"\1"))), "magic 1"),
        (entry(EntryKind.APPEND, payload(batch_at(5)[:-1] + b"\1")), "CRC-32C"),
        (entry(EntryKind.APPEND, payload(with_bytes(batch_at(5), 8, b"\x7f"))), "holds a batch"),
        (entry(EntryKind.COMMAND, b""), "cannot be read"),
        (entry(EntryKind.COMMAND, COMMAND[:-1]), "cannot be read"),
        (entry(EntryKind.COMMAND, msgspec.msgpack.encode(["no such command", 1])), "cannot be"),
        (entry(EntryKind.COMMAND, b"\x91" * 100_000), "cannot be read"),
        (entry(EntryKind.MEMBERSHIP, b"\xc1"), "cannot be read"),
        (entry(EntryKind.MEMBERSHIP, members()), "not a valid membership"),
        (entry(EntryKind.MEMBERSHIP, members(0)), "not a valid membership"),
        (entry(EntryKind.MEMBERSHIP, members(1, learners=(1,))), "not a valid membership"),
        (entry(EntryKind.NOOP, b"x"), "1 bytes"),
        (entry(EntryKind.NOOP, b"", index=0), "index 0"),
        (entry(EntryKind.NOOP, b"", index=INDEX_MAX + 1), "index"),
        (entry(EntryKind.NOOP, b"", term=TERM_MAX + 1), "term"),
    ],
)
def test_what_would_halt_a_replica_is_refused(bad: Entry, problem: str) -> None:
    with pytest.raises(InvalidBatch, match=problem):
        check_entry(bad)


def test_every_flipped_bit_is_found_or_harmless() -> None:
    """A changed payload is refused, or it can still be read to its end."""
    for bit in range(8 * len(WHOLE)):
        changed = bytearray(WHOLE)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            check_entry(entry(EntryKind.APPEND, bytes(changed)))
        except InvalidBatch:
            continue
        check_append(bytes(changed))
