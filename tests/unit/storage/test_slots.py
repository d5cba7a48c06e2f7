"""Two slots: a torn write, a rotten slot, and the order of generations."""

from random import Random

import pytest

from penstock.storage.slots import SLOT_B, SlotFile
from penstock.testing.disk import FaultyDisk

PATH = "/slots"
MAGIC = 123


def made(numbers: tuple[int, ...]) -> FaultyDisk:
    disk = FaultyDisk()
    SlotFile.open(disk, PATH, MAGIC, create=True).write_both(numbers)
    disk.sync_directory("/")
    return disk


def load(disk: FaultyDisk) -> tuple[int, ...] | None:
    return SlotFile.open(disk, PATH, MAGIC).numbers


def test_an_empty_file_has_no_content() -> None:
    assert SlotFile.open(FaultyDisk(), PATH, MAGIC, create=True).numbers is None


def test_what_was_written_is_read() -> None:
    disk = made((1, 2))
    assert load(disk) == (1, 2, 0, 0)
    slots = SlotFile.open(disk, PATH, MAGIC)
    for number in range(5):
        slots.write_next((number, number))
        assert load(disk) == (number, number, 0, 0)


@pytest.mark.parametrize("position", [5, SLOT_B + 5])
def test_one_rotten_slot_loses_nothing_that_was_written_to_both(position: int) -> None:
    disk = made((1, 2))
    disk.flip_bit(PATH, position, 3)
    assert load(disk) == (1, 2, 0, 0)


def test_two_rotten_slots_are_noticed() -> None:
    disk = made((1, 2))
    disk.flip_bit(PATH, 9, 3)
    disk.flip_bit(PATH, SLOT_B + 9, 3)
    assert load(disk) is None


def test_a_file_of_another_kind_is_not_believed() -> None:
    assert SlotFile.open(made((1,)), PATH, MAGIC + 1).numbers is None


def test_a_crash_between_the_slots_leaves_the_old_or_the_new() -> None:
    for done in range(3):
        seen = set()
        for seed in range(20):
            disk = made((1, 1))
            steps = SlotFile.open(disk, PATH, MAGIC).both_steps((2, 2))
            for step in steps[:done]:
                step()
            disk.crash(Random(seed))
            seen.add(load(disk))
        assert seen == ({(1, 1, 0, 0)} if done == 0 else {(2, 2, 0, 0)})


def test_an_unsynced_note_is_kept_or_lost_but_never_torn() -> None:
    seen = set()
    for seed in range(40):
        disk = made((1, 1))
        slots = SlotFile.open(disk, PATH, MAGIC)
        slots.write_next((2, 2))
        slots.write_next((3, 3))
        disk.crash(Random(seed))
        seen.add(load(disk))
    assert seen == {(1, 1, 0, 0), (2, 2, 0, 0), (3, 3, 0, 0)}
