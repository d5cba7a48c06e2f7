"""Publishing staged messages: once for each batch of an application, in all partitions or in none.

Asked of any node; decided in the shard that an application's name falls on, as a group's does
(`machines.publications`); carried out from there by whoever leads that shard: every partition is
brought its part by the leader of its own shard (`promotion`). A decided batch is carried out
whatever happens to the caller, and goes on when a node dies.

Readers may see a part of a batch a moment before another part: what is atomic is that all of it
comes, or nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum

import msgspec

from penstock.core.errors import (
    LocalError,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    StorageError,
    Unavailable,
)
from penstock.core.limits import APPLICATION_REMEMBERED_MS
from penstock.core.types import NO_NODE, NO_PRODUCER, NodeId, PartitionId, ProducerId, ShardId
from penstock.engine.peers.forwarding import decode_body
from penstock.engine.peers.links import Links
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

PUBLISH_METHOD = "publish"
LAST_METHOD = "last published"
PART_METHOD = "part"
PUBLISH_SECONDS = 10.0
"""How long a caller is kept waiting; it may ask again."""
PART_SECONDS = 60.0
PARTS_AT_ONCE = 16
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0
FORGET_TICKS = 6_000

Lost = list[LocalError]
"""Why parts could not be brought to where they belong, though that was decided."""


class PublishRequest(msgspec.Struct, frozen=True, array_like=True):
    """Publish a batch of an application."""

    application: str
    batch: int
    owner: str
    parts: tuple[PublishedPart, ...]


class PublishOutcome(msgspec.Struct, frozen=True, array_like=True):
    """It is published; whether this call has decided it."""

    is_new: bool


class _LastAsked(msgspec.Struct, frozen=True, array_like=True):
    application: str


class _LastBatch(msgspec.Struct, frozen=True, array_like=True):
    batch: int


class _Wish(Enum):
    CHECK = "check"
    APPEND = "append"
    RELEASE = "release"


class _PartAsked(msgspec.Struct, frozen=True, array_like=True):
    """Do something about a part."""

    wish: _Wish
    promotion: Promotion
    application: str
    batch: int


class Publications:
    """For one node: `tick` it, ask it, `close` it."""

    def __init__(
        self,
        topics: Topics,
        shards: LocalShards,
        links: Links,
        announce: Callable[[str], None],
    ) -> None:
        self._topics = topics
        self._shards = shards
        self._links = links
        self._announce = announce
        self.staging = Staging(topics, shards)
        self._promoting = PartPromotion(topics, self.staging)
        self._tasks: dict[str, asyncio.Task[Lost]] = {}
        self._room = asyncio.Semaphore(PARTS_AT_ONCE)
        self._ticks = 0
        self._closed = False

    # Asked of any node.

    async def publish(self, request: PublishRequest) -> PublishOutcome:
        """Publish a batch; returns when all its partitions have it. To ask again is harmless."""
        check_publication(request.application, request.batch, request.owner, request.parts)
        leader = self._coordinator(request.application)
        if leader == self._topics.node_id:
            return await self._publish_here(request)
        body = msgspec.msgpack.encode(request)
        answer = await self._links.ask(leader, PUBLISH_METHOD, body, timeout=2 * PUBLISH_SECONDS)
        return decode_body(answer, PublishOutcome)

    async def last(self, application: str) -> int:
        """The last batch that an application has published, or `NOTHING_PUBLISHED`. A batch that is
        decided counts: it comes, whatever happens."""
        check_application(application)
        leader = self._coordinator(application)
        if leader == self._topics.node_id:
            return await self._last_here(application)
        body = msgspec.msgpack.encode(_LastAsked(application))
        answer = await self._links.ask(leader, LAST_METHOD, body, timeout=PUBLISH_SECONDS)
        return decode_body(answer, _LastBatch).batch

    def _coordinator(self, application: str) -> NodeId:
        shard = self._topics.group_shard(application)
        leader = self._topics.leader(shard).node
        if leader == NO_NODE:
            raise NotLeader(f"shard {shard}, which publishes for {application}, has no leader now")
        return leader

    # Answers to other nodes.

    @property
    def methods(self) -> "dict[str, Callable[[bytes], Awaitable[bytes]]]":
        """What other nodes may ask of this one."""
        return {
            PUBLISH_METHOD: self.answer_publish,
            LAST_METHOD: self.answer_last,
            PART_METHOD: self.answer_part,
        }

    async def answer_publish(self, body: bytes) -> bytes:
        """Publish for an application whose shard this node leads."""
        return msgspec.msgpack.encode(await self._publish_here(decode_body(body, PublishRequest)))

    async def answer_last(self, body: bytes) -> bytes:
        """The last batch of an application whose shard this node leads."""
        asked = decode_body(body, _LastAsked)
        return msgspec.msgpack.encode(_LastBatch(await self._last_here(asked.application)))

    async def answer_part(self, body: bytes) -> bytes:
        """Bring a partition that this node leads its part."""
        asked = decode_body(body, _PartAsked)
        await self._part_here(asked)
        return b""

    # Deciding.

    async def _last_here(self, application: str) -> int:
        running = self._led(application)
        await running.wait_current()
        known = running.machine.publications.get(application)
        return NOTHING_PUBLISHED if known is None else known.last_batch

    async def _publish_here(self, request: PublishRequest) -> PublishOutcome:
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
        for outcome in await self._ask_all(_Wish.CHECK, request):
            if outcome is not None:
                raise outcome

    async def _release(self, request: PublishRequest) -> None:
        """What was staged for a batch that was published before need not wait until it expires."""
        await self._ask_all(_Wish.RELEASE, request)

    async def _ask_all(self, wish: _Wish, request: PublishRequest) -> list[PenstockError | None]:
        name, batch = request.application, request.batch
        return await asyncio.gather(
            *(
                self._try(_PartAsked(wish, Promotion(part, NO_PRODUCER, -1), name, batch))
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
        """Carry out nothing any more; whoever leads next goes on."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._promoting.close()

    def _start(self, running: Shard, application: Application) -> "asyncio.Task[Lost]":
        name = application.name
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._carry_out(running, name))
            task.add_done_callback(lambda done: self._forget_task(name, done))
        return task

    def _forget_task(self, name: str, task: "asyncio.Task[Lost]") -> None:
        del self._tasks[name]
        if not task.cancelled() and task.exception() is not None:
            self._announce(f"the publication of {name} could not go on: {task.exception()}")

    async def _complete(self, running: Shard, application: Application) -> Lost:
        """Wait until the publication that is under way is over; what was lost of it."""
        return await wait_over(self._start(running, application))

    async def _carry_out(self, running: Shard, name: str) -> Lost:
        """Bring every partition its part, and write down who has it."""
        pause = PAUSE_SECONDS
        lost: list[LocalError] = []
        known = running.machine.publications.get(name)
        while known is not None and (publication := known.under_way) is not None:
            if not running.replica.leads:
                raise NotLeader("the publication is carried out by another node now")
            producer = publication.producer_id, publication.epoch
            asked = [
                _PartAsked(_Wish.APPEND, Promotion(part, *producer), name, publication.batch)
                for part in publication.parts
            ]
            outcomes = await asyncio.gather(*map(self._try, asked))
            # What was looked at before it was decided, and is gone all the same, nobody can bring
            # back; and the application must be able to go on.
            lost += [one for one in outcomes if isinstance(one, LocalError)]
            arrived = _arrived(publication.parts, outcomes)
            if arrived:
                command = SettleParts(application=name, batch=publication.batch, partitions=arrived)
                await _change(running, command)
            if len(arrived) < len(publication.parts):
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
            known = running.machine.publications.get(name)
        for error in lost:
            self._announce(f"a part of a publication of {name} is lost: {error}")
        return lost

    async def _try(self, asked: _PartAsked) -> PenstockError | None:
        """Let something be done about a part; why it failed."""
        try:
            async with self._room:
                await self._ask_part(asked)
        except PenstockError as error:
            return error
        return None

    async def _ask_part(self, asked: _PartAsked) -> None:
        shard = self._topics.shard_of(asked.promotion.part.partition)
        leader = self._topics.leader(shard).node
        if leader == self._topics.node_id:
            await self._part_here(asked)
            return
        if leader == NO_NODE:
            raise NotLeader(f"shard {shard} has no leader now")
        body = msgspec.msgpack.encode(asked)
        await self._links.ask(leader, PART_METHOD, body, timeout=PART_SECONDS)

    async def _part_here(self, asked: _PartAsked) -> None:
        publication = asked.application, asked.batch
        match asked.wish:
            case _Wish.CHECK:
                await self._promoting.check(asked.promotion.part, publication)
            case _Wish.APPEND:
                await self._promoting.promote(asked.promotion, publication)
            case _Wish.RELEASE:
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
    """What is refused or lost is looked at again."""
