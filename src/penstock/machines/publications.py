"""The publications of one shard: which batch each application published last, and which is under
way.

A transactional produce. A client that wants a batch of messages to be stored once, in all its
partitions or in none, first stages them: they are appended to staging partitions, which have no
readers. Then it publishes: one command here says which staged messages the batch consists of. With
that command the batch is decided; the node that leads this shard brings every partition its part
(`engine.topics.publications`), and a successor goes on where it stopped. A batch that is asked for
again, by a caller who never got an answer, is found to be decided, and what was staged for it anew
is left to expire.

Rules that hold here:

- `apply` decides; `plan` only stamps, encodes and keeps bounds. A refused command changes nothing
  but log time and is answered with `Refused`.
- The first decision about a batch stands. Batches of an application only go up: one that is not
  above the last is not new.
- One publication of an application is under way at a time, so all partitions see the batches of an
  application in the same order.
- An owner that is not the one that published last may go on, and may not repeat: its batch 3 is not
  the other's batch 3, and to call it published would lose it.

How a part is appended once: every publication is an epoch of a producer that belongs to the
application, and numbers its messages from 0 in each partition. So a partition knows by itself how
much of its part it has, and fences a leader that was replaced and does not know yet.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from penstock.core.errors import (
    InvalidRequest,
    Overloaded,
    PublicationConflict,
    Unavailable,
)
from penstock.core.limits import (
    APPLICATION_NAME_BYTES_MAX,
    APPLICATIONS_PER_SHARD_MAX,
    PUBLICATION_OWNER_BYTES_MAX,
    PUBLICATION_PART_RECORDS_MAX,
    PUBLICATION_RANGES_MAX,
    PUBLICATION_RANGES_UNDER_WAY_MAX,
)
from penstock.core.types import NO_PRODUCER, ProducerId
from penstock.machines.command_machine import CommandMachine, SnapshotLayout
from penstock.machines.machine import Applied, Reply
from penstock.machines.publication_commands import (
    PUBLICATION_CODEC,
    BeginPublication,
    ForgetApplications,
    PublicationCommand,
    PublishedPart,
    SettleParts,
)
from penstock.machines.state_bytes import DEFAULT_BUDGET, StateBudget, StateKind
from penstock.machines.state_pieces import Restoring, array_header, array_pieces, encoded

EPOCH_MAX = (1 << 15) - 1
"""An epoch has 16 bits with a sign; after the last one comes another producer."""
BATCH_MAX = (1 << 63) - 1
NOTHING_PUBLISHED = -1
APPLICATION_BYTES = 64
"""Of an application in a snapshot, beside its texts and what is under way."""


class Publication(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A batch that is decided and has not reached all its partitions yet."""

    batch: int
    producer_id: ProducerId
    epoch: int
    parts: tuple[PublishedPart, ...]
    """The parts that are not known to have arrived."""


