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

from collections.abc import Iterator, Mapping
from typing import get_args

import msgspec

from penstock.core.decoders import decode_msgpack
from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import (
    InvalidRequest,
    LocalError,
    MoveRunning,
    Overloaded,
    PenstockError,
    UnknownMove,
    UnsupportedVersion,
)
from penstock.core.limits import (
    MOVE_FAILURE_CHARACTERS_MAX,
    MOVE_RATE_MAX,
    MOVES_ACTIVE_PER_SHARD_MAX,
    MOVES_KEPT_PER_SOURCE,
)
from penstock.core.move_filter import MoveFilter
from penstock.core.types import Offset, PartitionId, Term, TopicId
from penstock.machines.machine import Applied, Plan, Propose, Reply, Request, refusal
from penstock.machines.move_commands import (
    CancelMove,
    EndMove,
    ForgetMoves,
    MoveCommand,
    MoveState,
    ProgressMove,
    StartMove,
    UseMovesVersion,
    decode_move_command,
    encode_move_command,
)

MOVES_NEWEST_VERSION = 1
"""The newest behaviour this build knows. It knows all before it, too."""

_COMMANDS = get_args(MoveCommand)


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


class _SnapshotHead(msgspec.Struct, array_like=True):
    version: int


class _Snapshot(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The layout belongs to the version, which comes first and is read before the rest."""

    version: int
    time_ms: int
    moves: list[Move]


class Moves:
    """The machine of one shard's moves. Implements `Machine`."""

    __slots__ = (
        "_active_ids",
        "_by_source",
        "_newest_version",
        "_time_ms",
        "_time_planned_ms",
        "_version",
    )

    def __init__(self, *, newest_version: int = MOVES_NEWEST_VERSION) -> None:
        self._newest_version = newest_version
        self._version = 1
        self._time_ms = 0
        self._time_planned_ms = 0
        self._by_source: dict[TopicId, dict[str, Move]] = {}
        self._active_ids: dict[TopicId, str] = {}

    # Reading.

    @property
    def version(self) -> int:
        return self._version

    @property
    def time_ms(self) -> int:
        return self._time_ms

    def sources(self) -> Iterator[TopicId]:
        """Every topic that has a move."""
        return iter(self._by_source)

    def of(self, source: TopicId) -> list[Move]:
        """The moves out of a topic, those started last first."""
        return list(self._by_source.get(source, {}).values())[::-1]

    def get(self, source: TopicId, move_id: str) -> Move | None:
        """One move."""
        return self._by_source.get(source, {}).get(move_id)

    def active(self) -> list[Move]:
        """The moves that somebody should work on."""
        return [self._by_source[source][move_id] for source, move_id in self._active_ids.items()]

    def log_starts(self) -> Mapping[PartitionId, Offset]:
        return {}

    def describe(self) -> str:
        """`version 1 time 1700 moves 3 active 1`."""
        count = sum(map(len, self._by_source.values()))
        return (
            f"version {self._version} time {self._time_ms} moves {count}"
            f" active {len(self._active_ids)}"
        )

    # Planning: on the leader.

    def plan(self, request: Request, *, now_ms: int, term: Term) -> Plan:  # noqa: ARG002
        if not isinstance(request, _COMMANDS):
            raise LocalError(f"{type(request).__name__} is no request to moves")
        if isinstance(request, StartMove):
            self._check_start(request)
        elif isinstance(request, UseMovesVersion):
            self._check_version(request.version)
        stamp_ms = max(self._time_planned_ms, self._time_ms, now_ms)
        payload = encode_move_command(request, stamp_ms=stamp_ms)
        self._time_planned_ms = stamp_ms
        return Propose(payload, stamp_ms)

    def forget_plans(self) -> None:
        self._time_planned_ms = self._time_ms

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

    def _check_version(self, version: int) -> None:
        if not 1 <= version <= self._newest_version:
            raise UnsupportedVersion(
                f"moves of version {version} are asked for, this build knows up to"
                f" {self._newest_version}: start this node with a later version of Penstock"
            )

    # Applying: on every replica; the only code that changes state.

    def apply(self, entry: Entry) -> Applied:
        if entry.kind is not EntryKind.COMMAND:
            return Applied()
        command = decode_move_command(entry.payload)
        if isinstance(command, UseMovesVersion):
            self._check_version(command.version)
        assert command.stamp_ms >= self._time_ms, (
            f"log time goes back from {self._time_ms} to {command.stamp_ms}"
        )
        self._time_ms = command.stamp_ms
        try:
            return Applied((self._carry_out(command),))
        except PenstockError as error:
            return Applied((refusal(error),))

    def _carry_out(self, command: MoveCommand) -> Reply:
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
        if move.state.is_active:
            self._active_ids[move.source] = move.move_id

    def _progress(self, command: ProgressMove) -> Move:
        move = self._active(command.source, command.move_id)
        # Whoever was replaced and does not know yet may be behind.
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
            # Messages named one by one may be many, and nobody looks for them any more.
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
        self._by_source[move.source][move.move_id] = changed
        return changed

    def _forget(self, source: TopicId, kept: int) -> None:
        """Forget moves that are over, but so many that ended last."""
        moves = self._by_source.get(source, {})
        over = [move for move in moves.values() if not move.state.is_active]
        for move in over[: max(0, len(over) - kept)]:
            del moves[move.move_id]
        if not moves:
            self._by_source.pop(source, None)

    # Snapshots.

    def snapshot(self) -> bytes:
        # By topic; within one, in the order they were started, which is state.
        moves = [move for source in sorted(self._by_source) for move in self.of(source)[::-1]]
        return msgspec.msgpack.encode(_Snapshot(self._version, self._time_ms, moves))

    def restore(self, data: bytes) -> None:
        try:
            self._check_version(decode_msgpack(data, _SnapshotHead).version)
            state = decode_msgpack(data, _Snapshot)
        except msgspec.DecodeError as error:
            raise UnsupportedVersion(
                f"this is no snapshot of moves that this build can read ({error}); start this node"
                " with the version of Penstock that wrote it or a newer one"
            ) from error
        self._version = state.version
        self._time_ms = state.time_ms
        self._by_source, self._active_ids = {}, {}
        for move in state.moves:
            self._add(move)
        self.forget_plans()
