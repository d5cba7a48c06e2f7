"""Reading a log: every message of some topics, in order within each partition.

    with client.subscribe("orders", group="billing") as subscription:
        for record in subscription:
            ...

Generated from penstock.client.subscription by tests/house/blocking_client.py; do not edit.
`make generate` renews it.
"""

from datetime import datetime
from typing import Generic, Self, TypeVar

from penstock.client.blocking.iteration import next_of
from penstock.client.blocking.twin import Twin
from penstock.client.reader.positions import TopicPartition
from penstock.client.record import Record
from penstock.client.seconds import Seconds
from penstock.client.subscription import RECORDS_MAX, Subscription, SubscriptionStatistics
from penstock.client.subscription_options import SubscriptionOptions

T = TypeVar("T")


class BlockingSubscription(Twin[Subscription[T]], Generic[T]):
    """`Subscription` without `await`; made by `BlockingClient.subscribe`."""

    @property
    def options(self) -> SubscriptionOptions:
        """The options of the subscription."""
        return self._inner.options

    # Its life.

    def open(self) -> None:
        """Begin to read; `with` and iterating do it by themselves."""
        self._thread.run(self._inner.open())

    def close(self) -> None:
        """Commit the processed records, and leave the group."""
        if not self._thread.is_closed():
            self._thread.run(self._inner.close())

    def __enter__(self) -> Self:
        self._thread.run(self._inner.__aenter__())
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # Records.

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record[T]:
        return next_of(self._inner, self._thread)

    def fetch(self, max_records: int = RECORDS_MAX, *, wait: Seconds = 0.0) -> list[Record[T]]:
        """Return up to `max_records` records; wait up to `wait` for the first. The records handed
        out before count as processed."""
        return self._thread.run(self._inner.fetch(max_records, wait=wait))

    # Offsets.

    def commit(self, record: Record[T] | None = None, *, timeout: Seconds | None = None) -> bool:
        """Commit everything that was handed out, or up to this record of its partition. False: some
        of it belongs to another member by now, who does it again."""
        return self._thread.run(self._inner.commit(record, timeout=timeout))

    def committed(self) -> dict[TopicPartition, int | None]:
        """Return the committed offset of each partition of this member; None where the group has
        none."""
        return self._thread.run(self._inner.committed())

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to be handed out, of each partition."""
        return self._thread.call(self._inner.positions)

    def lag(self) -> dict[TopicPartition, int]:
        """Return the number of messages in each partition that are still to be handed out."""
        return self._thread.run(self._inner.lag())

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that are read here now."""
        return self._thread.call(lambda: self._inner.assignment)

    # Going elsewhere.

    def seek(self, partition: int, offset: int, topic: str | None = None) -> None:
        """Go on from this offset; the topic can be left out if there is only one."""
        self._thread.run(self._inner.seek(partition, offset, topic))

    def seek_to_time(self, when: datetime) -> None:
        """Go on, in all partitions, from the first message as late as this."""
        self._thread.run(self._inner.seek_to_time(when))

    def seek_to_start(self) -> None:
        """Go on, in all partitions, from the first message there is."""
        self._thread.run(self._inner.seek_to_start())

    def seek_to_end(self) -> None:
        """Go on, in all partitions, with what comes from now on."""
        self._thread.run(self._inner.seek_to_end())

    def replay(self, since: datetime | None = None) -> None:
        """Read everything once more, or everything since a time."""
        self._thread.run(self._inner.replay(since))

    # Pausing.

    def pause(self, *partitions: int, topic: str | None = None) -> None:
        """Hand nothing out of these partitions, or of all if none is named, until `resume`."""
        self._thread.call(lambda: self._inner.pause(*partitions, topic=topic))

    def resume(self, *partitions: int, topic: str | None = None) -> None:
        """Go on with these partitions, or with all."""
        self._thread.call(lambda: self._inner.resume(*partitions, topic=topic))

    def statistics(self) -> SubscriptionStatistics:
        """Return the counters of the subscription."""
        return self._thread.call(self._inner.statistics)
