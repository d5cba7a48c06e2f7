"""Reads the delivery headers of old messages for a work group that begins in the past.

Messages are looked at when they are appended, by the groups that are open then. One that is opened
or reset at an old offset holds everything back until it knows: the leader reads the messages, piece
by piece, and writes what it finds into the log (`Recall`). A leader that dies in between is
followed by one that goes on where it stopped. What was read for other rules than those that count
when it comes is read once more.
"""

from penstock.core.errors import PenstockError
from penstock.core.types import Offset, PartitionId
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.message_reader import MessageReader
from penstock.machines.machine import Reply
from penstock.machines.queue_commands import Recall
from penstock.machines.queue_headers import recalled_headers
from penstock.machines.queues import QueueChanged
from penstock.machines.work import WorkGroup

PIECE_MESSAGES = 1_000
READER_BYTES = 4 * 1024 * 1024

Key = tuple[PartitionId, str]


class Recaller:
    """For all shards of one node; notified of those that it leads."""

    def __init__(self) -> None:
        self._reader = MessageReader(bytes_max=READER_BYTES)
        self._under_way: dict[Key, Shard] = {}

    def tick(self, running: Shard) -> None:
        """A tick of the node's clock has passed; this node leads the shard."""
        for partition, group, work in running.machine.queues.recalling():
            if self._under_way.get((partition, group)) is not running:
                self._tell(running, partition, group, work)

    def _tell(self, running: Shard, partition: PartitionId, group: str, work: WorkGroup) -> None:
        first = work.recalled
        end = Offset(min(first + PIECE_MESSAGES, work.recall_end))
        messages = self._reader.read(running, partition, [(first, end)])
        delivery_headers = [recalled_headers(message, work.queue) for message in messages]
        command = Recall(
            partition=partition,
            group=group,
            first=first,
            end=end,
            delivery_headers=tuple(row for row in delivery_headers if row is not None),
            fifo=work.queue.fifo,
        )
        key = (partition, group)
        self._under_way[key] = running

        def on_reply(reply: Reply | PenstockError) -> None:
            if self._under_way.get(key) is running:
                del self._under_way[key]
            now = running.machine.queues.work(partition, group)
            if isinstance(reply, QueueChanged) and now is work and work.is_recalling:
                self._tell(running, partition, group, work)

        running.submit(command, on_reply, Promise.COMMITTED)
