"""A client for programs without an event loop: the same names, without `await`.

    with penstock.blocking.connect("penstock://127.0.0.1:9092") as client:
        client.send("orders", {"id": 7})
        for message in client.receive("orders", wait=20):
            print(message.body)
            message.ack()

Behind it is the async client, on a loop and a thread of its own; see `loop_thread` for what holds
there. Any number of threads may use one client at once, and should: they share its connections.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from penstock.client.blocking.group_admin import BlockingGroupAdmin
from penstock.client.blocking.loop_thread import LoopThread, close_at_exit
from penstock.client.blocking.message import BlockingMessage
from penstock.client.blocking.queue import BlockingQueue
from penstock.client.blocking.stage import BlockingStage
from penstock.client.blocking.stretches import iterate
from penstock.client.blocking.subscription import BlockingSubscription
from penstock.client.blocking.topic import BlockingTopic
from penstock.client.call_options import SendManyOptions, SendOptions, SubscribeOptions
from penstock.client.client import Client
from penstock.client.codecs import Codec
from penstock.client.descriptions import (
    ClusterDescription,
    QueueDescription,
    TopicDescription,
    TopicSummary,
)
from penstock.client.outgoing import Outgoing
from penstock.client.partitioners import Partitioner, PartitionFunction
from penstock.client.queue_admin import QueueOptions
from penstock.client.record import Record
from penstock.client.seconds import Seconds
from penstock.client.sent import Sent, SentMany
from penstock.client.settings import ClientSettings
from penstock.client.staged import Publication, Staged
from penstock.client.starting import Start
from penstock.client.statistics import ClientStatistics
from penstock.client.topic_watch import Topics
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.wire.trace_requests import TraceInfo

T = TypeVar("T")


class BlockingClient(BlockingGroupAdmin):
    """`Client` without `await`; made by `penstock.blocking.connect`."""

    def __init__(self, client: Client) -> None:
        """Take over a client that is not connected yet; it is connected at once."""
        super().__init__(client, LoopThread())
        self._forget_exit: Callable[[], None] = close_at_exit(self.close)
        try:
            self.open()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"Blocking{self._client!r}"

    @property
    def url(self) -> str:
        """Where it is connected to."""
        return self._client.url

    @property
    def settings(self) -> ClientSettings:
        """How it behaves."""
        return self._client.settings

    # Its life.

    def open(self) -> Self:
        """Connect; making one has done it already."""
        self._thread.run(self._client.open())
        return self

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Send what waits to be sent, give back what was fetched ahead, and disconnect."""
        self._forget_exit()
        self._thread.close(self._client.close)

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
        chosen: Any = codec
        found = self._thread.call(
            lambda: self._client.queue(
                name,
                codec=chosen,
                group=group,
                partitioner=partitioner,
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
        """A topic by name."""
        chosen: Any = codec
        found = self._thread.call(
            lambda: self._client.topic(
                name,
                codec=chosen,
                partitioner=partitioner,
            )
        )
        return BlockingTopic(found, self._thread)

    # Messages.

    def send(self, destination: str, body: object, **options: Unpack[SendOptions]) -> Sent:
        """Send one message to a queue or topic; see `Queue.send` for the options."""
        return self._thread.run(self._client.send(destination, body, **options))

    def send_many(
        self,
        destination: str,
        bodies: "Iterable[object | Outgoing[Any]]",
        **options: Unpack[SendManyOptions],
    ) -> SentMany:
        """Send many messages to a queue or topic; see `Queue.send_many` for the options."""
        # A generator is the caller's code, and may block: it runs here and not on the loop.
        given = bodies if isinstance(bodies, list | tuple) else list(bodies)
        return self._thread.run(self._client.send_many(destination, given, **options))

    def receive(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        lease: Seconds | None = None,
        group: str = DEFAULT_WORK_GROUP,
    ) -> list[BlockingMessage[Any]]:
        """Lease messages of a queue; see `Queue.receive`."""
        found = self._thread.run(
            self._client.receive(queue, max_messages, wait=wait, lease=lease, group=group)
        )
        return [BlockingMessage(message, self._thread) for message in found]

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
        chosen: Any = codec
        made = self._thread.call(
            lambda: self._client.subscribe(
                topics,
                codec=chosen,
                **options,
            )
        )
        return BlockingSubscription(made, self._thread)

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
        """Replay a topic from `start` to its end as it is now. Nobody's position moves."""
        chosen: Any = codec
        records = self._thread.call(
            lambda: self._client.read(
                topic,
                start=start,
                end=end,
                partitions=partitions,
                codec=chosen,
            )
        )
        return iterate(records, self._thread)

    # Publishing.

    def open_stage(self) -> BlockingStage:
        """Where messages are brought before they are published: see `Stage`."""
        return BlockingStage(self._thread.call(self._client.open_stage), self._thread)

    def publish(
        self,
        application: str,
        batch: int,
        staged: Iterable[Staged],
        *,
        owner: str = "",
        timeout: Seconds | None = None,
    ) -> Publication:
        """Let staged messages be there: in all their partitions or in none, and once for each batch
        of an application, however often it is asked for. Batches of an application are numbered
        upwards; one that is not above the last is taken for published.

        owner    who numbers the batches, if there could be two who begin anew: what another owner
                 has published is not taken for this one's, and `PublicationConflict` is raised
        """
        return self._thread.run(
            self._client.publish(application, batch, staged, owner=owner, timeout=timeout)
        )

    def last_published(self, application: str) -> int | None:
        """The number of the last batch that an application has published, if it has any."""
        return self._thread.run(self._client.last_published(application))

    # Looking after things.

    def create_queue(self, name: str, **options: Unpack[QueueOptions]) -> QueueDescription:
        """Make a queue.

        partitions      how many; 1, unless one node is not enough
        exist_ok        one that is there is left as it is, instead of `TopicExists`
        lease           for how long a message is a worker's (seconds; 30)
        deliveries_max  after so many failed deliveries a message is dead (never)
        dead_letter     the queue that dead messages go to
        retry           how long a message waits that failed: none, fixed, linear, exponential or
                        jittered, beginning with `retry_delay`
        fifo            messages of one group (`message_group`, or the key) one after the other
        delay, ttl      of messages that say nothing else
        priorities      strict or weighted
        deduplication   by the sender's `dedup_id` ("id"), or also by the body ("content")
        length_max      how many messages may wait before sending is refused
        settings        any other topic config by its name
        """
        return self._thread.run(self._client.create_queue(name, **options))

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
            self._client.create_topic(
                name, partitions=partitions, exist_ok=exist_ok, configs=configs
            )
        )

    def configure(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change the configs of a topic or queue; None takes one back to its default."""
        return self._thread.run(self._client.configure(name, changes))

    def add_partitions(self, name: str, total: int) -> TopicDescription:
        """Give a topic more partitions, `total` in all. Keys may move to others by that."""
        return self._thread.run(self._client.add_partitions(name, total))

    def describe_topic(self, name: str) -> TopicDescription:
        """Partitions and configs of a topic or queue."""
        return self._thread.run(self._client.describe_topic(name))

    def describe_queue(self, name: str) -> QueueDescription:
        """The same, with what its work groups have to do."""
        return self._thread.run(self._client.describe_queue(name))

    def trace(self, message: str, *, within: Iterable[str] = ()) -> TraceInfo:
        """What became of a message: see `Client.trace`."""
        return self._thread.run(self._client.trace(message, within=within))

    def topics(self) -> list[TopicSummary]:
        """All topics and queues, by name."""
        return self._thread.run(self._client.topics())

    def delete_topic(self, name: str) -> None:
        """Remove a topic or queue with everything in it."""
        self._thread.run(self._client.delete_topic(name))

    def delete_queue(self, name: str) -> None:
        """The same."""
        self._thread.run(self._client.delete_queue(name))

    def cluster(self) -> ClusterDescription:
        """Who is there."""
        return self._thread.run(self._client.cluster())

    def statistics(self) -> ClientStatistics:
        """What this client has done so far."""
        return self._thread.call(self._client.statistics)
