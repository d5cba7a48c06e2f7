"""The skeleton of a machine that decides in `apply`: groups, queues, moves, publications, catalog.

Such a machine keeps no overlay of planned requests (see "Deciding in `apply`" in
`machines.machine`). This base class does what they have in common:

    plan       checks bounds (`_admit`), stamps and encodes; decides nothing
    apply      decodes, advances log time, calls `_carry_out`; an error of `core.errors` raised
               there becomes the reply `Refused`, and must leave the state unchanged
    version    replicated: changed by a `VersionCommand` in the log, kept in the snapshot
    snapshot   a msgpack array that begins with the version and the log time; made in pieces
               (`machines.state_pieces`), and restored with pauses

A subclass says what its commands are (`codec`), how its snapshot is laid out (`layout`), and
implements `_carry_out`, `_pieces` and `_load`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar, cast

import msgspec

from penstock.core.decoders import decode_msgpack
from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import LocalError, PenstockError, UnsupportedVersion
from penstock.core.types import Offset, PartitionId, Term
from penstock.machines.command_codec import CommandCodec, Stamped, VersionCommand
from penstock.machines.machine import Applied, Plan, Propose, Request, refusal
from penstock.machines.state_bytes import StateKind
from penstock.machines.state_pieces import Buffer, Piece, Restoring, begun, finished, joined


class _SnapshotHead(msgspec.Struct, array_like=True):
    version: int


class SnapshotLayout(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What every snapshot begins with. The layout belongs to the version, so the version comes
    first and is read before the rest."""

    version: int
    time_ms: int


C = TypeVar("C", bound=Stamped)
S = TypeVar("S", bound=SnapshotLayout)


class CommandMachine(ABC, Generic[C, S]):
    """Implements `Machine`."""

    __slots__ = ("_newest_version", "_time_ms", "_time_planned_ms", "_version")

    name: ClassVar[str]
    """In error messages: "groups", "a catalog"."""
    codec: ClassVar[CommandCodec[Any]]
    layout: ClassVar[type[SnapshotLayout]]

    def __init__(self, newest_version: int = 1) -> None:
        """`newest_version` is the newest behaviour this build knows; it knows all before it, too.
        Tests pass another value to act as an older or a newer build."""
        self._newest_version = newest_version
        self._version = 1
        self._time_ms = 0
        self._time_planned_ms = 0

    @property
    def version(self) -> int:
        """The version of the behaviour in force: replicated state, not the build's."""
        return self._version

    @property
    def time_ms(self) -> int:
        """The stamp of the last entry applied."""
        return self._time_ms

    def log_starts(self) -> Mapping[PartitionId, Offset]:
        """These machines store no messages of their own."""
        return {}

    # Planning: on the leader.

    def plan(self, request: Request, *, now_ms: int, term: Term) -> Plan:  # noqa: ARG002
        """Stamp and encode; raises if the request exceeds a bound."""
        if not isinstance(request, self.codec.commands):
            raise LocalError(f"{type(request).__name__} is not a command to {self.name}")
        if isinstance(request, VersionCommand):
            self._check_version(request.version)
        admitted = self._admit(request)  # type: ignore[arg-type]
        stamp_ms = max(self._time_planned_ms, self._time_ms, now_ms)
        payload = self.codec.encode(admitted, stamp_ms=stamp_ms)
        self._time_planned_ms = stamp_ms
        return Propose(payload, stamp_ms)

    def _admit(self, command: C) -> C:
        """The command as it is written; raises if it exceeds a bound. Plans under way are not
        counted, so a bound may be exceeded by as much as is under way."""
        return command

    def forget_plans(self) -> None:
        """Leadership was won or lost."""
        self._time_planned_ms = self._time_ms

    def _check_version(self, version: int) -> None:
        if not 1 <= version <= self._newest_version:
            raise UnsupportedVersion(
                f"version {version} of {self.name} is not known to this build, which knows up to"
                f" {self._newest_version}: start this node with a later version of Penstock"
            )

    # Applying: on every replica; the only code that changes state.

    def apply(self, entry: Entry) -> Applied:
        """Carry out a committed entry, or refuse it on every replica alike."""
        if entry.kind is not EntryKind.COMMAND:
            return Applied()
        command: C = self.codec.decode(entry.payload)
        if isinstance(command, VersionCommand):
            # Not a refusal: a node that does not know the version has to stop.
            self._check_version(command.version)
        self._advance(command.stamp_ms)
        try:
            return self._carry_out(command)
        except PenstockError as error:
            return Applied((refusal(error),))

    def _advance(self, stamp_ms: int) -> None:
        assert stamp_ms >= self._time_ms, f"log time goes back from {self._time_ms} to {stamp_ms}"
        self._time_ms = stamp_ms

    @abstractmethod
    def _carry_out(self, command: C) -> Applied:
        """Decide and change state; a `PenstockError` is raised before anything has changed."""

    # Snapshots.

    def snapshot_pieces(self) -> Iterator[Piece]:
        """The applied state of this moment, in pieces; entries may be applied between them. Equal
        states give equal bytes."""
        return begun(self._pieces())

    def snapshot(self) -> bytes:
        """All of it at once."""
        return joined(self.snapshot_pieces())

    def restore(self, data: Buffer) -> None:
        """Replace the state, plans included, by that of a snapshot."""
        finished(self.restoring(data))()

    def restoring(self, data: Buffer) -> Restoring:
        """The same with pauses; the state is replaced by calling what is returned."""
        try:
            version = decode_msgpack(data, _SnapshotHead).version
            self._check_version(version)
            state = decode_msgpack(data, self._layout_of(version))
            adopt = yield from self._load(state)
        except msgspec.DecodeError as error:
            raise self._unreadable(str(error)) from error

        def replace() -> None:
            adopt()
            self._version = state.version
            self._time_ms = state.time_ms
            self.forget_plans()

        return replace

    def state_bytes(self) -> dict[StateKind, int]:
        """How many bytes the state takes, by kind: see `machines.state_bytes`."""
        return {}

    def _layout_of(self, version: int) -> type[S]:  # noqa: ARG002
        """How a snapshot of this version is laid out."""
        return cast("type[S]", self.layout)

    @abstractmethod
    def _pieces(self) -> Iterator[bytes]:
        """A generator that has fixed the state of the moment when it yields for the first time.
        Tables are sorted by key: the order they grew in is not state."""

    @abstractmethod
    def _load(self, state: S) -> Restoring:
        """Take over everything but version and log time. A generator that pauses now and then and
        returns what puts the new state in place of the old."""

    def _unreadable(self, problem: str) -> UnsupportedVersion:
        return UnsupportedVersion(
            f"this is no snapshot of {self.name} that this build can read ({problem}); start this"
            " node with the version of Penstock that wrote it or a newer one"
        )
