"""A queue, as workers and senders see it.

    queue = client.queue("orders")
    queue.send({"id": 7}, delay=10)
    for message in queue.receive(10, wait=20):
        …
        message.ack()

Generated from penstock.client.queue by tests/house/blocking_client.py; do not edit.
`make generate` renews it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Generic, TypeVar, Unpack

from penstock.client.blocking.consumer import BlockingConsumer
from penstock.client.blocking.iteration import listed
from penstock.client.blocking.message import BlockingMessage
from penstock.client.blocking.twin import Twin, unwrap
from penstock.client.consumer import PREFETCH
from penstock.client.descriptions import (
    GroupSetting,
    MoveDescription,
    QueueDescription,
    QueueStats,
    TopicDescription,
)
from penstock.client.group_descriptions import OffsetChange
from penstock.client.guarantees import Guarantee
from penstock.client.peeked_message import PeekedMessage
from penstock.client.producer.outgoing_message import Headers, Key, Outgoing
from penstock.client.queue import Queue, Redriven
from penstock.client.queue_admin import GroupOptions, QueueOptions
from penstock.client.queue_control import LetterConditions, Place
from penstock.client.reader.start_position import Start
from penstock.client.seconds import Seconds
from penstock.client.sent_message import Sent, SentMany
from penstock.client.worker.cumulative_ack import Beginning, WorkStanding

T = TypeVar("T")
BlockingMessages = BlockingMessage[T] | str | Sequence[BlockingMessage[T] | str]


class BlockingQueue(Twin[Queue[T]], Generic[T]):
    """`Queue` without `await`; made by `BlockingClient.queue`."""

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._inner.name

    @property
    def group(self) -> str:
        """The work group: workers of one group share the messages, each group gets them all."""
        return self._inner.group

    def __repr__(self) -> str:
        return f"Blocking{self._inner!r}"

    # Sending.

    def send(
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
        return self._thread.run(
            self._inner.send(
                body,
                key=key,
                headers=headers,
                priority=priority,
                delay=delay,
                deliver_at=deliver_at,
                ttl=ttl,
                expire_at=expire_at,
                message_group=message_group,
                dedup_id=dedup_id,
                partition=partition,
                timestamp=timestamp,
                timeout=timeout,
            )
        )

    def send_many(
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
        bodies = listed(bodies)
        return self._thread.run(
            self._inner.send_many(
                bodies,
                key=key,
                headers=headers,
                priority=priority,
                delay=delay,
                deliver_at=deliver_at,
                ttl=ttl,
                expire_at=expire_at,
                message_group=message_group,
                partition=partition,
                timestamp=timestamp,
                timeout=timeout,
            )
        )

    # Receiving.

    def receive(
        self,
        max_messages: int = 1,
        *,
        wait: Seconds = 0.0,
        lease: Seconds | None = None,
        create: bool = False,
    ) -> list[BlockingMessage[T]]:
        """Lease up to `max_messages`. If none is available, wait up to `wait` for the first; return
        [] if none comes.

        They are this caller's for the time of the lease: the queue's own (30 seconds, unless it was
        set it), or `lease`. What is not acked by then comes back. `UnknownTopic` if there is no
        such queue; with `create`, it is made as if something were sent to it."""
        found = self._thread.run(
            self._inner.receive(max_messages, wait=wait, lease=lease, create=create)
        )
        return [BlockingMessage(one, self._thread) for one in found]

    def consume(
        self,
        *,
        prefetch: int = PREFETCH,
        lease: Seconds | None = None,
        guarantee: Guarantee = Guarantee.AT_LEAST_ONCE,
        extend_leases: bool = True,
        create: bool = False,
    ) -> BlockingConsumer[T]:
        """Return a consumer: a stream of prefetched messages whose leases are extended while they
        are processed. With `create`, a queue that does not exist is created."""
        found = self._thread.call(
            lambda: self._inner.consume(
                prefetch=prefetch,
                lease=lease,
                guarantee=guarantee,
                extend_leases=extend_leases,
                create=create,
            )
        )
        return BlockingConsumer(found, self._thread)

    def __iter__(self) -> Iterator[BlockingMessage[T]]:
        """`for message in queue`: a consumer that ends with the loop, however it is left."""
        with self.consume() as messages:
            yield from messages

    # Settling. Where a message is wanted, its receipt will do.

    def ack(self, messages: BlockingMessages[T]) -> int:
        """Acknowledge messages; return the number that counted."""
        return self._thread.run(self._inner.ack(unwrap(messages)))

    def release(
        self, messages: BlockingMessages[T], delay: Seconds | None = None, reason: str = ""
    ) -> int:
        """Return messages for another delivery, after `delay` or as the retry policy says; return
        the number that counted. Those that have none left become dead letters with the reason."""
        return self._thread.run(self._inner.release(unwrap(messages), delay, reason))

    def reject(self, messages: BlockingMessages[T], reason: str = "") -> int:
        """Make messages dead letters, with a reason: they can never be processed. Return the number
        that counted."""
        return self._thread.run(self._inner.reject(unwrap(messages), reason))

    def extend(self, messages: BlockingMessages[T], lease: Seconds | None = None) -> int:
        """Extend the leases of messages to `lease` from now; return the number that counted."""
        return self._thread.run(self._inner.extend(unwrap(messages), lease))

    def give_back(self, messages: BlockingMessages[T]) -> int:
        """Return messages that were not worked on, as if they had never been delivered."""
        return self._thread.run(self._inner.give_back(unwrap(messages)))

    # Reading by offset.

    def begin(self, start: Beginning = "earliest") -> None:
        """Let this work group begin, at the first message there is or behind the last one; a group
        that has begun stays where it is. A receiver need not call it: a group that is received
        for begins at the first message.

        On a topic that is no queue, dead messages of a group that begins like this are kept aside,
        unless its config `share.dead.letter.policy` says otherwise."""
        self._thread.run(self._inner.begin(start))

    def standing(self, offsets: Mapping[int, int] | None = None) -> dict[int, WorkStanding]:
        """Return the position of this work group in each partition, for readers by offset: its
        remaining work, and how far they may read from their `offsets`."""
        return self._thread.run(self._inner.standing(offsets))

    def ack_range(
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
        return self._thread.run(
            self._inner.ack_range(partition, first, end, dead=dead, stream=stream, batch=batch)
        )

    def cover(
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
        return self._thread.run(
            self._inner.cover(partition, first, end, dead=dead, stream=stream, batch=batch)
        )

    # Looking.

    def peek(
        self,
        max_messages: int = 10,
        *,
        states: Iterable[str] | None = None,
        partition: int | None = None,
        start: int = 0,
    ) -> list[PeekedMessage[T]]:
        """Look at messages without touching them: nothing is leased or counted.

        `states` are `ready`, `leased`, `delayed` and `dead`; `start` is an offset."""
        states = listed(states)
        return self._thread.run(
            self._inner.peek(max_messages, states=states, partition=partition, start=start)
        )

    def stats(self) -> QueueStats:
        """Return the number of messages in each state."""
        return self._thread.run(self._inner.stats())

    def describe(self) -> QueueDescription:
        """Describe the queue: its partitions, its configs and its work groups."""
        return self._thread.run(self._inner.describe())

    # Looking after it.

    def create(self, **options: Unpack[QueueOptions]) -> QueueDescription:
        """Make it, with options as `Client.create_queue` takes them."""
        return self._thread.run(self._inner.create(**options))

    def configure(self, changes: Mapping[str, str | None]) -> TopicDescription:
        """Change its configs (`queue.*` and a topic's); None takes one back to its default."""
        return self._thread.run(self._inner.configure(changes))

    def configure_group(
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
        return self._thread.run(self._inner.configure_group(group, **options))

    def group_settings(self, group: str | None = None) -> dict[str, GroupSetting]:
        """Return the effective settings of a work group, each with its origin; by default of this
        handle's group."""
        return self._thread.run(self._inner.group_settings(group))

    def pause(self) -> None:
        """Pause delivery to all work groups until `resume`. Messages can still be sent, and leased
        ones settled."""
        self._thread.run(self._inner.pause())

    def resume(self) -> None:
        """Resume delivery."""
        self._thread.run(self._inner.resume())

    def cancel(self, messages: Place | Sequence[Place]) -> int:
        """Cancel messages that are not leased, delayed ones for instance: they are never delivered
        to this work group. Named by what `send` returned or `peek` showed, or by partition and
        offset. Returns how many of them were still there."""
        return self._thread.run(self._inner.cancel(messages))

    def reset(self, to: Start = "earliest", *, dry_run: bool = False) -> list[OffsetChange]:
        """Reset the offsets of this work group: "earliest", "latest", a datetime, or offsets by
        partition. Messages it was done with are delivered again, if they are still there; leases
        end. A dry run changes nothing."""
        return self._thread.run(self._inner.reset(to, dry_run=dry_run))

    def purge(self) -> int:
        """Drop everything this work group has left to do; returns how many messages that was."""
        return self._thread.run(self._inner.purge())

    def redrive(
        self,
        *,
        to: str | None = None,
        rate: int | None = None,
        dry_run: bool = False,
        **conditions: Unpack[LetterConditions],
    ) -> "BlockingRedriven":
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
        found = self._thread.run(
            self._inner.redrive(to=to, rate=rate, dry_run=dry_run, **conditions)
        )
        return BlockingRedriven(found, self._thread)

    def revive(self, *, dry_run: bool = False, **conditions: Unpack[LetterConditions]) -> int:
        """Deliver messages of this work group anew that died and stayed here, where they are; all,
        or those that the conditions hold for (see `redrive`). Returns how many."""
        return self._thread.run(self._inner.revive(dry_run=dry_run, **conditions))

    def discard(self, **conditions: Unpack[LetterConditions]) -> int:
        """Drop messages of this work group that died and stayed here; all, or those that the
        conditions hold for (see `redrive`). Returns how many."""
        return self._thread.run(self._inner.discard(**conditions))

    def moves(self) -> list[MoveDescription]:
        """The moves out of this queue that `redrive` began, the latest first."""
        return self._thread.run(self._inner.moves())

    def cancel_move(self, move_id: str) -> MoveDescription:
        """Cancel a move; messages already moved stay moved."""
        return self._thread.run(self._inner.cancel_move(move_id))

    def move(self, move_id: str) -> MoveDescription:
        """Return the progress of a move that `redrive` began."""
        return self._thread.run(self._inner.move(move_id))

    def delete(self) -> None:
        """Remove it with everything in it."""
        self._thread.run(self._inner.delete())


class BlockingRedriven(Twin[Redriven]):
    """`Redriven` without `await`."""

    @property
    def count(self) -> int:
        """The number of messages."""
        return self._inner.count

    @property
    def move_id(self) -> str:
        """The id of the move, which runs in the cluster; empty if all is done, or nothing was
        started."""
        return self._inner.move_id

    def __int__(self) -> int:
        return int(self._inner)

    def progress(self) -> MoveDescription:
        """Return the progress of the move."""
        return self._thread.run(self._inner.progress())
