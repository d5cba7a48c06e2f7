"""Moving messages from one queue to another, asked of any node: dead letters back to their queues.

A move is written down in the shard of its queue's first partition (`machines.moves`) and carried
out by the leader of that shard (`move_runner`): it goes on when a node dies, and exists once,
whichever node received the request.

Messages that died and stayed in their queue (`queue.dead.letter.policy=archive`) are not moved:
they are delivered anew, or dropped, where they are.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

import msgspec

from penstock.core.errors import (
    InvalidRequest,
    LocalError,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
)
from penstock.core.internal_topics import check_unprotected
from penstock.core.limits import BROWSE_STEPS_MAX, LOOK_CALL_SECONDS, MOVE_RATE
from penstock.core.message import Message
from penstock.core.message_states import LIVING_STATES
from penstock.core.move_filter import EVERYTHING, MoveFilter
from penstock.core.moved_message import Death, dead_letter, died_in
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.retries import LEADER
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, Offset, PartitionId, ShardId, TopicId
from penstock.engine.delivery.requests import BrowsedMessage, QueuePlace
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.moves.message_copier import Change, MessageCopier
from penstock.engine.moves.move_runner import MoveRunner, is_there
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics
from penstock.machines.machine import Refused, Reply, refusal_error
from penstock.machines.move_commands import (
    CancelMove,
    EndMove,
    ForgetMoves,
    MoveState,
    StartMove,
)
from penstock.machines.moves import Move, MoveReply

START_TRIES = 3
PAGE_MESSAGES = 20
DEAD = frozenset({"dead"})
AGAIN_MS = 1_000
"""A move that could not go on is taken up again after this."""
UNKNOWN_MS_MAX = 30_000
"""A queue that this node's copy of the catalog has not shown for so long is deleted."""
FORGET_TICKS = 600
FORGET_AFTER_MS = 60 * 60 * 1000
SETTLED_AT_ONCE = 1_000

MoveList = list[Move]


class ListMoves(msgspec.Struct, frozen=True, array_like=True):
    """The moves of which queue, and the shard that has them."""

    shard: ShardId
    source: TopicId


MOVES = RemoteCall("moves", ListMoves, MoveList, LOOK_CALL_SECONDS)

FindPlaces = Callable[[Iterable[PartitionId]], Awaitable[dict[PartitionId, QueuePlace]]]


