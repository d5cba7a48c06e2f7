"""A topic, as producers and log readers see it: everything stays, every reader reads all of it.

    topic = client.topic("events")
    await topic.send("user 7 logged in", key="7")
    async for record in topic.read(start=yesterday):
        …

It is a light handle: making one sends nothing, and two of the same name share everything.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar, Unpack

from penstock.client.call_options import SubscribeOptions
from penstock.client.codecs import Codec
from penstock.client.connection.core import ClientCore
from penstock.client.descriptions import TopicDescription
from penstock.client.producer.outgoing_message import Headers, Key, Outgoing
from penstock.client.producer.partitioners import Partitioner
from penstock.client.producer.sender import Sender
from penstock.client.queue_admin import (
    configure_topic,
    create_topic,
    delete_topic,
    describe_topic,
)
from penstock.client.reader.offsets import ends_of
from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.replay import read_records
from penstock.client.reader.start_position import Start
from penstock.client.record import Record
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.client.sent_message import Sent, SentMany
from penstock.client.subscription import Subscription
from penstock.client.subscription_options import SubscriptionOptions

T = TypeVar("T")


class Topic(Generic[T]):
    """A topic as a log: send, read, subscribe, describe. A light handle; made by `Client.topic`.

    Messages of one key keep their order, and every reader gets all of them: reading takes nothing
    away. `read` ends at the end of the log, `subscribe` waits for more.

        events = client.topic("events")
        await events.send("paid", key="order-7")
        async for record in events.read(start="earliest"):
            print(record.offset, record.body)
    """

    def __init__(
        self, core: ClientCore, name: str, codec: Codec[T], partitioner: Partitioner
    ) -> None:
        self.name = name
        """The name of the topic."""
        self._core = core
        self._codec = codec
        self._sender = Sender(name, codec, partitioner, core.senders, create="topic")

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"

    async def send(
        self,
        body: T,
        *,
        key: Key = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | None = None,
        timeout: Seconds | None = None,
    ) -> Sent:
        """Append one message; returns when it is on disk on a majority of its replicas."""
        if (key, headers, partition, timestamp) == (None, None, None, None):
            return await self._sender.send_body(body, _seconds(timeout))
        outgoing = Outgoing(body, key, headers, partition=partition, timestamp=timestamp)
        return await self._sender.send(outgoing, _seconds(timeout))

    produce = send
    """Kafka's name for `send`."""

    async def send_many(
        self,
        bodies: Iterable[T | Outgoing[T]],
        *,
        key: Key = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: datetime | None = None,
        timeout: Seconds | None = None,
    ) -> SentMany:
        """Append many messages in few batches; returns when all are stored. An `Outgoing` among
        them has its own options."""
        options: Outgoing[Any] = Outgoing(
            None, key, headers, partition=partition, timestamp=timestamp
        )
        return await self._sender.send_many(bodies, options, _seconds(timeout))

    def read(
        self,
        *,
        start: Start = "earliest",
        end: Start | None = None,
        partitions: Iterable[int] | None = None,
    ) -> AsyncIterator[Record[T]]:
        """All messages from `start` on, up to the current end; no committed position moves."""
        return read_records(
            self._core.router,
            self.name,
            codec=self._codec,
            start=start,
            end=end,
            partitions=partitions,
        )

    def subscribe(self, **options: Unpack[SubscribeOptions]) -> Subscription[T]:
        """Read it, alone or as a member of a group, and go on as messages come: see
        `Subscription`."""
        subscription = Subscription(
            self._core.router, self.name, self._codec, SubscriptionOptions(**options)
        )
        self._core.readers.add(subscription)
        return subscription

    async def ends(self) -> Mapping[int, int]:
        """The offset that the next message gets, by partition."""
        deadline = self._core.router.deadline(None)
        info = await self._core.router.find(self.name, "", deadline)
        parts = [TopicPartition(self.name, index) for index in range(len(info.leaders))]
        found = await ends_of(self._core.router, parts, deadline=deadline)
        return {part.partition: offset for part, offset in found.items()}

    async def describe(self) -> TopicDescription:
        """Describe the topic: its partitions and configs."""
        return await describe_topic(self._core.router, self.name)

    async def create(
        self,
        *,
        partitions: int | None = None,
        exist_ok: bool = False,
        configs: Mapping[str, str] | None = None,
    ) -> TopicDescription:
        """Create the topic, with the broker's number of partitions unless it is given. One that is
        there is left as it is with `exist_ok`, and an error without."""
        router = self._core.router
        await create_topic(router, self.name, partitions, configs or {}, exist_ok=exist_ok)
        return await describe_topic(router, self.name)

    async def configure(self, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change its configs; None takes one back to its default."""
        return await configure_topic(self._core.router, self.name, changes)

    async def delete(self) -> None:
        """Remove it with everything in it."""
        await delete_topic(self._core.router, self.name)


def _seconds(timeout: Seconds | None) -> float | None:
    return None if timeout is None else to_milliseconds(timeout, "timeout") / 1_000
