"""A stage without `await`: see `penstock.client.stage`."""

from collections.abc import Iterable
from typing import Any, Unpack

from penstock.client.blocking.loop_thread import LoopThread
from penstock.client.call_options import SendManyOptions
from penstock.client.channel import Buffer
from penstock.client.outgoing import Outgoing
from penstock.client.stage import Stage
from penstock.client.staged import Staged


class BlockingStage:
    """`Stage` without `await`."""

    def __init__(self, stage: Stage, thread: LoopThread) -> None:
        self._stage = stage
        self._thread = thread

    def send_many(
        self,
        topic: str,
        bodies: "Iterable[object | Outgoing[Any]]",
        **options: Unpack[SendManyOptions],
    ) -> None:
        """Stage messages for a queue or topic, with the options of `Queue.send_many`. Ids
        (`dedup_id`) do not count here: a publication is not repeated anyway."""
        self._thread.run(self._stage.send_many(topic, bodies, **options))

    def append(self, topic: str, partition: int, batch: Buffer) -> None:
        """Stage one record batch of Kafka's format for a partition; returns when there is room for
        the next, which may be before this one has arrived. The buffer is given away."""
        self._thread.run(self._stage.append(topic, partition, batch))

    def close(self) -> Staged:
        """Wait until everything has arrived; what is to be published."""
        return self._thread.run(self._stage.close())