class Moves:
    """For one node: `tick` it, ask it, `close` it."""

    def __init__(
        self,
        topics: Topics,
        delivery: DeliveryService,
        places: FindPlaces,
        shards: LocalShards,
        calls: RemoteCalls,
        copier: MessageCopier,
        change: Change,
        announce: Callable[[str], None],
    ) -> None:
        """`places` finds out where partitions begin and end, on any node."""
        self._topics = topics
        self._delivery = delivery
        self._places = places
        self._shards = shards
        self._calls = calls
        self._copier = copier
        self._change = change
        self._announce = announce
        self._ticks = 0
        self._tasks: dict[str, tuple[Shard, asyncio.Task[None]]] = {}
        self._again_ms: dict[str, int] = {}
        self._unknown_since_ms: dict[str, int] = {}
        self._closed = False

    # Asked of any node.

    async def start(
        self,
        source: Topic,
        destination: Topic | None = None,
        *,
        rate: int | None = None,
        filter: MoveFilter | None = None,  # noqa: A002
        dry_run: bool = False,
    ) -> Move:
        """Begin to move messages, to another queue or back to where each died; returns at once.

        A dry run begins nothing: what it returns tells, as `to_move`, how many messages such a move
        would find now. Raises `MoveRunning` if messages of this queue are being moved already."""
        wanted = filter or EVERYTHING
        wanted.check()
        if destination is not None and destination.topic_id == source.topic_id:
            raise InvalidRequest(
                f"messages of {source.name} cannot be moved to the queue they are in"
            )
        if destination is not None:
            check_unprotected(destination.name)
        ends = await self._ends(source)
        command = StartMove(
            move_id="" if dry_run else secrets.token_hex(16),
            source=source.topic_id,
            destination=NO_TOPIC_ID if destination is None else destination.topic_id,
            rate=MOVE_RATE if rate is None else rate,
            filter=wanted,
            ends=ends,
            to_move=0,
        )
        if dry_run:
            count = await self._count(source, ends, wanted, back=destination is None)
            return _untaken(command, count)
        await self._delivery.open(source, DEFAULT_WORK_GROUP)
        counts = await self._delivery.counts(source)
        living = counts.ready + counts.leased + counts.delayed
        return await self._ask(source, msgspec.structs.replace(command, to_move=living))

    async def cancel(self, source: Topic, move_id: str) -> Move:
        """Stop a move; it is over a moment later. `UnknownMove` if there is none, or it is over."""
        return await self._ask(source, CancelMove(source=source.topic_id, move_id=move_id))

    async def list(self, source: Topic) -> MoveList:
        """The moves out of a queue, those started last first."""
        shard = self._home(source)
        retries = self._topics.retrier.within(LOOK_CALL_SECONDS, LEADER)
        while True:
            try:
                asked = ListMoves(shard, source.topic_id)
                return await self._calls.ask_leader(shard, MOVES, asked)
            except (Unavailable, OutcomeUnknown) as error:  # To ask twice does no harm.
                if not await retries.pause(error):
                    raise

    async def redrive_in_place(
        self,
        source: Topic,
        *,
        group: str = DEFAULT_WORK_GROUP,
        filter: MoveFilter | None = None,  # noqa: A002
        dry_run: bool = False,
    ) -> int:
        """Deliver dead messages anew that stayed in their queue; how many. A dry run counts."""
        if filter is None and not dry_run:
            return await self._delivery.requeue_dead(source, None, group)
        wanted = filter or EVERYTHING
        wanted.check()
        count = 0
        for index in range(len(source.partitions)):
            for offsets in await self._dead(source, index, group, wanted):
                places = [(index, offset) for offset in offsets]
                count += (
                    len(places)
                    if dry_run
                    else await self._delivery.requeue_dead(source, places, group)
                )
        return count

    async def discard_in_place(
        self,
        source: Topic,
        *,
        group: str = DEFAULT_WORK_GROUP,
        filter: MoveFilter | None = None,  # noqa: A002
    ) -> int:
        """Drop dead messages that stayed in their queue; how many."""
        count = 0
        for index in range(len(source.partitions)):
            for offsets in await self._dead(source, index, group, filter or EVERYTHING):
                count += await self._delivery.remove_dead(
                    source, index, offsets, group, discarded=True
                )
        return count

    async def list_here(self, asked: ListMoves) -> MoveList:
        """Return the moves out of a queue whose shard this node leads."""
        running = self._shards.get(asked.shard)
        if running is None:
            raise NotLeader(f"this node does not lead shard {asked.shard}")
        await running.wait_current()
        return running.machine.moves.of(asked.source)

    # Asking.

    def _home(self, source: Topic) -> ShardId:
        return self._topics.shard_of(source.partitions[0])

    async def _ask(self, source: Topic, command: StartMove | CancelMove) -> Move:
        """Send a command about a move; repeating it does no harm."""
        for _ in range(START_TRIES):
            try:
                return _moved(await self._change(self._home(source), command))
            except OutcomeUnknown:
                continue
        return _moved(await self._change(self._home(source), command))

    async def _ends(self, source: Topic) -> tuple[Offset, ...]:
        places = await self._places(source.partitions)
        if len(places) < len(source.partitions):
            raise Unavailable(f"not all partitions of {source.name} can be reached now")
        return tuple(places[partition].end for partition in source.partitions)

    async def _count(
        self, source: Topic, ends: tuple[Offset, ...], wanted: MoveFilter, *, back: bool
    ) -> int:
        """Messages that a move would take; one that leads back takes only what died elsewhere."""
        count = 0
        for index, last in enumerate(ends):
            first, end = wanted.span(index, last)
            async for one in self._browse(source, index, first, end, LIVING_STATES):
                if back and self._origin(source, one.message) is None:
                    continue
                count += wanted.matches(source.topic_id, index, one.message)
        return count

    def _origin(self, source: Topic, message: Message) -> Topic | None:
        """The queue that a dead letter goes back to, if it says one and that is still there."""
        died = died_in(message)
        found = None if died is None else self._topics.catalog.topic(died[0])
        return None if found is None or found.topic_id == source.topic_id else found

    async def _dead(
        self, source: Topic, index: int, group: str, wanted: MoveFilter
    ) -> Iterator[tuple[Offset, ...]]:
        """Yield the dead messages of a partition that match, in chunks."""
        last = (await self._ends(source))[index]
        first, end = wanted.span(index, last)
        found = [
            one.message.offset
            async for one in self._browse(source, index, first, end, DEAD, group)
            if wanted.matches(source.topic_id, index, _as_letter(source, index, group, one))
        ]
        return (
            tuple(found[at : at + SETTLED_AT_ONCE]) for at in range(0, len(found), SETTLED_AT_ONCE)
        )

    async def _browse(
        self,
        source: Topic,
        index: int,
        first: Offset,
        end: Offset,
        states: frozenset[str],
        group: str = DEFAULT_WORK_GROUP,
    ) -> AsyncIterator[BrowsedMessage]:
        position = first
        while position < end:
            page = await self._delivery.browse(
                source,
                group=group,
                index=index,
                start=position,
                states=states,
                messages_max=PAGE_MESSAGES,
            )
            for one in page:
                if one.message.offset < end and is_there(one):
                    yield one
            after = Offset(page[-1].message.offset + 1) if page else position
            if len(page) < PAGE_MESSAGES:
                after = max(after, Offset(position + BROWSE_STEPS_MAX))
            position = after

    # Carrying out.

    def tick(self) -> None:
        """A tick of the node's clock has passed."""
        if self._closed:
            return
        self._ticks += 1
        for working, task in self._tasks.values():
            if not working.replica.leads:
                task.cancel()
        now_ms = self._topics.clock.monotonic_ms()
        for shard in self._shards:
            running = self._shards.get(shard)
            if running is None or not running.replica.leads:
                continue
            for move in running.machine.moves.active():
                if move.move_id in self._tasks or self._again_ms.get(move.move_id, 0) > now_ms:
                    continue
                task = asyncio.create_task(self._carry_out(running, move))
                self._tasks[move.move_id] = running, task
            if (self._ticks + shard) % FORGET_TICKS == 0:
                self._forget(running)
        if self._ticks % FORGET_TICKS == 0:
            again = self._again_ms.items()
            self._again_ms = {one: at_ms for one, at_ms in again if at_ms > now_ms}

    async def close(self) -> None:
        """Carry out nothing any more; the next leader continues."""
        self._closed = True
        tasks = [task for _, task in self._tasks.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _carry_out(self, running: Shard, move: Move) -> None:
        now_ms = self._topics.clock.monotonic_ms
        try:
            failure = await self._run(running, move)
            if failure is None:
                self._again_ms[move.move_id] = now_ms() + AGAIN_MS
                return
            await _write(
                running, EndMove(source=move.source, move_id=move.move_id, failure=failure)
            )
            self._again_ms.pop(move.move_id, None)
            self._unknown_since_ms.pop(move.move_id, None)
        except PenstockError as error:
            self._again_ms[move.move_id] = now_ms() + AGAIN_MS
            if running.replica.leads:
                self._announce(f"move {move.move_id} could not go on: {error}")
        finally:
            del self._tasks[move.move_id]

    async def _run(self, running: Shard, move: Move) -> str | None:
        """Why the move failed; nothing if it is done; None if it cannot begin yet."""
        if move.state is MoveState.CANCELLING:
            return ""
        now_ms = self._topics.clock.monotonic_ms()
        source = self._topics.catalog.topic_by_id(move.source)
        if source is None:
            since_ms = self._unknown_since_ms.setdefault(move.move_id, now_ms)
            return "the queue was deleted" if now_ms - since_ms >= UNKNOWN_MS_MAX else None
        runner = MoveRunner(
            move,
            source,
            running,
            topics=self._topics,
            delivery=self._delivery,
            copier=self._copier,
            change=self._change,
        )
        try:
            return await runner.run()
        except LocalError as error:
            return str(error) or type(error).__name__

    def _forget(self, running: Shard) -> None:
        """Forget the moves of queues that were deleted long ago."""
        before_ms = self._topics.clock.wall_ms() - FORGET_AFTER_MS
        moves = running.machine.moves
        gone = [
            source
            for source in moves.sources()
            if self._topics.catalog.topic_by_id(source) is None
            and all(0 <= move.ended_ms < before_ms for move in moves.of(source))
        ]
        if gone:
            running.submit(ForgetMoves(sources=tuple(gone)), _ignore, Promise.COMMITTED)


async def _write(running: Shard, command: EndMove) -> None:
    reply = await running.change(command)
    if isinstance(reply, Refused):
        raise refusal_error(reply)


def _moved(reply: Reply) -> Move:
    assert isinstance(reply, MoveReply), f"a move was answered with {reply}"
    return reply.move


def _untaken(command: StartMove, count: int) -> Move:
    """The result of a dry run."""
    return Move(
        move_id="",
        source=command.source,
        destination=command.destination,
        rate=command.rate,
        filter=command.filter,
        ends=command.ends,
        positions=(Offset(0),) * len(command.ends),
        state=MoveState.COMPLETED,
        to_move=count,
        moved=0,
        failed=0,
        started_ms=-1,
    )


def _as_letter(source: Topic, index: int, group: str, one: BrowsedMessage) -> Message:
    """A message that died and stayed, as it would look among the dead letters."""
    death = Death(
        topic=source.name,
        topic_id=source.topic_id,
        index=index,
        group=group,
        deliveries=one.deliveries,
        first_received_ms=one.first_received_ms,
        died_ms=one.until_ms,
        reason=one.reason,
    )
    headers = dead_letter(one.message, death).headers
    return msgspec.structs.replace(one.message, headers=headers)


def _ignore(_reply: Reply | PenstockError) -> None:
    """Ignore the outcome: a command that was refused or lost is repeated at the next look."""
