"""Publications, a kind of transaction: staged messages are published once for each batch of an
application, in all partitions or in none.

Asked of any node; decided in the shard that an application's name falls on, as a group's does
(`machines.publications`); carried out from there by the leader of that shard: every partition is
brought its part by the leader of its own shard (`promotion`). A decided batch is carried out
whatever happens to the caller, and goes on when a node dies.

Readers may see a part of a batch a moment before another part: what is atomic is that all of it
comes, or nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from types import NoneType

import msgspec

from penstock.core.errors import (
    LocalError,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    StorageError,
    Unavailable,
)
from penstock.core.limits import (
    APPLICATION_REMEMBERED_MS,
    PART_CALL_SECONDS,
    PUBLISH_SECONDS,
)
from penstock.core.types import NO_PRODUCER, PartitionId, ProducerId, ShardId
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.part_copy import Promotion
from penstock.engine.topics.promotion import PartPromotion, wait_over
from penstock.engine.topics.staging import Staging
from penstock.engine.topics.topics import Topics
from penstock.machines.machine import Refused, Reply, refusal_error
from penstock.machines.publication_commands import (
    BeginPublication,
    ForgetApplications,
    PublishedPart,
    SettleParts,
)
from penstock.machines.publications import (
    EPOCH_MAX,
    NOTHING_PUBLISHED,
    Application,
    PublicationReply,
    check_application,
    check_publication,
)

PARTS_AT_ONCE = 16
FORGET_TICKS = 6_000

LostParts = list[LocalError]
"""Why parts could not be brought to where they belong, though that was decided."""


class PublishRequest(msgspec.Struct, frozen=True, array_like=True):
    """Publish a batch of an application."""

    application: str
    batch: int
    owner: str
    parts: tuple[PublishedPart, ...]


class PublishOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The batch is published; `is_new` is true if this call has decided it."""

    is_new: bool


class FindLastBatch(msgspec.Struct, frozen=True, array_like=True):
    """Requests the last published batch of an application."""

    application: str


class LastBatch(msgspec.Struct, frozen=True, array_like=True):
    """The number of a batch, or `NOTHING_PUBLISHED`."""

    batch: int


class PartStep(Enum):
    """A step of a publication in one partition."""

    CHECK = "check"
    APPEND = "append"
    RELEASE = "release"


class PartRequest(msgspec.Struct, frozen=True, array_like=True):
    """One step of a publication, in one partition."""

    step: PartStep
    promotion: Promotion
    application: str
    batch: int


PUBLISH = RemoteCall("publish", PublishRequest, PublishOutcome, 2 * PUBLISH_SECONDS)
LAST_PUBLISHED = RemoteCall("last published", FindLastBatch, LastBatch, PUBLISH_SECONDS)
PART = RemoteCall("part", PartRequest, NoneType, PART_CALL_SECONDS)


