"""Questions to a running broker and their answers, without a loop in sight.

The broker lives in a thread and is shared by the tests of a file; each test takes topics and groups
of its own names.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.kafka.codec import Message
from tests.batches import build_batch
from tests.groups import subscription
from tests.kafka_broker import Broker, ThreadedBroker
from tests.unit.kafka.wire import WireClient, wire_client

Fields = Mapping[str, object]


class Asker:
    """One connection; calling it sends a request and waits for the answer."""

    def __init__(self, broker: Broker, client: WireClient, runner: asyncio.Runner) -> None:
        self.broker = broker
        self._client = client
        self._runner = runner

    def __call__(self, key: int, version: int, fields: Fields) -> Message:
        """The answer to a request; see `WireClient.call`."""
        return self._runner.run(self._client.call(key, version, fields))

    # What a test needs before it can ask its question.

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> bytes:
        """Make a topic; its id."""
        answer = self(19, 7, {"topics": [new_topic(name, partitions, configs=configs or {})]})
        (row,) = answer.topics
        assert row.error_code == 0, row.error_message
        return bytes(row.topic_id)

    def produce(self, topic: str, index: int = 0, count: int = 1) -> None:
        """Write a batch of so many messages."""
        rows = [{"index": index, "records": bytes(build_batch(count))}]
        fields = {
            "acks": -1,
            "timeout": 10_000,
            "topic_data": [{"name": topic, "partition_data": rows}],
        }
        (answer,) = self(0, 9, fields).responses
        assert answer.partition_responses[0].error_code == 0

    def configure_group(self, group: str, configs: Mapping[str, str]) -> None:
        """Set configs of a group."""
        rows = [
            {"name": name, "config_operation": 0, "value": value} for name, value in configs.items()
        ]
        resource = {"resource_type": 32, "resource_name": group, "configs": rows}
        (row,) = self(44, 1, {"resources": [resource]}).responses
        assert row.error_code == 0, row.error_message

    def join(self, group: str, *topics: str) -> tuple[str, int]:
        """Become the only member of a group; the member's id and the generation."""
        fields = {
            "group_id": group,
            "session_timeout": 30_000,
            "rebalance_timeout": 30_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(*topics)}],
        }
        given = self(11, 9, fields)
        joined = self(11, 9, {**fields, "member_id": given.member_id})
        assert joined.error_code == 0, joined
        work = [{"member_id": joined.member_id, "assignment": b"work"}]
        synced = self(
            14, 5,
            {
                "group_id": group, "generation_id": joined.generation_id,
                "member_id": joined.member_id, "assignments": work,
            },
        )  # fmt: skip
        assert synced.error_code == 0, synced
        return str(joined.member_id), int(joined.generation_id)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets for a group without members."""
        rows = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
            for index, offset in offsets.items()
        ]
        fields = {"group_id": group, "topics": [{"name": topic, "partitions": rows}]}
        (answer,) = self(8, 9, fields).topics
        assert {row.error_code for row in answer.partitions} == {0}

    def committed(self, group: str, topic: str, indexes: Sequence[int]) -> dict[int, int]:
        """Offsets of a group; -1 where nothing is committed."""
        topics = [{"name": topic, "partition_indexes": list(indexes)}]
        (answer,) = self(9, 8, {"groups": [{"group_id": group, "topics": topics}]}).groups
        return {row.partition_index: row.committed_offset for row in answer.topics[0].partitions}


def new_topic(
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    *,
    configs: Mapping[str, str | None] | None = None,
    assignments: Sequence[Sequence[int]] = (),
) -> Fields:
    """A row of a CreateTopics request."""
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": [
            {"partition_index": index, "broker_ids": list(brokers)}
            for index, brokers in enumerate(assignments)
        ],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }


@contextmanager
def asking(threaded: ThreadedBroker) -> Iterator[Asker]:
    """A connection to a broker in a thread."""
    broker = threaded.broker
    assert broker is not None, "the broker has not been started"
    with asyncio.Runner() as runner:
        connecting = wire_client(broker.host, broker.port)
        client = runner.run(connecting.__aenter__())
        try:
            yield Asker(broker, client, runner)
        finally:
            runner.run(connecting.__aexit__(None, None, None))
