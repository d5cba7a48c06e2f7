"""A queue, as workers and senders see it.

    queue = client.queue("orders")
    await queue.send({"id": 7}, delay=10)
    for message in await queue.receive(10, wait=20):
        …
        await message.ack()

It is a light handle: making one sends no request, and two of the same name share everything. A
queue that does not exist is made when something is sent to it, if settings and broker allow it, and
then has a delivery limit, a retry curve and a dead-letter queue. Receiving from it is an error.
"""

import warnings
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack, cast

from penstock.client.codecs import Codec
from penstock.client.connection.core import ClientCore
from penstock.client.consumer import PREFETCH, Consumer
from penstock.client.descriptions import (
    GroupSetting,
    MoveDescription,
    QueueDescription,
    QueueStats,
    TopicDescription,
)
from penstock.client.group_descriptions import OffsetChange
from penstock.client.guarantees import Guarantee
from penstock.client.message import Grant, Lease, Message
from penstock.client.peeked_message import PeekedMessage
from penstock.client.producer.outgoing_message import Headers, Key, Outgoing
from penstock.client.producer.partitioners import Partitioner
from penstock.client.producer.sender import Sender
from penstock.client.queue_admin import (
    GroupOptions,
    QueueOptions,
    browse,
    configure_group,
    configure_topic,
    count,
    create_queue,
    delete_topic,
    describe_queue,
    group_settings,
    move_of,
    purge,
    redrive,
)
from penstock.client.queue_control import (
    LetterConditions,
    Place,
    cancel,
    cancel_move,
    decide,
    move_messages,
    moves,
    reset,
)
from penstock.client.reader.start_position import Start
from penstock.client.receipts import read_receipt
from penstock.client.record import Record
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.client.sent_message import Sent, SentMany
from penstock.client.worker.cumulative_ack import (
    Beginning,
    WorkStanding,
    ack_range,
    begin_work,
    standings,
)
from penstock.client.worker.receiver import Receiver

T = TypeVar("T")

Messages = Message[T] | str | Sequence[Message[T] | str]
"""Messages, or their receipts."""
_UNSAID = (None,) * 11
"""The options of a message that has only a body."""


