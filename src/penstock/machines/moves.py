"""The moves of one shard: which queues are being emptied into others, and how far that has got.

A move takes the messages of one topic, as its default work group sees them, to another topic or
back to where each of them died. It lives in the shard of its topic's first partition, and the node
that leads this shard carries it out (`engine.moves`); here is only what a successor must know.

Rules that hold here:

- `apply` decides; `plan` only stamps, encodes and keeps bounds. A refused command changes nothing
  but log time and is answered with `Refused`.
- A topic has one move that is running or stopping, at most. Of those that are over, the last ten
  can be asked about.
- A move ends once. After that nothing about it changes.

What was moved is counted when a batch is done. Who dies between moving and counting leaves a count
that is too low, never messages that are moved twice: see `core.moved_message`.
"""

from collections.abc import Iterator

import msgspec

from penstock.core.errors import (
    InvalidRequest,
    MoveRunning,
    Overloaded,
    UnknownMove,
)
from penstock.core.limits import (
    MOVE_FAILURE_CHARACTERS_MAX,
    MOVE_RATE_MAX,
    MOVES_ACTIVE_PER_SHARD_MAX,
    MOVES_KEPT_PER_SOURCE,
)
from penstock.core.move_filter import MoveFilter
from penstock.core.types import Offset, TopicId
from penstock.machines.command_machine import CommandMachine, SnapshotLayout
from penstock.machines.machine import Applied, Reply
from penstock.machines.move_commands import (
    MOVE_CODEC,
    CancelMove,
    EndMove,
    ForgetMoves,
    MoveCommand,
    MoveState,
    ProgressMove,
    StartMove,
    UseMovesVersion,
)
from penstock.machines.state_bytes import DEFAULT_BUDGET, StateBudget, StateKind
from penstock.machines.state_pieces import Restoring, array_header, array_pieces, encoded

MOVES_NEWEST_VERSION = 1
"""The newest behaviour this build knows. It knows all before it, too."""

MOVE_BYTES = 200
"""Of a move in a snapshot, beside its lists and texts."""


