"""A client: one connection to a broker, a cluster, or an engine inside this process.

    with penstock.blocking.connect("penstock://127.0.0.1:9092") as client:
        client.send("orders", {"id": 7})
        for message in client.receive("orders", wait=20):
            print(message.body)
            message.ack()

Generated from penstock.client.client by tests/house/blocking_client.py; do not edit.
`make generate` renews it.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, cast, overload

from penstock.client.blocking.iteration import iterate, listed
from penstock.client.blocking.lifecycle import ClientLifecycle
from penstock.client.blocking.message import BlockingMessage
from penstock.client.blocking.queue import BlockingQueue
from penstock.client.blocking.stage import BlockingStage
from penstock.client.blocking.subscription import BlockingSubscription
from penstock.client.blocking.topic import BlockingTopic
from penstock.client.call_options import SendManyOptions, SendOptions, SubscribeOptions
from penstock.client.codecs import Codec
from penstock.client.descriptions import (
    ClusterDescription,
    QueueDescription,
    TopicDescription,
    TopicSummary,
)
from penstock.client.group_descriptions import GroupDescription, GroupSummary, OffsetChange
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.producer.partitioners import Partitioner, PartitionFunction
from penstock.client.queue_admin import QueueOptions
from penstock.client.reader.start_position import Start
from penstock.client.reader.topic_watch import Topics
from penstock.client.record import Record
from penstock.client.seconds import Seconds
from penstock.client.sent_message import Sent, SentMany
from penstock.client.settings import ClientSettings
from penstock.client.staged_message import Publication, Staged
from penstock.client.statistics import ClientStatistics
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.wire.trace_requests import TraceInfo

T = TypeVar("T")


class BlockingClient(ClientLifecycle):
    """`Client` without `await`; made by `penstock.blocking.connect`."""

    @property
    def url(self) -> str:
        """The address that the client was opened with."""
        return self._inner.url

    @property
    def settings(self) -> ClientSettings:
        """The settings of the client."""
        return self._inner.settings

    def __repr__(self) -> str:
        return f"Blocking{self._inner!r}"

    # Its life.

    def __enter__(self) -> Self:
        self._thread.run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Queues and topics.

    @overload
    def queue(
        self,
        name: str,
        *,
        codec: None = None,
        group: str = ...,
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> BlockingQueue[Any]: ...
    @overload
    def queue(
        self,
        name: str,
        *,
        codec: Codec[T] | type[T],
        group: str = ...,
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> BlockingQueue[T]: ...
    def queue(
        self,
        name: str,
        *,
        codec: object = None,
        group: str = DEFAULT_WORK_GROUP,
        partitioner: Partitioner | PartitionFunction | None = None,
    ) -> BlockingQueue[Any]:
        """A queue by name, seen through a work group. `codec` says what bodies are: `bytes`, `str`,
        `penstock.JSON`, or a dataclass, msgspec or pydantic class."""
        found = self._thread.call(
            lambda: self._inner.queue(
                name, codec=cast(Any, codec), group=group, partitioner=partitioner
            )
        )
        return BlockingQueue(found, self._thread)

    @overload
    def topic(
        self,
        name: str,
        *,
        codec: None = None,
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> BlockingTopic[Any]: ...
    @overload
    def topic(
        self,
        name: str,
        *,
        codec: Codec[T] | type[T],
        partitioner: Partitioner | PartitionFunction | None = ...,
    ) -> BlockingTopic[T]: ...
    def topic(
        self,
        name: str,
        *,
        codec: object = None,
        partitioner: Partitioner | PartitionFunction | None = None,
    ) -> BlockingTopic[Any]:
        """Return a handle of a topic."""
        found = self._thread.call(
            lambda: self._inner.topic(name, codec=cast(Any, codec), partitioner=partitioner)
        )
        return BlockingTopic(found, self._thread)

    # Messages.

    def send(self, destination: str, body: object, **options: Unpack[SendOptions]) -> Sent:
        """Send one message to a queue or topic; see `Queue.send` for the options."""
        return self._thread.run(self._inner.send(destination, body, **options))

    def send_many(
        self,
        destination: str,
        bodies: "Iterable[object | Outgoing[Any]]",
        **options: Unpack[SendManyOptions],
    ) -> SentMany:
        """Send many messages to a queue or topic; see `Queue.send_many` for the options."""
        bodies = listed(bodies)
        return self._thread.run(self._inner.send_many(destination, bodies, **options))

    def receive(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        lease: Seconds | None = None,
        group: str = DEFAULT_WORK_GROUP,
        create: bool = False,
    ) -> list[BlockingMessage[Any]]:
        """Lease messages of a queue; see `Queue.receive`."""
        found = self._thread.run(
            self._inner.receive(
                queue, max_messages, wait=wait, lease=lease, group=group, create=create
            )
        )
        return [BlockingMessage(one, self._thread) for one in found]

    @overload
    def subscribe(
        self, topics: Topics, *, codec: None = None, **options: Unpack[SubscribeOptions]
    ) -> BlockingSubscription[Any]: ...
    @overload
    def subscribe(
        self, topics: Topics, *, codec: Codec[T] | type[T], **options: Unpack[SubscribeOptions]
    ) -> BlockingSubscription[T]: ...
    def subscribe(
        self, topics: Topics, *, codec: object = None, **options: Unpack[SubscribeOptions]
    ) -> BlockingSubscription[Any]:
        """Read one or several topics, or all that match a pattern, with a group or without: see
        `Subscription`."""
        found = self._thread.call(
            lambda: self._inner.subscribe(topics, codec=cast(Any, codec), **options)
        )
        return BlockingSubscription(found, self._thread)

    @overload
    def read(
        self,
        topic: str,
        *,
        start: Start = ...,
        end: Start | None = ...,
        partitions: Iterable[int] | None = ...,
        codec: None = None,
    ) -> Iterator[Record[Any]]: ...
    @overload
    def read(
        self,
        topic: str,
        *,
        start: Start = ...,
        end: Start | None = ...,
        partitions: Iterable[int] | None = ...,
        codec: Codec[T] | type[T],
    ) -> Iterator[Record[T]]: ...
    def read(
        self,
        topic: str,
        *,
        start: Start = "earliest",
        end: Start | None = None,
        partitions: Iterable[int] | None = None,
        codec: object = None,
    ) -> Iterator[Record[Any]]:
        """Replay a topic from `start` to its current end. No committed position moves."""
        partitions = listed(partitions)
        found = self._thread.call(
            lambda: self._inner.read(
                topic, start=start, end=end, partitions=partitions, codec=cast(Any, codec)
            )
        )
        return iterate(found, self._thread)

    # Publishing.

    def open_stage(self) -> BlockingStage:
        """Return an empty stage, which holds messages until they are published: see `Stage`."""
        found = self._thread.call(self._inner.open_stage)
        return BlockingStage(found, self._thread)

    def publish(
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
        staged = listed(staged)
        return self._thread.run(
            self._inner.publish(application, batch, staged, owner=owner, timeout=timeout)
        )

    def last_published(self, application: str) -> int | None:
        """The number of the last batch that an application has published, if it has any."""
        return self._thread.run(self._inner.last_published(application))

    # Looking after things.

    def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> QueueDescription:
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
        return self._thread.run(self._inner.create_queue(name, **options))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        exist_ok: bool = False,
        configs: Mapping[str, str] | None = None,
    ) -> TopicDescription:
        """Make a topic, with Kafka's configs by their names."""
        return self._thread.run(
            self._inner.create_topic(
                name, partitions=partitions, exist_ok=exist_ok, configs=configs
            )
        )

    def configure(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change the configs of a topic or queue; None takes one back to its default."""
        return self._thread.run(self._inner.configure(name, changes))

    def add_partitions(self, name: str, total: int) -> TopicDescription:
        """Give a topic more partitions, `total` in all. Keys may move to others by that."""
        return self._thread.run(self._inner.add_partitions(name, total))

    def describe_topic(self, name: str) -> TopicDescription:
        """Partitions and configs of a topic or queue."""
        return self._thread.run(self._inner.describe_topic(name))

    def describe_queue(self, name: str) -> QueueDescription:
        """Describe a queue: its partitions, its configs and the load of its work groups."""
        return self._thread.run(self._inner.describe_queue(name))

    def topics(self) -> list[TopicSummary]:
        """All topics and queues, by name."""
        return self._thread.run(self._inner.topics())

    def delete_topic(self, name: str) -> None:
        """Remove a topic or queue with everything in it."""
        self._thread.run(self._inner.delete_topic(name))

    def delete_queue(self, name: str) -> None:
        """Delete a queue and its messages."""
        self._thread.run(self._inner.delete_queue(name))

    def cluster(self) -> ClusterDescription:
        """The nodes and their addresses, as the node sees them that answers."""
        return self._thread.run(self._inner.cluster())

    def trace(self, message: str, *, within: Iterable[str] = ()) -> TraceInfo:
        """Trace a message, given by its id or by its place as "topic:partition:offset": where it
        was written, which receivers had it, how it was settled and where it was moved.

        It is looked for everywhere, or in the topics and queues named by `within`."""
        within = listed(within)
        return self._thread.run(self._inner.trace(message, within=within))

    def statistics(self) -> ClientStatistics:
        """Return the counters of this client."""
        return self._thread.call(self._inner.statistics)

    # Groups.
    def groups(self) -> list[GroupSummary]:
        """All consumer groups, by name."""
        return self._thread.run(self._inner.groups())

    def describe_group(self, name: str) -> GroupDescription:
        """Describe a group: its members and its lag."""
        return self._thread.run(self._inner.describe_group(name))

    def delete_group(self, name: str) -> None:
        """Forget a group that has no members, with how far it had got."""
        self._thread.run(self._inner.delete_group(name))

    def reset_group(
        self,
        name: str,
        to: Start = "earliest",
        *,
        topics: str | Iterable[str] | None = None,
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Reset the offsets of a group without members: "earliest", "latest", a datetime, or
        offsets by partition. Without topics, in all it has read. A dry run changes nothing."""
        topics = listed(topics)
        return self._thread.run(self._inner.reset_group(name, to, topics=topics, dry_run=dry_run))