class Queue(Generic[T]):
    """A queue as senders and workers see it: send, receive, consume, settle, look, look after. A
    light handle; made by `Client.queue`.

    The first send creates the queue, with a delivery limit and a dead-letter queue; receiving does
    not, unless it is asked to. Each message goes to one worker of a work group at a time.

        orders = client.queue("orders")
        await orders.send({"order": 7}, delay=60)
        async with orders.consume() as messages:
            async for message in messages:
                await message.ack()
    """

    def __init__(
        self,
        core: ClientCore,
        name: str,
        group: str,
        codec: Codec[T],
        partitioner: Partitioner,
    ) -> None:
        self.name = name
        """The name of the queue."""
        self.group = group
        """The work group: workers of one group share the messages, each group gets them all."""
        self._core = core
        self._codec = codec
        self._sender = Sender(name, codec, partitioner, core.senders, create="queue")
        self._receiver = self._make_receiver()

    def __repr__(self) -> str:
        return f"Queue({self.name!r}, group={self.group!r})"

    def _make_receiver(self) -> Receiver[T]:
        core = self._core
        return Receiver(
            self.name, self.group, self._codec, core.router, core.settler, core.counters, core.clock
        )

    # Sending.

    async def send(
        self,
        body: T,
        *,
        key: Key = None,
        headers: Headers | None = None,
        priority: int | None = None,
        delay: Seconds | None = None,
        deliver_at: datetime | None = None,
        ttl: Seconds | None = None,
        expire_at: datetime | None = None,
        message_group: str | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
        timestamp: datetime | None = None,
        timeout: Seconds | None = None,
    ) -> Sent:
        """Send one message; returns when it is on disk on a majority of its replicas.

        `key` decides about the partition, and about the order in a FIFO queue unless
        `message_group` does. `dedup_id` makes a repeated send harmless, also by another process.
        Raises `DeadlinePassed` if it was not sent within `timeout` and `OutcomeUnknown` if it may
        have been."""
        seconds = None if timeout is None else to_milliseconds(timeout, "timeout") / 1_000
        options = (
            key, headers, priority, delay, deliver_at, ttl, expire_at,
            message_group, dedup_id, partition, timestamp,
        )  # fmt: skip
        if options == _UNSAID:
            return await self._sender.send_body(body, seconds)
        return await self._sender.send(Outgoing(body, *options), seconds)

    async def send_many(
        self,
        bodies: Iterable[T | Outgoing[T]],
        *,
        key: Key = None,
        headers: Headers | None = None,
        priority: int | None = None,
        delay: Seconds | None = None,
        deliver_at: datetime | None = None,
        ttl: Seconds | None = None,
        expire_at: datetime | None = None,
        message_group: str | None = None,
        partition: int | None = None,
        timestamp: datetime | None = None,
        timeout: Seconds | None = None,
    ) -> SentMany:
        """Send many messages in few batches; returns when all are stored.

        An `Outgoing` among the bodies has its own options, the others have those given here. If it
        raises, some of them may have been stored."""
        options: Outgoing[Any] = Outgoing(
            None, key, headers, priority, delay, deliver_at, ttl, expire_at,
            message_group, None, partition, timestamp,
        )  # fmt: skip
        return await self._sender.send_many(bodies, options, _seconds(timeout))

    # Receiving.

    async def receive(
        self,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        lease: Seconds | None = None,
        create: bool = False,
    ) -> list[Message[T]]:
        """Lease up to `max_messages`. If none is available, wait up to `wait` for the first; return
        [] if none comes.

        They are this caller's for the time of the lease: the queue's own (30 seconds, unless it was
        set it), or `lease`. What is not acked by then comes back. `UnknownTopic` if there is no
        such queue; with `create`, it is made as if something were sent to it."""
        seconds = to_milliseconds(wait, "wait") / 1_000
        return await self._receiver.receive(max_messages, seconds, lease, create=create)

    def consume(
        self,
        *,
        prefetch: int = PREFETCH,
        lease: Seconds | None = None,
        guarantee: Guarantee = Guarantee.AT_LEAST_ONCE,
        extend_leases: bool = True,
        create: bool = False,
    ) -> Consumer[T]:
        """Return a consumer: a stream of prefetched messages whose leases are extended while they
        are processed. With `create`, a queue that does not exist is created."""
        consumer = Consumer(
            self._make_receiver(),
            self._core.settler,
            prefetch=prefetch,
            prefetch_bytes_max=self._core.settings.prefetch_bytes_max,
            lease=lease,
            guarantee=guarantee,
            extend_leases=extend_leases,
            create=create,
        )
        self._core.readers.add(consumer)
        return consumer

    async def __aiter__(self) -> AsyncIterator[Message[T]]:
        """`async for message in queue`: a consumer that ends with the loop, however it is left."""
        async with self.consume() as messages:
            async for message in messages:
                yield message

    # Settling. Where a message is wanted, its receipt will do.

    async def ack(self, messages: Messages[T]) -> int:
        """Acknowledge messages; return the number that counted."""
        return await self._core.settler.ack(self._listed(messages))

    async def release(
        self, messages: Messages[T], delay: Seconds | None = None, reason: str = ""
    ) -> int:
        """Return messages for another delivery, after `delay` or as the retry policy says; return
        the number that counted. Those that have none left become dead letters with the reason."""
        return await self._core.settler.release(self._listed(messages), delay, reason)

    async def reject(self, messages: Messages[T], reason: str = "") -> int:
        """Make messages dead letters, with a reason: they can never be processed. Return the number
        that counted."""
        return await self._core.settler.reject(self._listed(messages), reason)

    async def extend(self, messages: Messages[T], lease: Seconds | None = None) -> int:
        """Extend the leases of messages to `lease` from now; return the number that counted."""
        return await self._core.settler.extend(self._listed(messages), lease)

    def _listed(self, messages: Messages[Any]) -> Sequence[Message[Any]]:
        given = [messages] if isinstance(messages, Message | str) else messages
        if not isinstance(given, list | tuple):
            given = list(given)  # It is gone through twice, which an iterator is not.
        if str not in set(map(type, given)):  # No loop in Python for each of a thousand messages.
            return cast("Sequence[Message[Any]]", given)
        return [self._message_of(one) if isinstance(one, str) else one for one in given]

    def _message_of(self, receipt: str) -> Message[Any]:
        """A message of which no more is known than its lease."""
        found = read_receipt(receipt)
        core = self._core
        codec: Codec[Any] = self._codec
        lease = Lease(
            queue=self.name,
            topic_id=found.topic_id,
            index=found.partition,
            group=found.group,
            epoch=found.epoch,
            until_ms=core.clock.monotonic_ms() + found.duration_ms,
            duration_ms=found.duration_ms,
            codec=codec,
            settling=core.settler,
            clock=core.clock,
        )
        return Message(Grant(lease, 1, -1), found.offset, -1, None, None, ())

    async def give_back(self, messages: Messages[T]) -> int:
        """Return messages that were not worked on, as if they had never been delivered."""
        return await self._core.settler.give_back(self._listed(messages))

    # Reading by offset.

    async def begin(self, start: Beginning = "earliest") -> None:
        """Let this work group begin, at the first message there is or behind the last one; a group
        that has begun stays where it is. A receiver need not call it: a group that is received
        for begins at the first message.

        On a topic that is no queue, dead messages of a group that begins like this are kept aside,
        unless its config `share.dead.letter.policy` says otherwise."""
        await begin_work(self._core.router, self.name, self.group, start)

    async def standing(self, offsets: Mapping[int, int] | None = None) -> dict[int, WorkStanding]:
        """Return the position of this work group in each partition, for readers by offset: its
        remaining work, and how far they may read from their `offsets`."""
        return await standings(self._core.router, self.name, self.group, offsets or {})

    async def ack_range(
        self,
        partition: int,
        first: int,
        end: int,
        *,
        dead: Mapping[int, str] | None = None,
        stream: str = "",
        batch: int = -1,
    ) -> int:
        """Acknowledge the messages from `first` up to, not including, `end` (a cumulative ack), for
        a reader of this queue's log: they are done for this work group, whichever receiver has
        leased them, after those in `dead`, offsets with a reason, have died. Returns how many that
        concerned.

        What is done or dead already stays so: asking again changes nothing. A `stream` with a name,
        which counts its batches upwards, is heard once for each `batch` even if dead messages of it
        were delivered anew in between."""
        return await ack_range(
            self._core.router, self.name, self.group, partition, first, end, dead or {},
            stream=stream, batch=batch,
        )  # fmt: skip

    async def cover(
        self,
        partition: int,
        first: int,
        end: int,
        *,
        dead: Mapping[int, str] | None = None,
        stream: str = "",
        batch: int = -1,
    ) -> int:
        """Deprecated: the name of `ack_range` in 0.1."""
        warnings.warn("Queue.cover is now .ack_range", DeprecationWarning, stacklevel=2)
        return await self.ack_range(partition, first, end, dead=dead, stream=stream, batch=batch)

    # Looking.

    async def peek(
        self,
        max_messages: int = 10,
        *,
        states: Iterable[str] | None = None,
        partition: int | None = None,
        start: int = 0,
    ) -> list[PeekedMessage[T]]:
        """Look at messages without touching them: nothing is leased or counted.

        `states` are `ready`, `leased`, `delayed` and `dead`; `start` is an offset."""
        return await browse(
            self._core.router, self.name, self.group, self._codec,
            max_messages=max_messages, states=states, partition=partition, start=start,
        )  # fmt: skip

    async def stats(self) -> QueueStats:
        """Return the number of messages in each state."""
        return await count(self._core.router, self.name, self.group)

    async def describe(self) -> QueueDescription:
        """Describe the queue: its partitions, its configs and its work groups."""
        return await describe_queue(self._core.router, self.name)

    # Looking after it.

    async def create(self, **options: Unpack[QueueOptions]) -> QueueDescription:
        """Make it, with options as `Client.create_queue` takes them."""
        return await create_queue(self._core.router, self.name, options)

    async def configure(self, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change its configs (`queue.*` and a topic's); None takes one back to its default."""
        return await configure_topic(self._core.router, self.name, changes)

    async def configure_group(
        self, group: str, **options: Unpack[GroupOptions]
    ) -> dict[str, GroupSetting]:
        """Give a work group of this queue settings of its own. Other settings are inherited from
        the queue, also when they change there later. The group need not exist yet.

        lease           for how long a message is a worker's (seconds)
        deliveries_max  after so many failed deliveries a message is dead; 0: never
        dead_letter     the queue that dead messages of the group go to; "": they stay aside
        retry           "none", "fixed", "linear", "exponential" or "jittered"
        retry_delay     how long the first retry waits (seconds)
        settings        the same and others by the names of the queue's settings; None lets the
                        group inherit one again: `{"queue.lease.ms": None}`

        The settings of the group `queue` are the queue's own. Returns what the group goes by."""
        return await configure_group(self._core.router, self.name, group, options)

    async def group_settings(self, group: str | None = None) -> dict[str, GroupSetting]:
        """Return the effective settings of a work group, each with its origin; by default of this
        handle's group."""
        chosen = self.group if group is None else group
        return await group_settings(self._core.router, self.name, chosen)

    async def pause(self) -> None:
        """Pause delivery to all work groups until `resume`. Messages can still be sent, and leased
        ones settled."""
        await configure_topic(self._core.router, self.name, {"queue.paused": "true"})

    async def resume(self) -> None:
        """Resume delivery."""
        await configure_topic(self._core.router, self.name, {"queue.paused": None})

    async def cancel(self, messages: Place | Sequence[Place]) -> int:
        """Cancel messages that are not leased, delayed ones for instance: they are never delivered
        to this work group. Named by what `send` returned or `peek` showed, or by partition and
        offset. Returns how many of them were still there."""
        single = isinstance(messages, tuple | Record)
        places = cast("Sequence[Place]", [messages] if single else messages)
        return await cancel(self._core.router, self.name, self.group, places)

    async def reset(self, to: Start = "earliest", *, dry_run: bool = False) -> list[OffsetChange]:
        """Reset the offsets of this work group: "earliest", "latest", a datetime, or offsets by
        partition. Messages it was done with are delivered again, if they are still there; leases
        end. A dry run changes nothing."""
        return await reset(self._core.router, self.name, self.group, to, dry_run=dry_run)

    async def purge(self) -> int:
        """Drop everything this work group has left to do; returns how many messages that was."""
        return await purge(self._core.router, self.name, self.group)

    async def redrive(
        self,
        *,
        to: str | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        **conditions: Unpack[LetterConditions],
    ) -> "Redriven":
        """Deliver dead messages anew: those that stayed here at once; of a dead-letter queue, all
        go back to where they died, or to `to`, `rate` a second. The cluster does it by itself.

        With conditions, only those that each of them holds for:

        places          a partition and an offset each as `peek` shows them, at most 10,000
        ids             ids of messages
        reason          part of the reason they died for
        origin, group   the queue and the work group they died in
        since, until    when they died
        key, body       part of the key, part of the body
        header          the name of a header; `header_value` is part of its value

        With `dry_run` nothing happens but counting."""
        if conditions.keys() <= {"places"}:
            places = conditions.get("places")
            begun = await redrive(
                self._core.router, self.name, to, rate, dry_run, places=places, group=self.group
            )
        else:
            begun = await self._redrive(to, rate, dry_run, conditions)
        return Redriven(self, *begun)

    async def _redrive(
        self, to: str | None, rate: int | None, dry_run: bool, conditions: LetterConditions
    ) -> tuple[int, str]:
        router = self._core.router
        stats = await self.stats()
        if not to and stats.dead > stats.dead_lettered:
            revived = await decide(
                router, self.name, self.group, conditions, discard=False, dry_run=dry_run
            )
            return revived, ""
        return await move_messages(router, self.name, to, rate, conditions, dry_run=dry_run)

    async def revive(self, *, dry_run: bool = False, **conditions: Unpack[LetterConditions]) -> int:
        """Deliver messages of this work group anew that died and stayed here, where they are; all,
        or those that the conditions hold for (see `redrive`). Returns how many."""
        return await decide(
            self._core.router, self.name, self.group, conditions, discard=False, dry_run=dry_run
        )

    async def discard(self, **conditions: Unpack[LetterConditions]) -> int:
        """Drop messages of this work group that died and stayed here; all, or those that the
        conditions hold for (see `redrive`). Returns how many."""
        return await decide(self._core.router, self.name, self.group, conditions, discard=True)

    async def moves(self) -> list[MoveDescription]:
        """The moves out of this queue that `redrive` began, the latest first."""
        return await moves(self._core.router, self.name)

    async def cancel_move(self, move_id: str) -> MoveDescription:
        """Cancel a move; messages already moved stay moved."""
        return await cancel_move(self._core.router, self.name, move_id)

    async def move(self, move_id: str) -> MoveDescription:
        """Return the progress of a move that `redrive` began."""
        return await move_of(self._core.router, self.name, move_id)

    async def delete(self) -> None:
        """Remove it with everything in it."""
        await delete_topic(self._core.router, self.name)


class Redriven:
    """The result of `Queue.redrive`."""

    def __init__(self, queue: Queue[Any], count: int, move_id: str) -> None:
        self._queue = queue
        self.count = count
        """The number of messages."""
        self.move_id = move_id
        """The id of the move, which runs in the cluster; empty if all is done, or nothing was
        started."""

    def __int__(self) -> int:
        return self.count

    async def progress(self) -> MoveDescription:
        """Return the progress of the move."""
        if not self.move_id:
            return MoveDescription(
                state="completed", moved=self.count, total=self.count, failure=""
            )
        return await self._queue.move(self.move_id)


def _seconds(timeout: Seconds | None) -> float | None:
    return None if timeout is None else to_milliseconds(timeout, "timeout") / 1_000
