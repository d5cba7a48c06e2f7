"""The table of moves: one at a time for each queue, each ends once, and the last ten are kept."""

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import InvalidRequest, LocalError, Overloaded, UnsupportedVersion
from penstock.core.limits import MOVE_RATE_MAX
from penstock.core.move_filter import EVERYTHING, MoveFilter
from penstock.core.types import NO_TOPIC_ID, Index, Offset, PartitionId, Term, TopicId
from penstock.machines import moves
from penstock.machines.commands import DeletePartition
from penstock.machines.machine import Applied, Propose, Refused, Reply
from penstock.machines.move_commands import (
    CancelMove,
    EndMove,
    ForgetMoves,
    MoveCommand,
    MoveState,
    ProgressMove,
    StartMove,
    UseMovesVersion,
)
from penstock.machines.moves import Move, MoveReply, Moves, MovesUpdated

LETTERS = TopicId(b"letters".ljust(16, b"."))
OTHERS = TopicId(b"others".ljust(16, b"."))


class MovesShard:
    """A leader's moves and a follower's, fed with the same entries."""

    def __init__(self) -> None:
        self.machine = Moves()
        self.follower = Moves()
        self.log: list[Entry] = []
        self.now_ms = 1_000

    def write(self, command: MoveCommand) -> Entry:
        plan = self.machine.plan(command, now_ms=self.now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        entry = Entry(Index(len(self.log) + 1), Term(1), EntryKind.COMMAND, plan.payload)
        self.log.append(entry)
        return entry

    def do(self, command: MoveCommand) -> Reply:
        entry = self.write(command)
        applied = self.machine.apply(entry)
        assert self.follower.apply(entry) == applied
        return applied.replies[0]

    def move(self, command: MoveCommand) -> Move:
        reply = self.do(command)
        assert isinstance(reply, MoveReply), f"it was refused: {reply}"
        return reply.move

    def refuse(self, command: MoveCommand) -> Refused:
        before = self.state()
        reply = self.do(command)
        assert isinstance(reply, Refused), f"it was accepted: {reply}"
        assert self.state() == before
        return reply

    def state(self) -> object:
        """Everything but log time."""
        return msgspec.msgpack.decode(self.machine.snapshot())[2]


@pytest.fixture
def shard() -> MovesShard:
    return MovesShard()


def start(
    move_id: str = "m",
    *,
    source: TopicId = LETTERS,
    rate: int = 500,
    wanted: MoveFilter = EVERYTHING,
) -> StartMove:
    return StartMove(
        move_id=move_id,
        source=source,
        destination=NO_TOPIC_ID,
        rate=rate,
        filter=wanted,
        ends=(Offset(70), Offset(80)),
        to_move=9,
    )


def progress(moved: int, failed: int, *positions: int, move_id: str = "m") -> ProgressMove:
    return ProgressMove(
        source=LETTERS,
        move_id=move_id,
        moved=moved,
        failed=failed,
        positions=tuple(map(Offset, positions)),
    )


def end(move_id: str = "m", failure: str = "") -> EndMove:
    return EndMove(source=LETTERS, move_id=move_id, failure=failure)


def cancel(move_id: str = "m") -> CancelMove:
    return CancelMove(source=LETTERS, move_id=move_id)


def test_a_move_from_beginning_to_end(shard: MovesShard) -> None:
    begun = shard.move(start())
    assert (begun.state, begun.moved, begun.failed, begun.started_ms) == (1, 0, 0, 1_000)
    assert (begun.positions, begun.ended_ms) == ((0, 0), -1)
    assert shard.machine.active() == [begun]
    shard.now_ms = 2_000
    shard.move(progress(5, 1, 10, 0))
    moved = shard.move(progress(2, 0, 20, 30))
    assert (moved.moved, moved.failed, moved.positions) == (7, 1, (20, 30))
    assert shard.machine.get(LETTERS, "m") == moved
    ended = shard.move(end())
    assert (ended.state, ended.ended_ms, ended.moved) == (MoveState.COMPLETED, 2_000, 7)
    assert shard.machine.active() == []
    assert shard.machine.of(LETTERS) == [ended]


def test_starting_the_same_move_twice_is_starting_it_once(shard: MovesShard) -> None:
    shard.move(start())
    shard.now_ms = 5_000
    again = shard.move(start(rate=7))
    assert (again.started_ms, again.rate) == (1_000, 500)
    ended = shard.move(end())
    assert shard.move(start()) == ended, "even when it is over"


def test_a_queue_has_one_active_move(shard: MovesShard) -> None:
    shard.move(start())
    assert shard.refuse(start("n")).code == "MoveRunning"
    assert shard.move(start("n", source=OTHERS)).state is MoveState.RUNNING
    shard.move(cancel())
    assert shard.refuse(start("o")).code == "MoveRunning"
    shard.move(end())
    shard.move(start("o"))
    assert [one.move_id for one in shard.machine.of(LETTERS)] == ["o", "m"]
    assert {one.move_id for one in shard.machine.active()} == {"o", "n"}
    assert set(shard.machine.sources()) == {LETTERS, OTHERS}


def test_a_move_that_is_to_stop_has_stopped_when_it_ends(shard: MovesShard) -> None:
    shard.move(start())
    assert shard.move(cancel()).state is MoveState.CANCELLING
    assert shard.move(cancel()).state is MoveState.CANCELLING, "saying it twice does no harm"
    assert shard.move(progress(3, 0, 5, 5)).moved == 3, "what was under way counts"
    assert shard.move(end(failure="cut short")).state is MoveState.CANCELLED


def test_a_move_can_fail(shard: MovesShard) -> None:
    shard.move(start())
    failed = shard.move(end(failure="x" * 5_000))
    assert (failed.state, failed.failure) == (MoveState.FAILED, "x" * 1_000)


def test_what_is_over_or_was_never_there_does_not_change(shard: MovesShard) -> None:
    for command in (progress(1, 1, 1, 1), cancel(), end()):
        assert shard.refuse(command).code == "UnknownMove"
    shard.move(start())
    shard.move(end())
    for command in (progress(1, 1, 1, 1), cancel(), end()):
        refused = shard.refuse(command)
        assert (refused.code, refused.message) == ("UnknownMove", "move m is over: COMPLETED")


def test_who_is_behind_takes_nothing_back(shard: MovesShard) -> None:
    shard.move(start())
    shard.move(progress(5, 0, 50, 10))
    assert shard.move(progress(1, 0, 40, 20)).positions == (50, 20)


def test_the_last_ten_that_are_over_are_kept(shard: MovesShard) -> None:
    for number in range(13):
        shard.move(start(f"m{number}"))
        shard.move(end(f"m{number}"))
    shard.move(start("active"))
    known = [one.move_id for one in shard.machine.of(LETTERS)]
    assert known == ["active", *(f"m{number}" for number in range(12, 2, -1))]


def test_messages_named_one_by_one_are_forgotten_with_the_end(shard: MovesShard) -> None:
    wanted = MoveFilter(reason="r", ids=("one", "two"), places=((0, Offset(1)),))
    shard.move(start(wanted=wanted))
    assert shard.machine.active()[0].filter == wanted
    assert shard.move(end()).filter == MoveFilter(reason="r")


def test_moves_of_deleted_topics_are_forgotten_when_they_are_over(shard: MovesShard) -> None:
    shard.move(start("m"))
    shard.move(end("m"))
    shard.move(start("n"))
    assert shard.do(ForgetMoves(sources=(LETTERS, OTHERS))) == MovesUpdated()
    assert [one.move_id for one in shard.machine.of(LETTERS)] == ["n"]
    shard.move(end("n"))
    shard.do(ForgetMoves(sources=(LETTERS,)))
    assert list(shard.machine.sources()) == []
    assert shard.machine.of(LETTERS) == []


# The machine.


def test_replay_and_snapshot_give_the_same_state(shard: MovesShard) -> None:
    for number in range(3):
        shard.move(start(f"m{number}", wanted=MoveFilter(body="b")))
        shard.move(progress(number, 1, 5, 6, move_id=f"m{number}"))
        shard.move(end(f"m{number}", "it broke" if number == 1 else ""))
    shard.move(start("n", source=OTHERS))
    shard.move(start("last"))
    state = shard.machine.snapshot()
    restored = Moves()
    restored.restore(state)
    assert restored.snapshot() == state == shard.follower.snapshot()
    assert restored.describe() == shard.machine.describe() == "version 1 time 1000 moves 5 active 2"
    assert restored.of(LETTERS) == shard.machine.of(LETTERS)
    for command in (cancel("last"), end("last"), start("m9")):
        entry = shard.write(command)
        assert shard.machine.apply(entry) == restored.apply(entry)
    assert restored.snapshot() == shard.machine.snapshot() != state


def test_the_order_of_queues_is_not_state() -> None:
    one, other = MovesShard(), MovesShard()
    commands = [start(), start("n", source=OTHERS)]
    for command in commands:
        one.do(command)
    for command in reversed(commands):
        other.do(command)
    assert one.machine.snapshot() == other.machine.snapshot()


def test_time_is_the_logs_and_never_goes_back(shard: MovesShard) -> None:
    shard.move(start())
    shard.now_ms = 10
    assert shard.move(end()).ended_ms == 1_000
    shard.now_ms = 2_000
    shard.write(start("lost"))
    shard.machine.forget_plans()
    shard.now_ms = 1_500
    assert shard.move(start("n")).started_ms == 1_500


def test_bounds_are_kept_before_a_write(shard: MovesShard, monkeypatch: pytest.MonkeyPatch) -> None:
    for rate in (0, -1, MOVE_RATE_MAX + 1):
        with pytest.raises(InvalidRequest, match="each second"):
            shard.write(start(rate=rate))
    with pytest.raises(InvalidRequest, match="characters"):
        shard.write(start(wanted=MoveFilter(key="x" * 1_001)))
    monkeypatch.setattr(moves, "MOVES_ACTIVE_PER_SHARD_MAX", 1)
    shard.move(start())
    with pytest.raises(Overloaded, match="under way"):
        shard.write(start("n", source=OTHERS))


def test_what_is_not_for_moves_is_left_alone(shard: MovesShard) -> None:
    assert shard.machine.apply(Entry(Index(1), Term(1), EntryKind.NOOP, b"")) == Applied()
    assert shard.machine.log_starts() == {}
    with pytest.raises(LocalError, match="DeletePartition is not a command"):
        shard.machine.plan(DeletePartition(partition=PartitionId(1)), now_ms=1, term=Term(1))


def test_versions() -> None:
    new, old = Moves(newest_version=2), Moves()
    with pytest.raises(UnsupportedVersion, match="knows up to 1"):
        old.plan(UseMovesVersion(version=2), now_ms=1, term=Term(1))
    plan = new.plan(UseMovesVersion(version=2), now_ms=1, term=Term(1))
    assert isinstance(plan, Propose)
    entry = Entry(Index(1), Term(1), EntryKind.COMMAND, plan.payload)
    assert new.apply(entry) == Applied((MovesUpdated(),))
    assert new.version == 2
    before = old.snapshot()
    with pytest.raises(UnsupportedVersion):
        old.apply(entry)
    with pytest.raises(UnsupportedVersion):
        old.restore(new.snapshot())
    with pytest.raises(UnsupportedVersion, match="no snapshot of moves"):
        old.restore(b"something else")
    assert old.snapshot() == before
