"""A topic, as producers and log readers without `await` see it.

topic = client.topic("events")
topic.send("user 7 logged in", key="7")
for record in topic.read(start=yesterday):
    …
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Generic, TypeVar, Unpack

from penstock.client.blocking.loop_thread import LoopThread
from penstock.client.blocking.stretches import iterate
from penstock.client.blocking.subscription import BlockingSubscription
from penstock.client.call_options import SubscribeOptions
from penstock.client.descriptions import TopicDescription
from penstock.client.outgoing import Headers, Key, Outgoing
from penstock.client.record import Record
from penstock.client.seconds import Seconds
from penstock.client.sent import Sent, SentMany
from penstock.client.starting import Start
from penstock.client.topic import Topic

T = TypeVar("T")


class BlockingTopic(Generic[T]):
    """`Topic` without `await`."""

    def __init__(self, topic: Topic[T], thread: LoopThread) -> None:
        self._topic = topic
        self._thread = thread

    def __repr__(self) -> str:
        return f"Blocking{self._topic!r}"

    @property
    def name(self) -> str:
        """What it is called."""
        return self._topic.name

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
            self._topic.send(
                body,
                key=key,
                headers=headers,
                partition=partition,
                timestamp=timestamp,
                timeout=timeout,
            )
        )

    produce = send
    """What Kafka's users call it."""

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
        # A generator is the caller's code, and may block: it runs here and not on the loop.
        given = bodies if isinstance(bodies, list | tuple) else list(bodies)
        return self._thread.run(
            self._topic.send_many(
                given,
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
        """All messages from `start` on, up to the end as it is now; nobody's position moves."""
        records = self._thread.call(
            lambda: self._topic.read(start=start, end=end, partitions=partitions)
        )
        return iterate(records, self._thread)

    def subscribe(self, **options: Unpack[SubscribeOptions]) -> BlockingSubscription[T]:
        """Read it, alone or as a member of a group, and go on as messages come: see
        `Subscription`."""
        made = self._thread.call(lambda: self._topic.subscribe(**options))
        return BlockingSubscription(made, self._thread)

    def ends(self) -> Mapping[int, int]:
        """The offset that the next message gets, by partition."""
        return self._thread.run(self._topic.ends())

    def describe(self) -> TopicDescription:
        """Its partitions and configs."""
        return self._thread.run(self._topic.describe())

    def create(
        self,
        *,
        partitions: int | None = None,
        exist_ok: bool = False,
        configs: Mapping[str, str] | None = None,
    ) -> TopicDescription:
        """Make it."""
        return self._thread.run(
            self._topic.create(partitions=partitions, exist_ok=exist_ok, configs=configs)
        )

    def configure(self, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change its configs; None takes one back to its default."""
        return self._thread.run(self._topic.configure(changes))

    def delete(self) -> None:
        """Remove it with everything in it."""
        self._thread.run(self._topic.delete())