class Move(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One move. The order of fields is in snapshots."""

    move_id: str
    source: TopicId
    destination: TopicId
    """`NO_TOPIC_ID`: each message goes back to where it died."""
    rate: int
    filter: MoveFilter
    ends: tuple[Offset, ...]
    positions: tuple[Offset, ...]
    state: MoveState
    to_move: int
    """How many messages the queue had at the start, of which the filter may have meant some."""
    moved: int
    failed: int
    """They cannot be moved, and stay where they are."""
    started_ms: int
    ended_ms: int = -1
    failure: str = ""


class MoveReply(Reply, frozen=True):
    """The move as it is now."""

    move: Move


class MovesUpdated(Reply, frozen=True):
    """It is done."""


class _Snapshot(SnapshotLayout):
    moves: list[Move]


class Moves(CommandMachine[MoveCommand, _Snapshot]):
    """The machine of one shard's moves."""

    __slots__ = ("_active_ids", "_budget", "_by_source", "_bytes")

    name = "moves"
    codec = MOVE_CODEC
    layout = _Snapshot

    def __init__(
        self,
        *,
        newest_version: int = MOVES_NEWEST_VERSION,
        budget: StateBudget = DEFAULT_BUDGET,
    ) -> None:
        super().__init__(newest_version)
        self._budget = budget
        self._bytes = 0
        self._by_source: dict[TopicId, dict[str, Move]] = {}
        self._active_ids: dict[TopicId, str] = {}

    # Reading.

    def sources(self) -> Iterator[TopicId]:
        """Every topic that has a move."""
        return iter(self._by_source)

    def of(self, source: TopicId) -> list[Move]:
        """The moves out of a topic, those started last first."""
        return list(self._by_source.get(source, {}).values())[::-1]

    def get(self, source: TopicId, move_id: str) -> Move | None:
        """The move of this id, active or ended; None if there is none."""
        return self._by_source.get(source, {}).get(move_id)

    def active(self) -> list[Move]:
        """The moves that are to be worked on."""
        return [self._by_source[source][move_id] for source, move_id in self._active_ids.items()]

    def state_bytes(self) -> dict[StateKind, int]:
        return {StateKind.MOVES: self._bytes}

    def describe(self) -> str:
        """`version 1 time 1700 moves 3 active 1`."""
        count = sum(map(len, self._by_source.values()))
        return (
            f"version {self._version} time {self._time_ms} moves {count}"
            f" active {len(self._active_ids)}"
        )

    # Planning: on the leader.

    def _admit(self, command: MoveCommand) -> MoveCommand:
        if isinstance(command, StartMove):
            self._check_start(command)
        return command

    def _check_start(self, command: StartMove) -> None:
        """Bounds. What is under way is not counted: one may be exceeded by that much, not more."""
        command.filter.check()
        if not 1 <= command.rate <= MOVE_RATE_MAX:
            raise InvalidRequest(
                f"a move cannot move {command.rate} messages each second; choose from 1 to"
                f" {MOVE_RATE_MAX}"
            )
        if len(self._active_ids) >= MOVES_ACTIVE_PER_SHARD_MAX:
            raise Overloaded(
                f"{MOVES_ACTIVE_PER_SHARD_MAX} moves are under way in this shard, the most there"
                " may be; wait until one has ended",
                retry_after_ms=1_000,
            )
        self._budget.check(StateKind.MOVES, self._bytes)

    # Applying: on every replica; the only code that changes state.

    def _carry_out(self, command: MoveCommand) -> Applied:
        return Applied((self._reply_to(command),))

    def _reply_to(self, command: MoveCommand) -> Reply:
        match command:
            case StartMove():
                return MoveReply(self._start(command))
            case ProgressMove():
                return MoveReply(self._progress(command))
            case CancelMove(source=source, move_id=move_id):
                move = self._active(source, move_id)
                return MoveReply(self._keep(move, state=MoveState.CANCELLING))
            case EndMove(source=source, move_id=move_id, failure=failure):
                return MoveReply(self._end(self._active(source, move_id), failure))
            case ForgetMoves(sources=sources):
                for source in sources:
                    self._forget(source, 0)
                return MovesUpdated()
            case UseMovesVersion(version=version):
                self._version = max(self._version, version)
                return MovesUpdated()

    def _start(self, command: StartMove) -> Move:
        known = self.get(command.source, command.move_id)
        if known is not None:
            return known
        running = self._active_ids.get(command.source)
        if running is not None:
            raise MoveRunning(
                f"move {running} moves messages of this queue already; wait until it has ended, or"
                " cancel it"
            )
        new = Move(
            move_id=command.move_id,
            source=command.source,
            destination=command.destination,
            rate=command.rate,
            filter=command.filter,
            ends=command.ends,
            positions=(Offset(0),) * len(command.ends),
            state=MoveState.RUNNING,
            to_move=command.to_move,
            moved=0,
            failed=0,
            started_ms=self._time_ms,
        )
        self._add(new)
        return new

    def _add(self, move: Move) -> None:
        self._by_source.setdefault(move.source, {})[move.move_id] = move
        self._bytes += move_bytes(move)
        if move.state.is_active:
            self._active_ids[move.source] = move.move_id

    def _progress(self, command: ProgressMove) -> Move:
        move = self._active(command.source, command.move_id)
        # A leader that was replaced and does not know yet may be behind.
        both = zip(move.positions, command.positions, strict=False)
        return self._keep(
            move,
            moved=move.moved + command.moved,
            failed=move.failed + command.failed,
            positions=tuple(max(before, after) for before, after in both),
        )

    def _end(self, move: Move, failure: str) -> Move:
        if move.state is MoveState.CANCELLING:
            state = MoveState.CANCELLED
        else:
            state = MoveState.FAILED if failure else MoveState.COMPLETED
        ended = self._keep(
            move,
            state=state,
            failure=failure[:MOVE_FAILURE_CHARACTERS_MAX],
            ended_ms=self._time_ms,
            # Messages named one by one may be many, and are no longer needed.
            filter=msgspec.structs.replace(move.filter, ids=(), places=()),
        )
        del self._active_ids[move.source]
        self._forget(move.source, MOVES_KEPT_PER_SOURCE)
        return ended

    def _active(self, source: TopicId, move_id: str) -> Move:
        move = self.get(source, move_id)
        if move is None:
            raise UnknownMove(f"this queue has no move {move_id}")
        if not move.state.is_active:
            raise UnknownMove(f"move {move_id} is over: {move.state.name}")
        return move

    def _keep(self, move: Move, **changes: object) -> Move:
        changed = msgspec.structs.replace(move, **changes)
        self._bytes += move_bytes(changed) - move_bytes(move)
        self._by_source[move.source][move.move_id] = changed
        return changed

    def _forget(self, source: TopicId, kept: int) -> None:
        """Forget moves that are over, but so many that ended last."""
        moves = self._by_source.get(source, {})
        over = [move for move in moves.values() if not move.state.is_active]
        for move in over[: max(0, len(over) - kept)]:
            del moves[move.move_id]
            self._bytes -= move_bytes(move)
        if not moves:
            self._by_source.pop(source, None)

    # Snapshots.

    def _pieces(self) -> Iterator[bytes]:
        # By topic; within one, in the order they were started, which is state.
        moves = [move for source in sorted(self._by_source) for move in self.of(source)[::-1]]
        yield array_header(3) + encoded(self._version, self._time_ms)
        yield from array_pieces(moves)

    def _load(self, state: _Snapshot) -> Restoring:
        yield

        def adopt() -> None:
            self._by_source, self._active_ids, self._bytes = {}, {}, 0
            for move in state.moves:
                self._add(move)

        return adopt


def move_bytes(move: Move) -> int:
    """What a move counts for."""
    wanted = move.filter
    return (
        MOVE_BYTES
        + len(move.failure)
        + sum(map(len, wanted.ids))
        + 16 * len(wanted.places)
        + 16 * len(move.ends)
    )
