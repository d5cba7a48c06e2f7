"""Publishing staged messages: once for each batch of an application, in all partitions or in none.

Asked of any node; decided in the shard that an application's name falls on, as a group's does
(`machines.publications`); carried out from there by whoever leads that shard: every partition is
brought its part by the leader of its own shard (`promotion`). A decided batch is carried out
whatever happens to the caller, and goes on when a node dies.

Readers may see a part of a batch a moment before another part: what is atomic is that all of it
comes, or nothing.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from penstock.core.errors import (
    LocalError,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
)
from penstock.core.limits import APPLICATION_REMEMBERED_MS
from penstock.core.types import NO_NODE, NO_PRODUCER, NodeId, PartitionId, ProducerId, ShardId
from penstock.engine.batcher import Promise
from penstock.engine.engine import Engine
from penstock.engine.forwarding import decode_body
from penstock.engine.links import Links
from penstock.engine.local_shards import LocalShards
from penstock.engine.promotion import Promoting, Promotion
from penstock.engine.shard import Shard
from penstock.engine.staging import Staging
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


class _PartAsked(msgspec.Struct, frozen=True, array_like=True):
    """Append a part, or only see whether that can be done."""

    promotion: Promotion
    check_only: bool


class Publications:
    """For one node: `tick` it, ask it, `close` it."""

    def __init__(
        self,
        engine: Engine,
        shards: LocalShards,
        links: Links,
        announce: Callable[[str], None],
    ) -> None:
        self._engine = engine
        self._shards = shards
        self._links = links
        self._announce = announce
        self.staging = Staging(engine, shards)
        self._promoting = Promoting(engine, self.staging)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._room = asyncio.Semaphore(PARTS_AT_ONCE)
        self._ticks = 0
        self._closed = False

    # Asked of any node.

    async def publish(self, request: PublishRequest) -> PublishOutcome:
        """Publish a batch; returns when all its partitions have it. To ask again is harmless."""
        check_application(request.application)
        leader = self._coordinator(request.application)
        if leader == self._engine.node_id:
            return await self._publish_here(request)
        body = msgspec.msgpack.encode(request)
        answer = await self._links.ask(leader, PUBLISH_METHOD, body, timeout=2 * PUBLISH_SECONDS)
        return decode_body(answer, PublishOutcome)

    async def last(self, application: str) -> int:
        """The last batch that an application has published, or `NOTHING_PUBLISHED`. A batch that is
        decided counts: it comes, whatever happens."""
        check_application(application)
        leader = self._coordinator(application)
        if leader == self._engine.node_id:
            return await self._last_here(application)
        body = msgspec.msgpack.encode(_LastAsked(application))
        answer = await self._links.ask(leader, LAST_METHOD, body, timeout=PUBLISH_SECONDS)
        return decode_body(answer, _LastBatch).batch

    def _coordinator(self, application: str) -> NodeId:
        shard = self._engine.group_shard(application)
        leader = self._engine.leader(shard).node
        if leader == NO_NODE:
            raise NotLeader(f"shard {shard}, which publishes for {application}, has no leader now")
        return leader

    # Answers to other nodes.

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
        async with asyncio.timeout(PUBLISH_SECONDS) as patience:
            try:
                return await self._decide(running, request)
            except TimeoutError:
                if not patience.expired():
                    raise
        raise Unavailable(
            f"batch {request.batch} of {request.application} is still on its way: ask again",
            retry_after_ms=100,
        )

    async def _decide(self, running: Shard, request: PublishRequest) -> PublishOutcome:
        await running.wait_current()
        name = request.application
        known = running.machine.publications.get(name)
        if known is not None and known.under_way is not None:
            await self._complete(running, known)  # One at a time, in order.
            known = running.machine.publications.get(name)
        if known is None or request.batch > known.last_batch:
            await self._check_parts(request.parts)
        command = BeginPublication(
            application=name,
            batch=request.batch,
            owner=request.owner,
            parts=request.parts,
            producer_id=await self._fresh_producer(known),
        )
        reply = await _change(running, command)
        assert isinstance(reply, PublicationReply), f"a publication was answered with {reply}"
        if reply.application.under_way is not None:
            await self._complete(running, reply.application)
        return PublishOutcome(reply.is_new)

    async def _fresh_producer(self, known: Application | None) -> ProducerId:
        if known is not None and known.epoch < EPOCH_MAX:
            return NO_PRODUCER
        return await self._engine.new_producer_id()

    async def _check_parts(self, parts: Iterable[PublishedPart]) -> None:
        asked = [_PartAsked(Promotion(part, NO_PRODUCER, -1), True) for part in parts]
        await asyncio.gather(*map(self._ask_part, asked))

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
                before_ms = self._engine.clock.wall_ms() - APPLICATION_REMEMBERED_MS
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

    def _start(self, running: Shard, application: Application) -> "asyncio.Task[None]":
        name = application.name
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = asyncio.create_task(self._carry_out(running, name))
            task.add_done_callback(lambda done: self._forget_task(name, done))
        return task

    def _forget_task(self, name: str, task: "asyncio.Task[None]") -> None:
        del self._tasks[name]
        if not task.cancelled() and task.exception() is not None:
            self._announce(f"the publication of {name} could not go on: {task.exception()}")

    async def _complete(self, running: Shard, application: Application) -> None:
        """Wait until the publication that is under way is over."""
        await asyncio.shield(self._start(running, application))

    async def _carry_out(self, running: Shard, name: str) -> None:
        """Bring every partition its part, and write down who has it."""
        pause = PAUSE_SECONDS
        lost: LocalError | None = None
        while True:
            known = running.machine.publications.get(name)
            if known is None or known.under_way is None:
                break
            if not running.replica.leads:
                raise NotLeader("the publication is carried out by another node now")
            publication = known.under_way
            promotions = [
                Promotion(part, publication.producer_id, publication.epoch)
                for part in publication.parts
            ]
            outcomes = await asyncio.gather(*map(self._promote, promotions))
            arrived = _arrived(publication.parts, outcomes)
            lost = next((one for one in outcomes if isinstance(one, LocalError)), lost)
            if arrived:
                command = SettleParts(application=name, batch=publication.batch, partitions=arrived)
                await _change(running, command)
            if len(arrived) < len(publication.parts):
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE_SECONDS_MAX)
        if lost is not None:
            raise lost

    async def _promote(self, promotion: Promotion) -> PenstockError | None:
        """Bring one partition its part; why that failed."""
        try:
            async with self._room:
                await self._ask_part(_PartAsked(promotion, False))
        except (Unavailable, OutcomeUnknown) as error:
            return error
        except LocalError as error:
            # It was looked at before it was decided, and is gone all the same: nobody can bring it
            # back, and the application must be able to go on.
            self._announce(f"a part of a publication is lost: {error}")
            return error
        return None

    async def _ask_part(self, asked: _PartAsked) -> None:
        shard = self._engine.shard_of(asked.promotion.part.partition)
        leader = self._engine.leader(shard).node
        if leader == self._engine.node_id:
            await self._part_here(asked)
            return
        if leader == NO_NODE:
            raise NotLeader(f"shard {shard} has no leader now")
        body = msgspec.msgpack.encode(asked)
        await self._links.ask(leader, PART_METHOD, body, timeout=PART_SECONDS)

    async def _part_here(self, asked: _PartAsked) -> None:
        if asked.check_only:
            self._promoting.check(asked.promotion.part)
        else:
            await self._promoting.promote(asked.promotion)

    def _led(self, application: str) -> Shard:
        shard = ShardId(self._engine.group_shard(application))
        running = self._shards.get(shard)
        if running is None or not running.replica.leads:
            leader = self._engine.leader(shard).node
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
