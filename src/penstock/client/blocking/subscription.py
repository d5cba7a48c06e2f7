"""A log, read with `for`.

    with client.subscribe("orders", group="billing") as subscription:
        for record in subscription:
            …

Messages are fetched ahead on the client's loop, and one is taken from there when it is asked for,
since a record counts as done when the next one is asked for. Whoever wants more of them at a time
asks for them with `fetch`.
"""

from datetime import datetime
from typing import Generic, Self, TypeVar

from penstock.client.blocking.loop_thread import LoopThread
from penstock.client.positions import TopicPartition
from penstock.client.record import Record
from penstock.client.seconds import Seconds
from penstock.client.subscription import RECORDS_MAX, Subscription, SubscriptionStatistics
from penstock.client.subscription_options import SubscriptionOptions

T = TypeVar("T")


class BlockingSubscription(Generic[T]):
    """`Subscription` without `await`."""

    def __init__(self, subscription: Subscription[T], thread: LoopThread) -> None:
        self._subscription = subscription
        self._thread = thread

    @property
    def options(self) -> SubscriptionOptions:
        """How it reads."""
        return self._subscription.options

    # Its life.

    def open(self) -> None:
        """Begin to read; `with` and iterating do it by themselves."""
        self._thread.run(self._subscription.open())

    def close(self) -> None:
        """Commit what is done, and leave the group: its other members go on."""
        if not self._thread.is_closed():
            self._thread.run(self._subscription.close())

    def __enter__(self) -> Self:
        self._thread.run(self._subscription.__aenter__())
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    # Records.

    def __next__(self) -> Record[T]:
        record = self._thread.run(self._next())
        if record is None:
            raise StopIteration
        return record

    async def _next(self) -> Record[T] | None:
        # StopAsyncIteration cannot leave a coroutine, so the end is told by None.
        return await anext(self._subscription, None)

    def fetch(self, max_records: int = RECORDS_MAX, *, wait: Seconds = 0.0) -> list[Record[T]]:
        """Up to so many records at once; waits that long for the first. The ones handed out before
        count as done."""
        return self._thread.run(self._subscription.fetch(max_records, wait=wait))

    # Offsets.

    def commit(self, record: Record[T] | None = None, *, timeout: Seconds | None = None) -> bool:
        """Commit everything that was handed out, or up to this record of its partition. False: some
        of it belongs to another member by now, who does it again."""
        return self._thread.run(self._subscription.commit(record, timeout=timeout))

    def committed(self) -> dict[TopicPartition, int | None]:
        """How far the group has got in the partitions of this member."""
        return self._thread.run(self._subscription.committed())

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to be handed out, of each partition."""
        return self._thread.call(self._subscription.positions)

    def lag(self) -> dict[TopicPartition, int]:
        """How many messages of each partition are still to be handed out."""
        return self._thread.run(self._subscription.lag())

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read here now."""
        return self._thread.call(lambda: self._subscription.assignment)

    # Going elsewhere.

    def seek(self, partition: int, offset: int, topic: str | None = None) -> None:
        """Go on from this offset; the topic can be left out if there is only one."""
        self._thread.run(self._subscription.seek(partition, offset, topic))

    def seek_to_time(self, when: datetime) -> None:
        """Go on, in all partitions, from the first message as late as this."""
        self._thread.run(self._subscription.seek_to_time(when))

    def seek_to_start(self) -> None:
        """Go on, in all partitions, from the first message there is."""
        self._thread.run(self._subscription.seek_to_start())

    def seek_to_end(self) -> None:
        """Go on, in all partitions, with what comes from now on."""
        self._thread.run(self._subscription.seek_to_end())

    def replay(self, since: datetime | None = None) -> None:
        """Read everything once more, or everything since a time."""
        self._thread.run(self._subscription.replay(since))

    def pause(self, *partitions: int, topic: str | None = None) -> None:
        """Hand nothing out of these partitions, or of all if none is named, until `resume`."""
        self._thread.call(lambda: self._subscription.pause(*partitions, topic=topic))

    def resume(self, *partitions: int, topic: str | None = None) -> None:
        """Go on with these partitions, or with all."""
        self._thread.call(lambda: self._subscription.resume(*partitions, topic=topic))

    def statistics(self) -> SubscriptionStatistics:
        """What it has done so far."""
        return self._thread.call(self._subscription.statistics)