class Publications:
    """For one node: `tick` it, ask it, `close` it."""

    def __init__(
        self,
        topics: Topics,
        shards: LocalShards,
        calls: RemoteCalls,
        announce: Callable[[str], None],
    ) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls
        self._announce = announce
        self.staging = Staging(topics, shards)
        self._promoting = PartPromotion(topics, self.staging)
        self._tasks: dict[str, asyncio.Task[LostParts]] = {}
        self._room = asyncio.Semaphore(PARTS_AT_ONCE)
        self._ticks = 0
        self._closed = False

    # Asked of any node.

    async def publish(self, request: PublishRequest) -> PublishOutcome:
        """Publish a batch; returns when all its partitions have it. To ask again is harmless."""
        check_publication(request.application, request.batch, request.owner, request.parts)
        shard = self._topics.group_shard(request.application)
        return await self._calls.ask_leader(shard, PUBLISH, request)

    async def last(self, application: str) -> int:
        """Return the last batch that an application has published, or `NOTHING_PUBLISHED`. A
        decided batch is included, because it will be appended in any case."""
        check_application(application)
        shard = self._topics.group_shard(application)
        asked = FindLastBatch(application)
        return (await self._calls.ask_leader(shard, LAST_PUBLISHED, asked)).batch

    # Deciding.

    async def last_here(self, asked: FindLastBatch) -> LastBatch:
        """Return the last batch of an application whose shard this node leads."""
        running = self._led(asked.application)
        await running.wait_current()
        known = running.machine.publications.get(asked.application)
        return LastBatch(NOTHING_PUBLISHED if known is None else known.last_batch)

    async def publish_here(self, request: PublishRequest) -> PublishOutcome:
        """Publish for an application whose shard this node leads."""
        running = self._led(request.application)
        patience = asyncio.timeout(PUBLISH_SECONDS)
        try:
            async with patience:
                return await self._publish(running, request)
        except TimeoutError as error:
            if not patience.expired():
                raise
            raise OutcomeUnknown(
                f"batch {request.batch} of {request.application} may be on its way: ask again"
            ) from error

    async def _publish(self, running: Shard, request: PublishRequest) -> PublishOutcome:
        decided = await self._decide(running, request)
        if decided.application.under_way is not None:
            try:
                lost = await self._complete(running, decided.application)
            except (Unavailable, StorageError) as error:
                raise OutcomeUnknown(
                    f"batch {request.batch} of {request.application} is decided and on its way:"
                    f" {error}"
                ) from error
            if lost:
                raise lost[0]
        elif not decided.is_new:
            await self._release(request)
        return PublishOutcome(decided.is_new)

    async def _decide(self, running: Shard, request: PublishRequest) -> PublicationReply:
        await running.wait_current()
        name = request.application
        known = running.machine.publications.get(name)
        if known is not None and known.under_way is not None:
            await self._complete(running, known)  # One at a time, in order.
            known = running.machine.publications.get(name)
        if known is None or request.batch > known.last_batch:
            await self._check_parts(request)
        command = BeginPublication(
            application=name,
            batch=request.batch,
            owner=request.owner,
            parts=request.parts,
            producer_id=await self._fresh_producer(known),
        )
        reply = await _change(running, command)
        assert isinstance(reply, PublicationReply), f"a publication was answered with {reply}"
        return reply

    async def _fresh_producer(self, known: Application | None) -> ProducerId:
        if known is not None and known.epoch < EPOCH_MAX:
            return NO_PRODUCER
        return await self._topics.new_producer_id()

    async def _check_parts(self, request: PublishRequest) -> None:
        for outcome in await self._ask_all(PartStep.CHECK, request):
            if outcome is not None:
                raise outcome

    async def _release(self, request: PublishRequest) -> None:
        """Release the ranges staged for a batch that was published before, so that they need not
        wait until they expire."""
        await self._ask_all(PartStep.RELEASE, request)

    async def _ask_all(self, step: PartStep, request: PublishRequest) -> list[PenstockError | None]:
        name, batch = request.application, request.batch
        return await asyncio.gather(
            *(
                self._try(PartRequest(step, Promotion(part, NO_PRODUCER, -1), name, batch))
                for part in request.parts
            )
        )

    # Carrying out.

    def tick(self) -> None:
        """A tick of the node's clock has passed: take up what a predecessor has left."""
        if self._closed:
            return
        self._ticks += 1
        self.staging.tick()
        for shard in self._shards:
            running = self._shards.get(shard)
            if running is None or not running.replica.leads:
                continue
            for application in running.machine.publications.under_way():
                self._start(running, application)
            if (self._ticks + shard) % FORGET_TICKS == 0:
                before_ms = self._topics.clock.wall_ms() - APPLICATION_REMEMBERED_MS
                command = ForgetApplications(before_ms=max(0, before_ms))
                running.submit(command, _ignore, Promise.COMMITTED)

    async def close(self) -> None:
        """Carry out nothing any more; the next leader continues."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._promoting.close()

    def _start(self, running: Shard, application: Application) -> "asyncio.Task[LostParts]":
        name = application.name
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._carry_out(running, name))
            task.add_done_callback(lambda done: self._forget_task(name, done))
        return task

    def _forget_task(self, name: str, task: "asyncio.Task[LostParts]") -> None:
        del self._tasks[name]
        if not task.cancelled() and task.exception() is not None:
            self._announce(f"the publication of {name} could not go on: {task.exception()}")

    async def _complete(self, running: Shard, application: Application) -> LostParts:
        """Wait until the publication that is under way is over; what was lost of it."""
        return await wait_over(self._start(running, application))

    async def _carry_out(self, running: Shard, name: str) -> LostParts:
        """Bring every partition its part, and write down who has it."""
        retries = self._topics.retrier.endless()
        lost: list[LocalError] = []
        known = running.machine.publications.get(name)
        while known is not None and (publication := known.under_way) is not None:
            if not running.replica.leads:
                raise NotLeader("the publication is carried out by another node now")
            producer = publication.producer_id, publication.epoch
            asked = [
                PartRequest(PartStep.APPEND, Promotion(part, *producer), name, publication.batch)
                for part in publication.parts
            ]
            outcomes = await asyncio.gather(*map(self._try, asked))
            # A part that was checked before the decision and is gone all the same is lost for
            # good; the application must still be able to go on.
            lost += [one for one in outcomes if isinstance(one, LocalError)]
            arrived = _arrived(publication.parts, outcomes)
            if arrived:
                command = SettleParts(application=name, batch=publication.batch, partitions=arrived)
                await _change(running, command)
            if len(arrived) < len(publication.parts):
                await retries.pause()
            known = running.machine.publications.get(name)
        for error in lost:
            self._announce(f"a part of a publication of {name} is lost: {error}")
        return lost

    async def _try(self, asked: PartRequest) -> PenstockError | None:
        """Let something be done about a part; why it failed."""
        try:
            async with self._room:
                await self._ask_part(asked)
        except PenstockError as error:
            return error
        return None

    async def _ask_part(self, asked: PartRequest) -> None:
        shard = self._topics.shard_of(asked.promotion.part.partition)
        await self._calls.ask_leader(shard, PART, asked)

    async def part_here(self, asked: PartRequest) -> None:
        """Take one step in a partition that this node leads."""
        publication = asked.application, asked.batch
        match asked.step:
            case PartStep.CHECK:
                await self._promoting.check(asked.promotion.part, publication)
            case PartStep.APPEND:
                await self._promoting.promote(asked.promotion, publication)
            case PartStep.RELEASE:
                self._promoting.release(asked.promotion.part, publication)

    def _led(self, application: str) -> Shard:
        shard = ShardId(self._topics.group_shard(application))
        running = self._shards.get(shard)
        if running is None or not running.replica.leads:
            leader = self._topics.leader(shard).node
            raise NotLeader(f"this node does not publish for {application}", leader=leader)
        return running


def _arrived(
    parts: Sequence[PublishedPart], outcomes: Sequence[PenstockError | None]
) -> tuple[PartitionId, ...]:
    """The partitions that need no further attempt."""
    return tuple(
        part.partition
        for part, outcome in zip(parts, outcomes, strict=True)
        if outcome is None or isinstance(outcome, LocalError)
    )


async def _change(running: Shard, command: BeginPublication | SettleParts) -> Reply:
    reply = await running.change(command)
    if isinstance(reply, Refused):
        raise refusal_error(reply)
    return reply


def _ignore(_reply: Reply | PenstockError) -> None:
    """Ignore the outcome: a command that was refused or lost is repeated at the next look."""
