"""`machines.shard_machine`: snapshots in pieces, in the layout of every release since 0.1.0."""

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Term
from penstock.machines import shard_machine
from penstock.machines.machine import Propose
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.state_pieces import Patch, joined
from tests.groups import join, store


class Layout(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A shard's snapshot as release 0.1.0 reads it."""

    partitions: bytes
    groups: bytes
    catalog: bytes
    queues: bytes = b""
    moves: bytes = b""
    publications: bytes = b""


def filled(groups: int = 50) -> ShardMachine:
    machine = ShardMachine()
    commands = [store(3, group=f"g{number}") for number in range(groups)]
    for index, command in enumerate([join("a", new=True), *commands], start=1):
        plan = machine.plan(command, now_ms=1_000, term=Term(1))
        assert isinstance(plan, Propose)
        machine.apply(Entry(Index(index), Term(1), EntryKind.COMMAND, plan.payload))
    return machine


def test_the_first_release_reads_it() -> None:
    machine = filled()
    state = msgspec.msgpack.decode(machine.snapshot(), type=Layout)
    assert state.groups == machine.groups.snapshot()
    version, _, groups = msgspec.msgpack.decode(state.groups)
    assert version == 1
    assert len(groups) == 51


def test_what_one_encoding_would_give_comes_out() -> None:
    """Byte for byte, so that a release that encodes all at once has the same snapshot."""
    groups = filled().groups
    records = {name: groups.groups[name].record() for name in sorted(groups.groups)}
    assert groups.snapshot() == msgspec.msgpack.encode([1, 1_000, records])


def test_a_snapshot_shows_the_moment_at_which_it_was_asked_for() -> None:
    machine = filled()
    before = machine.snapshot()
    pieces = machine.snapshot_pieces()
    plan = machine.plan(store(9, group="g7"), now_ms=2_000, term=Term(1))
    assert isinstance(plan, Propose)
    machine.apply(Entry(Index(100), Term(1), EntryKind.COMMAND, plan.payload))
    assert joined(pieces) == before != machine.snapshot()


def test_a_machine_that_does_not_fit_goes_on_behind_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = filled()
    whole = machine.snapshot()
    monkeypatch.setattr(shard_machine, "SNAPSHOT_SECTION_BYTES_MAX", 300)
    split = machine.snapshot()
    assert len(split) > len(whole)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(split, type=Layout)
    again = ShardMachine()
    again.restore(split)
    monkeypatch.undo()
    assert again.snapshot() == whole
    assert again.state_bytes() == machine.state_bytes()


def test_pieces_are_small() -> None:
    pieces = [one for one in filled(5_000).snapshot_pieces() if not isinstance(one, Patch)]
    assert max(map(len, pieces)) < 64 * 1024


def test_the_old_state_is_in_force_until_the_new_one_is_complete() -> None:
    state, machine = filled().snapshot(), filled(3)
    before = machine.snapshot()
    restoring = machine.restoring(state)
    for _ in range(20):
        next(restoring)
        assert machine.snapshot() == before
    while True:
        try:
            next(restoring)
        except StopIteration as end:
            end.value()
            break
    assert machine.snapshot() == state
