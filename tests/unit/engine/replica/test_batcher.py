"""The batcher: consecutive appends share an entry, commands close it, large groups are cut."""

from penstock.core.entries import EntryKind
from penstock.core.limits import ENTRY_APPLY_US_MAX, GATHER_BYTES_MAX
from penstock.core.types import Offset, PartitionId
from penstock.engine.replica.batcher import Batcher
from penstock.machines.machine import Append, Propose


def ignore(_: object) -> None:
    """Nobody waits."""


def append_of(size: int, apply_us: int = 0) -> Append:
    return Append(PartitionId(0), Offset(0), 1, 0, bytearray(size), 0, apply_us)


def gathered(*sizes: int) -> Batcher:
    batcher = Batcher()
    for size in sizes:
        batcher.add(append_of(size), ignore)
    return batcher


def waiters_of_entries(*apply_us: int) -> list[int]:
    batcher = Batcher()
    for one in apply_us:
        batcher.add(append_of(10, one), ignore)
    return [len(entry.waiters) for entry in batcher.take(1 << 20)]


def test_consecutive_appends_share_an_entry() -> None:
    (entry,) = gathered(10, 20, 30).take(1)
    assert entry.size == 60
    assert len(entry.waiters) == 3
    assert entry.encode()[0] is EntryKind.APPEND


def test_a_command_closes_the_entry() -> None:
    batcher = gathered(10)
    batcher.add(Propose(b"command", 0), ignore)
    batcher.add(append_of(10), ignore)
    entries = batcher.take(1_000)
    assert [entry.size for entry in entries] == [10, 7, 10]
    assert entries[1].encode() == (EntryKind.COMMAND, b"command")


def test_an_entry_is_full_when_its_messages_take_long_to_apply() -> None:
    most = ENTRY_APPLY_US_MAX
    assert waiters_of_entries(*[most // 4] * 9) == [4, 4, 1]
    assert waiters_of_entries(1, most, 3 * most, most - 1, 1, 1) == [1, 1, 1, 2, 1]


def test_messages_that_no_queue_looks_at_have_room_beside_others() -> None:
    most = ENTRY_APPLY_US_MAX
    assert waiters_of_entries(*[0] * 50, 2 * most, *[0] * 50, 1, 0) == [50, 51, 2]


def test_a_take_is_bounded_but_for_its_first_entry() -> None:
    batcher = gathered(GATHER_BYTES_MAX, GATHER_BYTES_MAX, 5)
    assert [entry.size for entry in batcher.take(1)] == [GATHER_BYTES_MAX]
    assert [entry.size for entry in batcher.take(GATHER_BYTES_MAX + 5)] == [GATHER_BYTES_MAX, 5]
    assert batcher.take(1) == []
    assert not batcher


def test_an_answer_rides_on_what_is_still_gathered() -> None:
    batcher = gathered(GATHER_BYTES_MAX, 5)
    batcher.take(1)
    assert batcher.ride(append_of(1).reply, ignore)
    (entry,) = batcher.take(1)
    assert len(entry.waiters) == 2
    assert not batcher.ride(append_of(1).reply, ignore)
