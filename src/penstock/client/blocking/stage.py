"""A stage, the first half of a transaction: messages are stored at the broker, invisible until they
are published.

    stage = client.open_stage()
    stage.send_many("orders", bodies)
    client.publish("nightly import", 7, [stage.close()])

Generated from penstock.client.stage by tests/house/blocking_client.py; do not edit.
`make generate` renews it.
"""

from collections.abc import Iterable
from typing import Any, Unpack

from penstock.client.blocking.iteration import listed
from penstock.client.blocking.twin import Twin
from penstock.client.call_options import SendManyOptions
from penstock.client.connection.channel import Buffer
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.stage import Stage
from penstock.client.staged_message import Staged


class BlockingStage(Twin[Stage]):
    """`Stage` without `await`; made by `BlockingClient.open_stage`."""

    def send_many(
        self,
        topic: str,
        bodies: "Iterable[object | Outgoing[Any]]",
        **options: Unpack[SendManyOptions],
    ) -> None:
        """Stage messages for a queue or topic, with the options of `Queue.send_many`. Ids
        (`dedup_id`) do not count here: a publication is not repeated anyway."""
        bodies = listed(bodies)
        self._thread.run(self._inner.send_many(topic, bodies, **options))

    def append(self, topic: str, partition: int, batch: Buffer) -> None:
        """Stage one record batch of Kafka's format for a partition; returns when there is room for
        the next, which may be before this one has arrived. The buffer is given away."""
        self._thread.run(self._inner.append(topic, partition, batch))

    def close(self) -> Staged:
        """Wait until everything is stored; return the messages to publish."""
        return self._thread.run(self._inner.close())
