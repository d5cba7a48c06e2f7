"""A client: one connection to a broker, a cluster, or an engine inside this process.

    async with penstock.connect("penstock://127.0.0.1:9092") as client:
        await client.send("orders", {"id": 7})
        for message in await client.receive("orders", wait=20):
            print(message.body)
            await message.ack()

It finds the nodes that lead what is asked for, follows them when they change, and tries again what
can be tried again, until the deadline of the call. It belongs to one event loop; threads and
programs without a loop use `penstock.blocking`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from functools import cache
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from penstock.client.call_options import SendManyOptions, SendOptions, SubscribeOptions
from penstock.client.codecs import Codec, codec_for
from penstock.client.connection.channel import Channel
from penstock.client.connection.core import ClientCore
from penstock.client.connection.tcp_channel import TcpChannel
from penstock.client.descriptions import (
    ClusterDescription,
    NodeDescription,
    QueueDescription,
    TopicDescription,
    TopicSummary,
)
from penstock.client.group_admin import GroupAdmin
from penstock.client.message import Message
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.producer.partitioners import Partitioner, PartitionFunction, partitioner_for
from penstock.client.queue import Queue
from penstock.client.queue_admin import (
    QueueOptions,
    add_partitions,
    configure_topic,
    create_queue,
    create_topic,
    delete_topic,
    describe_queue,
    describe_topic,
    list_topics,
)
from penstock.client.reader.raw_log import RawLog
from penstock.client.reader.replay import read_records
from penstock.client.reader.start_position import Start
from penstock.client.reader.topic_watch import Topics
from penstock.client.record import Record
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.client.sent_message import Sent, SentMany
from penstock.client.settings import ClientSettings
from penstock.client.stage import Stage, last_published, publish
from penstock.client.staged_message import Publication, Staged
from penstock.client.statistics import ClientStatistics
from penstock.client.subscription import Subscription
from penstock.client.subscription_options import SubscriptionOptions
from penstock.client.topic import Topic
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ClientClosed, DeadlinePassed, InvalidRequest, OutcomeUnknown
from penstock.core.limits import MIB
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.wire.trace_requests import AskTrace, TraceInfo

T = TypeVar("T")

HANDLES_KEPT_MAX = 1_000

OpenChannel = Callable[[], Awaitable[Channel]]


SHOWN_BYTES = 8 * MIB
"""Twice as much stays with the process when it is free."""


@cache
def keep_freed_memory() -> None:
    """Have the C library keep the memory of a batch for the next one; once in a process.

    A batch takes a megabyte or two for a moment. glibc gives freed blocks of that size back to the
    system, and to get them again costs a page fault for every four kilobytes: on a virtual machine
    a third of the time of a batch. Once it has seen a large block come and go, it keeps up to twice
    as much (mallopt(3), M_MMAP_THRESHOLD). The block shown here is never touched, so it costs
    nothing. With another library this has no effect."""
    bytes(SHOWN_BYTES)


class Client(GroupAdmin):
    """A connection to a broker, a cluster, or an engine inside this process: queues, topics,
    groups, the cluster. One is enough for a program; made by `penstock.connect`.

    It connects when it is first used, tries again by itself within a deadline (30 s), and finds new
    leaders. `async with`, or `close()`, sends what is still in its buffers.

        async with penstock.connect("penstock://127.0.0.1:9092") as client:
            await client.send("orders", {"order": 7})
    """

    def __init__(
        self,
        open_channel: OpenChannel,
        *,
        url: str,
        settings: ClientSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        keep_freed_memory()
        self.url = url
        """The address that the client was opened with."""
        self.settings: ClientSettings = settings or ClientSettings()
        """The settings of the client."""
        self._open_channel = open_channel
        self._clock = clock or SystemClock()
        self._opened: ClientCore | None = None
        self._opening: asyncio.Task[None] | None = None
        self._openers = 0
        """The number of calls that wait for the client to open."""
        self._closed = False
        self._queues: dict[str, Queue[Any]] = {}

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    # Its life.

    async def open(self) -> Self:
        """Connect; `await` and `async with` call it. Calls at the same time share one attempt."""
        while self._opened is None:
            if self._closed:
                raise ClientClosed("the client was closed; make another one")
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
                self._opening.add_done_callback(self._opening_ended)
            opening = self._opening
            self._openers += 1
            try:
                await asyncio.wait([opening])
            finally:
                self._openers -= 1
                if not self._openers:
                    opening.cancel()  # All that wait for it were cancelled, or it has ended.
            if not opening.cancelled():
                opening.result()
        return self

    def _opening_ended(self, opening: "asyncio.Task[None]") -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # All callers may have gone.

    async def _open(self) -> None:
        channel = await self._open_channel()
        core = ClientCore(channel, self.settings, self._clock)
        if isinstance(channel, TcpChannel):
            core.router.tracing.server = channel.first_host
        try:
            async with asyncio.timeout(self.settings.timeout):
                await self._meet(core)
        except TimeoutError:
            await core.close()
            seconds = self.settings.timeout
            raise DeadlinePassed(f"no node answers at {self.url} within {seconds:g} s") from None
        except BaseException:
            await core.close()
            raise
        self._opened = core

    async def _meet(self, core: ClientCore) -> None:
        """Fetch the addresses of the cluster. Raises at once if no node can be reached at all."""
        retries = core.router.retrier.endless()
        while True:
            try:
                await core.metadata.cluster(self.settings.attempt_timeout)
                return
            except OutcomeUnknown as error:  # A node that hangs; another one may not.
                await retries.pause(error)

    def __await__(self) -> Generator[Any, None, Self]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Send the waiting messages, release the prefetched ones, and disconnect."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        core, self._opened = self._opened, None
        if core is not None:
            await core.close()

    @property
    def _core(self) -> ClientCore:
        if self._opened is None:
            state = "was closed" if self._closed else "is not connected: await it, or `async with`"
            raise ClientClosed(f"the client {state}")
        return self._opened

    # Queues and topics.

    @overload
    def queue(
        self,
        name: str,
        *,
        codec: None = None,
        group: str = ...,
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> Queue[Any]: ...
    @overload
    def queue(
        self,
        name: str,
        *,
        codec: Codec[T] | type[T],
        group: str = ...,
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> Queue[T]: ...
    def queue(
        self,
        name: str,
        *,
        codec: object = None,
        group: str = DEFAULT_WORK_GROUP,
        partitioner: Partitioner | PartitionFunction | None = None,
    ) -> Queue[Any]:
        """A queue by name, seen through a work group. `codec` says what bodies are: `bytes`, `str`,
        `penstock.JSON`, or a dataclass, msgspec or pydantic class."""
        _check_name(name)
        chosen = codec_for(codec)  # type: ignore[call-overload]
        core = self._core
        return Queue(core, name, group, chosen, self._partitioner(partitioner))

    @overload
    def topic(
        self,
        name: str,
        *,
        codec: None = None,
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> Topic[Any]: ...
    @overload
    def topic(
        self,
        name: str,
        *,
        codec: Codec[T] | type[T],
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> Topic[T]: ...
    def topic(
        self,
        name: str,
        *,
        codec: object = None,
        partitioner: Partitioner | PartitionFunction | None = None,
    ) -> Topic[Any]:
        """Return a handle of a topic."""
        _check_name(name)
        chosen = codec_for(codec)  # type: ignore[call-overload]
        return Topic(self._core, name, chosen, self._partitioner(partitioner))

    def _partitioner(self, choice: Partitioner | PartitionFunction | None) -> Partitioner:
        return partitioner_for(choice, random=self._core.router.random)

    def _shared(self, name: str) -> Queue[Any]:
        """The handle that `send` and `receive` use."""
        found = self._queues.get(name)
        if found is None:
            if len(self._queues) >= HANDLES_KEPT_MAX:
                self._queues.clear()
            found = self._queues[name] = self.queue(name)
        return found

    # Messages.

    async def send(self, destination: str, body: object, **options: Unpack[SendOptions]) -> Sent:
        """Send one message to a queue or topic; see `Queue.send` for the options."""
        return await self._shared(destination).send(body, **options)

    async def send_many(
        self,
        destination: str,
        bodies: "Iterable[object | Outgoing[Any]]",
        **options: Unpack[SendManyOptions],
    ) -> SentMany:
        """Send many messages to a queue or topic; see `Queue.send_many` for the options."""
        return await self._shared(destination).send_many(bodies, **options)

    async def receive(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        lease: Seconds | None = None,
        group: str = DEFAULT_WORK_GROUP,
        create: bool = False,
    ) -> list[Message[Any]]:
        """Lease messages of a queue; see `Queue.receive`."""
        handle = (
            self._shared(queue) if group == DEFAULT_WORK_GROUP else self.queue(queue, group=group)
        )
        return await handle.receive(max_messages, wait=wait, lease=lease, create=create)

    @overload
    def subscribe(
        self, topics: Topics, *, codec: None = None, **options: Unpack[SubscribeOptions]
    ) -> Subscription[Any]: ...
    @overload
    def subscribe(
        self, topics: Topics, *, codec: Codec[T] | type[T], **options: Unpack[SubscribeOptions]
    ) -> Subscription[T]: ...
    def subscribe(
        self, topics: Topics, *, codec: object = None, **options: Unpack[SubscribeOptions]
    ) -> Subscription[Any]:
        """Read one or several topics, or all that match a pattern, with a group or without: see
        `Subscription`."""
        chosen = codec_for(codec)  # type: ignore[call-overload]
        core = self._core
        subscription = Subscription(core.router, topics, chosen, SubscriptionOptions(**options))
        core.readers.add(subscription)
        return subscription

    @overload
    def read(
        self,
        topic: str,
        *,
        start: Start = ...,
        end: Start | None = ...,
        partitions: Iterable[int] | None = ...,
        codec: None = None,
    ) -> AsyncIterator[Record[Any]]: ...
    @overload
    def read(
        self,
        topic: str,
        *,
        start: Start = ...,
        end: Start | None = ...,
        partitions: Iterable[int] | None = ...,
        codec: Codec[T] | type[T],
    ) -> AsyncIterator[Record[T]]: ...
    def read(
        self,
        topic: str,
        *,
        start: Start = "earliest",
        end: Start | None = None,
        partitions: Iterable[int] | None = None,
        codec: object = None,
    ) -> AsyncIterator[Record[Any]]:
        """Replay a topic from `start` to its current end. No committed position moves."""
        chosen = codec_for(codec)  # type: ignore[call-overload]
        return read_records(
            self._core.router, topic, codec=chosen, start=start, end=end, partitions=partitions
        )

    # Publishing.

    def open_stage(self) -> Stage:
        """Return an empty stage, which holds messages until they are published: see `Stage`."""
        return Stage(self._core)

    async def publish(
        self,
        application: str,
        batch: int,
        staged: Iterable[Staged],
        *,
        owner: str = "",
        timeout: Seconds | None = None,
    ) -> Publication:
        """Publish staged messages: in all their partitions or in none, and once for each batch of
        an application, however often the call is repeated. Batches of an application are numbered
        upwards; one that is not above the last counts as published.

        owner    a name for the source of the batch numbers, if two sources could use the same
                 numbers: a batch of another owner raises `PublicationConflict`
        """
        seconds = None if timeout is None else to_milliseconds(timeout, "timeout") / 1_000
        return await publish(self._core, application, batch, staged, owner=owner, timeout=seconds)

    async def last_published(self, application: str) -> int | None:
        """The number of the last batch that an application has published, if it has any."""
        return await last_published(self._core, application)

    def raw_log(self) -> RawLog:
        """The log as it is stored, for programs that decode batches themselves: see `RawLog`."""
        return RawLog(self._core.router)

    # Looking after things.

    async def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> QueueDescription:
        """Create a queue, and its dead-letter queue. Durations are seconds or `timedelta`s.

        partitions      how many; 1, unless one node is not enough
        exist_ok        one that is there is left as it is, instead of `TopicExists`; if it has
                        other settings than those given here, `SettingsDiffer` says which
        lease           for how long a message is a worker's (30 seconds)
        deliveries_max  after so many failed deliveries a message is dead (5); 0: never
        dead_letter     the queue that dead messages go to (the name with "-dlq"); "": they stay
        retry           how long a message waits that failed: none, fixed, linear, exponential or
                        jittered (jittered), beginning with `retry_delay` (2 seconds)
        fifo            messages of one group (`message_group`, or the key) one after the other
        delay, ttl      of messages that say nothing else
        priorities      strict or weighted
        deduplication   by the sender's `dedup_id` ("id"), or also by the body ("content")
        length_max      how many messages may wait before sending is refused
        settings        any other topic config by its name
        """
        return await create_queue(self._core.router, name, options)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        exist_ok: bool = False,
        configs: Mapping[str, str] | None = None,
    ) -> TopicDescription:
        """Make a topic, with Kafka's configs by their names."""
        router = self._core.router
        await create_topic(router, name, partitions, configs or {}, exist_ok=exist_ok)
        return await describe_topic(router, name)

    async def configure(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change the configs of a topic or queue; None takes one back to its default."""
        return await configure_topic(self._core.router, name, changes)

    async def add_partitions(self, name: str, total: int) -> TopicDescription:
        """Give a topic more partitions, `total` in all. Keys may move to others by that."""
        return await add_partitions(self._core.router, name, total)

    async def describe_topic(self, name: str) -> TopicDescription:
        """Partitions and configs of a topic or queue."""
        return await describe_topic(self._core.router, name)

    async def describe_queue(self, name: str) -> QueueDescription:
        """Describe a queue: its partitions, its configs and the load of its work groups."""
        return await describe_queue(self._core.router, name)

    async def topics(self) -> list[TopicSummary]:
        """All topics and queues, by name."""
        return await list_topics(self._core.router)

    async def delete_topic(self, name: str) -> None:
        """Remove a topic or queue with everything in it."""
        await delete_topic(self._core.router, name)

    async def delete_queue(self, name: str) -> None:
        """Delete a queue and its messages."""
        await delete_topic(self._core.router, name)

    async def cluster(self) -> ClusterDescription:
        """The nodes and their addresses, as the node sees them that answers."""
        core = self._core
        info = await core.metadata.cluster(self.settings.timeout)
        return ClusterDescription(
            cluster_id=info.cluster_id,
            version=info.version,
            node=info.node,
            controller=info.controller,
            nodes=tuple(
                NodeDescription(
                    id=one.node,
                    address=one.address,
                    alive=one.alive,
                    http=one.http,
                    read_only=one.read_only,
                )
                for one in info.nodes
            ),
            read_only_shards=info.read_only_shards,
        )

    async def trace(self, message: str, *, within: Iterable[str] = ()) -> TraceInfo:
        """Trace a message, given by its id or by its place as "topic:partition:offset": where it
        was written, which receivers had it, how it was settled and where it was moved.

        It is looked for everywhere, or in the topics and queues named by `within`."""
        request = AskTrace(message, tuple(within))
        timeout = self.settings.timeout
        return await self._core.router.ask(request, TraceInfo, seconds=timeout)

    def statistics(self) -> ClientStatistics:
        """Return the counters of this client."""
        core = self._core
        counters = core.counters
        return ClientStatistics(
            sent=counters.sent,
            sent_bytes=counters.sent_bytes,
            batches=counters.batches,
            received=counters.received,
            received_bytes=counters.received_bytes,
            receives=counters.receives,
            acked=counters.acked,
            released=counters.released,
            rejected=counters.rejected,
            extended=counters.extended,
            leases_lost=counters.leases_lost,
            retries=core.router.retries,
            waiting_bytes=core.senders.budget.taken,
        )


def _check_name(name: str) -> None:
    if not name:
        raise InvalidRequest(f"{name!r} is no name of a queue or topic.")
