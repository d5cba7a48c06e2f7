"""A topic, as producers and log readers see it: everything stays, every reader reads all of it.

    topic = client.topic("events")
    topic.send("user 7 logged in", key="7")
    for record in topic.read(start=yesterday):
        …

Generated from penstock.client.topic by tests/house/blocking_client.py; do not edit.
`make generate` renews it.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Generic, TypeVar, Unpack

from penstock.client.blocking.iteration import iterate, listed
from penstock.client.blocking.subscription import BlockingSubscription
from penstock.client.blocking.twin import Twin
from penstock.client.call_options import SubscribeOptions
from penstock.client.descriptions import TopicDescription
from penstock.client.producer.outgoing_message import Headers, Key, Outgoing
from penstock.client.reader.start_position import Start
from penstock.client.record import Record
from penstock.client.seconds import Seconds
from penstock.client.sent_message import Sent, SentMany
from penstock.client.topic import Topic

T = TypeVar("T")


class BlockingTopic(Twin[Topic[T]], Generic[T]):
    """`Topic` without `await`; made by `BlockingClient.topic`."""

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self._inner.name

    def __repr__(self) -> str:
        return f"Blocking{self._inner!r}"

    def send(
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
        return self._thread.run(
            self._inner.send(
                body,
                key=key,
                headers=headers,
                partition=partition,
                timestamp=timestamp,
                timeout=timeout,
            )
        )

    produce = send
    """Kafka's name for `send`."""

    def send_many(
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
        bodies = listed(bodies)
        return self._thread.run(
            self._inner.send_many(
                bodies,
                key=key,
                headers=headers,
                partition=partition,
                timestamp=timestamp,
                timeout=timeout,
            )
        )

    def read(
        self,
        *,
        start: Start = "earliest",
        end: Start | None = None,
        partitions: Iterable[int] | None = None,
    ) -> Iterator[Record[T]]:
        """All messages from `start` on, up to the current end; no committed position moves."""
        partitions = listed(partitions)
        found = self._thread.call(
            lambda: self._inner.read(start=start, end=end, partitions=partitions)
        )
        return iterate(found, self._thread)

    def subscribe(self, **options: Unpack[SubscribeOptions]) -> BlockingSubscription[T]:
        """Read it, alone or as a member of a group, and go on as messages come: see
        `Subscription`."""
        found = self._thread.call(lambda: self._inner.subscribe(**options))
        return BlockingSubscription(found, self._thread)

    def ends(self) -> Mapping[int, int]:
        """The offset that the next message gets, by partition."""
        return self._thread.run(self._inner.ends())

    def describe(self) -> TopicDescription:
        """Describe the topic: its partitions and configs."""
        return self._thread.run(self._inner.describe())

    def create(
        self,
        *,
        partitions: int | None = None,
        exist_ok: bool = False,
        configs: Mapping[str, str] | None = None,
    ) -> TopicDescription:
        """Create the topic, with the broker's number of partitions unless it is given. One that is
        there is left as it is with `exist_ok`, and an error without."""
        return self._thread.run(
            self._inner.create(partitions=partitions, exist_ok=exist_ok, configs=configs)
        )

    def configure(self, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change its configs; None takes one back to its default."""
        return self._thread.run(self._inner.configure(changes))

    def delete(self) -> None:
        """Remove it with everything in it."""
        self._thread.run(self._inner.delete())