class Application(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What is remembered of one application. The order of fields is in snapshots."""

    name: str
    owner: str
    last_batch: int
    """The last batch that is decided; `NOTHING_PUBLISHED` is never kept."""
    producer_id: ProducerId
    epoch: int
    last_ms: int
    under_way: Publication | None = None


class PublicationReply(Reply, frozen=True):
    """Whether the batch was decided just now, and the application as it is."""

    is_new: bool
    application: Application


class PartsSettled(Reply, frozen=True):
    """It is written down; whether the publication is over."""

    is_over: bool


class ApplicationsForgotten(Reply, frozen=True):
    """So many."""

    count: int


class _Snapshot(SnapshotLayout):
    applications: list[Application]


class Publications(CommandMachine[PublicationCommand, _Snapshot]):
    """The machine of one shard's publications."""

    __slots__ = ("_applications", "_budget", "_bytes", "_ranges_under_way", "_under_way")

    name = "publications"
    codec = PUBLICATION_CODEC
    layout = _Snapshot

    def __init__(self, budget: StateBudget = DEFAULT_BUDGET) -> None:
        super().__init__()
        self._budget = budget
        self._bytes = 0
        self._applications: dict[str, Application] = {}
        self._under_way: dict[str, None] = {}
        self._ranges_under_way = 0

    # Reading.

    def get(self, application: str) -> Application | None:
        """What is remembered of an application."""
        return self._applications.get(application)

    def under_way(self) -> Iterator[Application]:
        """The applications whose last batch has not reached all its partitions yet."""
        return (self._applications[name] for name in list(self._under_way))

    def state_bytes(self) -> dict[StateKind, int]:
        return {StateKind.PUBLICATIONS: self._bytes}

    def describe(self) -> str:
        """`version 1 time 1700 applications 3 under way 1`."""
        return (
            f"version {self._version} time {self._time_ms} applications {len(self._applications)}"
            f" under way {len(self._under_way)}"
        )

    # Planning: on the leader.

    def _admit(self, command: PublicationCommand) -> PublicationCommand:
        if isinstance(command, BeginPublication):
            self._check_begin(command)
        elif isinstance(command, ForgetApplications):
            return ForgetApplications(before_ms=min(command.before_ms, self._time_ms))
        return command

    def _check_begin(self, command: BeginPublication) -> None:
        check_publication(command.application, command.batch, command.owner, command.parts)
        known = command.application in self._applications
        if not known and len(self._applications) >= APPLICATIONS_PER_SHARD_MAX:
            raise Overloaded(
                f"{APPLICATIONS_PER_SHARD_MAX} applications have published in this shard lately,"
                " the most there may be; give fewer names",
                retry_after_ms=60_000,
            )
        if command.parts and self._ranges_under_way >= PUBLICATION_RANGES_UNDER_WAY_MAX:
            raise Overloaded(
                f"publications of {self._ranges_under_way} staged ranges are under way in this"
                " shard; wait until some of them have arrived",
                retry_after_ms=1_000,
            )
        if command.parts or not known:
            self._budget.check(StateKind.PUBLICATIONS, self._bytes)

    # Applying: on every replica; the only code that changes state.

    def _carry_out(self, command: PublicationCommand) -> Applied:
        return Applied((self._reply_to(command),))

    def _reply_to(self, command: PublicationCommand) -> Reply:
        match command:
            case BeginPublication():
                return self._begin(command)
            case SettleParts():
                return self._settle(command)
            case ForgetApplications(before_ms=before_ms):
                return self._forget(before_ms)

    def _begin(self, command: BeginPublication) -> Reply:
        known = self._applications.get(command.application)
        if known is not None:
            if command.batch <= known.last_batch:
                if command.owner != known.owner:
                    raise PublicationConflict(
                        f"application {known.name} has published up to batch {known.last_batch} for"
                        f" another owner ({known.owner or 'none'}), and batch {command.batch} is"
                        " not above it: it would be taken for the other's and be lost. Go on with a"
                        " higher batch, or use another name"
                    )
                return PublicationReply(False, known)
            if known.under_way is not None:
                raise Unavailable(
                    f"batch {known.last_batch} of {known.name} is still on its way",
                )
        producer_id, epoch = self._next_epoch(known, command.producer_id)
        under_way = None
        if command.parts:
            under_way = Publication(command.batch, producer_id, epoch, command.parts)
        decided = Application(
            name=command.application,
            owner=command.owner,
            last_batch=command.batch,
            producer_id=producer_id,
            epoch=epoch,
            last_ms=self._time_ms,
            under_way=under_way,
        )
        self._keep(decided)
        return PublicationReply(True, decided)

    def _next_epoch(
        self, known: Application | None, producer_id: ProducerId
    ) -> tuple[ProducerId, int]:
        if known is not None and known.epoch < EPOCH_MAX:
            return known.producer_id, known.epoch + 1
        if producer_id == NO_PRODUCER:
            raise Unavailable("the application needs another producer id; ask again with one")
        return producer_id, 0

    def _settle(self, command: SettleParts) -> Reply:
        known = self._applications.get(command.application)
        if known is None or known.under_way is None or known.under_way.batch != command.batch:
            return PartsSettled(True)  # Another attempt was faster.
        arrived = set(command.partitions)
        left = tuple(part for part in known.under_way.parts if part.partition not in arrived)
        under_way = msgspec.structs.replace(known.under_way, parts=left) if left else None
        self._keep(msgspec.structs.replace(known, under_way=under_way))
        return PartsSettled(under_way is None)

    def _forget(self, before_ms: int) -> Reply:
        idle = [
            one.name
            for one in self._applications.values()
            if one.last_ms < before_ms and one.under_way is None
        ]
        for name in idle:
            self._bytes -= application_bytes(self._applications.pop(name))
        return ApplicationsForgotten(len(idle))

    def _keep(self, application: Application) -> None:
        before = self._applications.get(application.name)
        self._ranges_under_way += _ranges(application) - (0 if before is None else _ranges(before))
        self._bytes += application_bytes(application)
        if before is not None:
            self._bytes -= application_bytes(before)
        self._applications[application.name] = application
        if application.under_way is None:
            self._under_way.pop(application.name, None)
        else:
            self._under_way[application.name] = None

    # Snapshots.

    def _pieces(self) -> Iterator[bytes]:
        applications = [self._applications[name] for name in sorted(self._applications)]
        yield array_header(3) + encoded(self._version, self._time_ms)
        yield from array_pieces(applications)

    def _load(self, state: _Snapshot) -> Restoring:
        yield

        def adopt() -> None:
            self._applications, self._under_way = {}, {}
            self._ranges_under_way = self._bytes = 0
            for application in state.applications:
                self._keep(application)

        return adopt


def application_bytes(application: Application) -> int:
    """What an application counts for."""
    size = APPLICATION_BYTES + len(application.name) + len(application.owner)
    if application.under_way is not None:
        size += 32 * len(application.under_way.parts) + 16 * _ranges(application)
    return size


def check_application(name: str) -> None:
    """A name that an application can have."""
    if not name or len(name.encode()) > APPLICATION_NAME_BYTES_MAX:
        raise InvalidRequest(
            f"an application's name has 1 to {APPLICATION_NAME_BYTES_MAX} bytes, not"
            f" {len(name.encode())}"
        )


def check_publication(
    application: str, batch: int, owner: str, parts: Sequence[PublishedPart]
) -> None:
    """Raise what is wrong with a publication, whatever was published before."""
    check_application(application)
    if not 0 <= batch <= BATCH_MAX:
        raise InvalidRequest(f"batch {batch} of {application}: batches are numbered from 0 up")
    if len(owner.encode()) > PUBLICATION_OWNER_BYTES_MAX:
        raise InvalidRequest(f"an owner's name has {PUBLICATION_OWNER_BYTES_MAX} bytes at most")
    ranges = sum(len(part.ranges) for part in parts)
    if ranges > PUBLICATION_RANGES_MAX:
        raise InvalidRequest(
            f"{ranges} staged ranges in one publication, {PUBLICATION_RANGES_MAX} at most:"
            " publish fewer messages at once, or stage them in larger batches"
        )
    if len({part.partition for part in parts}) < len(parts):
        raise InvalidRequest("a partition has one part in a publication")
    for part in parts:
        _check_part(part)


def _check_part(part: PublishedPart) -> None:
    if part.partition < 0 or part.staging < 0:
        raise InvalidRequest(f"partition {min(part.partition, part.staging)} is not a partition")
    if not part.ranges or any(not 0 <= first < end for first, end in part.ranges):
        raise InvalidRequest(f"there is nothing to publish in partition {part.partition}")
    if part.records > PUBLICATION_PART_RECORDS_MAX:
        raise InvalidRequest(
            f"{part.records} messages for one partition, {PUBLICATION_PART_RECORDS_MAX} at most:"
            " publish fewer at once"
        )
    in_order = sorted(part.ranges)
    if any(end > first for (_, end), (first, _) in pairwise(in_order)):
        raise InvalidRequest(f"partition {part.partition} is to get the same messages twice")


def _ranges(application: Application) -> int:
    under_way = application.under_way
    return 0 if under_way is None else sum(len(part.ranges) for part in under_way.parts)
