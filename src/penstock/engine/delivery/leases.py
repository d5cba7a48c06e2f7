"""Leases at the leader: one that is requested, and one that is granted.

Submitting an acquire and waiting for it are two calls, so that a receiver can pre-acquire messages
at the moment they are being written: both then go to the disk together (see `wait_queue`). What is
granted to a receiver that has gone meanwhile goes back.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from penstock.core.errors import PenstockError
from penstock.core.message import Message
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId
from penstock.engine.delivery.requests import LeasedRange
from penstock.engine.delivery.stored_batches import Piece, Range
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.long_polls import Batch
from penstock.machines.machine import Refused, Reply, refusal_error
from penstock.machines.queue_commands import Acquire
from penstock.machines.queues import Acquired
from penstock.machines.work_records import GrantedRun


class LeaseRequest:
    """An acquire that is submitted. `give_back` gets what no receiver is there for."""

    __slots__ = ("_give_back", "_granted", "batch", "command")

    def __init__(
        self,
        shard: Shard,
        command: Acquire,
        give_back: Callable[[Acquire, Acquired], object],
        batch: Batch | None = None,
    ) -> None:
        """`batch` holds the messages that are being written, if they are pre-acquired."""
        self.command = command
        self.batch = batch
        self._give_back = give_back
        self._granted: asyncio.Future[Acquired] = asyncio.get_running_loop().create_future()
        shard.submit(command, self._answer, Promise.COMMITTED)

    async def granted(self) -> Acquired:
        """Wait for the lease; raises why it was refused."""
        try:
            return await self._granted
        except asyncio.CancelledError:
            self.abandon()
            raise

    def abandon(self) -> None:
        """The receiver is gone."""
        if not self._granted.done():
            self._granted.cancel()
        elif not self._granted.cancelled() and self._granted.exception() is None:
            self._answer(self._granted.result())  # Granted at the moment the receiver left.

    @property
    def got_some(self) -> bool:
        """Whether it was granted, with messages."""
        granted = self._granted
        if not granted.done() or granted.cancelled() or granted.exception() is not None:
            return False
        return bool(granted.result().runs)

    def on_outcome(self, done: Callable[[], None]) -> None:
        """Call this when the outcome is known, whatever it is."""
        self._granted.add_done_callback(lambda _: done())

    def _answer(self, reply: Reply | PenstockError) -> None:
        if self._granted.done():
            if isinstance(reply, Acquired) and reply.runs:
                self._give_back(self.command, reply)
        elif isinstance(reply, Acquired):
            self._granted.set_result(reply)
        elif isinstance(reply, Refused):
            self._granted.set_exception(refusal_error(reply))
        else:
            assert isinstance(reply, PenstockError), f"an acquire was answered with {reply}"
            self._granted.set_exception(reply)


class PartitionLease:
    """Messages of one partition, leased for one receiver."""

    __slots__ = (
        "epoch", "group", "index", "messages", "pieces", "read", "runs", "topic", "until_ms",
        "written",
    )  # fmt: skip

    def __init__(self, topic: Topic, index: int, group: str, acquired: Acquired) -> None:
        self.topic = topic
        self.index = index
        self.group = group
        self.epoch = acquired.epoch
        self.until_ms = acquired.until_ms
        self.runs: Sequence[GrantedRun] = acquired.runs
        """In the order in which they were granted, which is the order of delivery."""
        self.messages = sum(run.end - run.first for run in acquired.runs)
        """How many; some of them may be gaps in the log."""
        self.pieces: list[Piece] | None = None
        """The stored batches that hold them, in the order of offsets; None if they are few, or if
        they were not to be measured: then they are read one by one."""
        self.written: Batch | None = None
        """The batch, if the lease was written together with it and is for all of it."""
        self.read: list[Message] | None = None

    @property
    def partition(self) -> PartitionId:
        """The number of the partition in the cluster."""
        return self.topic.partitions[self.index]

    def ranges(self) -> list[Range]:
        """The leased offsets, in order."""
        return sorted((run.first, run.end) for run in self.runs)

    def leased(self, ranges: Iterable[Range] | None = None) -> list[LeasedRange]:
        """The lease, or a part of it, as it is given back."""
        chosen = self.ranges() if ranges is None else ranges
        partition, group, epoch = self.partition, self.group, self.epoch
        return [LeasedRange(partition, group, epoch, first, end) for first, end in chosen]

    def cut_off(self, end: Offset) -> None:
        """The messages from this offset on are not part of the lease any more."""
        self.runs = [run._replace(end=min(run.end, end)) for run in self.runs if run.first < end]
        self.messages = sum(run.end - run.first for run in self.runs)
