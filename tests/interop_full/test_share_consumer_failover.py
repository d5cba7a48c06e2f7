"""Share consumers of librdkafka while brokers are killed: nothing is lost, everything gets done."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Producer, ShareConsumer

from tests.cluster.processes import Cluster

pytestmark = pytest.mark.interop

SECONDS_MAX = 60.0
MESSAGES = 2_000

rdkafka: Any = confluent_kafka.admin
"""Its names are public, but not to the type checker."""

Place = tuple[int, int]


class Worker:
    """A consumer that accepts what it gets, and notes what it was told of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.got: Counter[Place] = Counter()
        self.accepted: set[Place] = set()
        self.unknown: set[Place] = set()
        """Accepted, and nobody knows whether it was heard: the broker was killed meanwhile."""
        self.client = ShareConsumer(
            {
                "bootstrap.servers": cluster.bootstrap, "group.id": "workers",
                "share.acknowledgement.mode": "explicit", "max.poll.records": 50,
            }
        )  # fmt: skip
        self.client.set_acknowledgement_commit_callback(self._told)
        self.client.subscribe(["work"])

    def _told(self, offsets: dict[Any, set[int]], error: object) -> None:
        for place, done in offsets.items():
            places = {(place.partition, offset) for offset in done}
            if error is None:
                self.accepted |= places
            else:
                self.unknown |= places

    def work(self) -> None:
        for message in self.client.poll(0.2):
            assert message.error() is None, message.error()
            self.got[message.partition() or 0, message.offset() or 0] += 1
            self.client.acknowledge(message)


def prepare(cluster: Cluster) -> None:
    admin = rdkafka.AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([rdkafka.NewTopic("work", 6)]).values():
        future.result(SECONDS_MAX)
    configs = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": "2000",
        "share.delivery.count.limit": "100",
        "share.heartbeat.interval.ms": "500",
    }
    entries = [
        rdkafka.ConfigEntry(name, value, incremental_operation=rdkafka.AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    group = rdkafka.ConfigResource(
        rdkafka.ResourceType.GROUP, "workers", incremental_configs=entries
    )
    for future in admin.incremental_alter_configs([group]).values():
        future.result(SECONDS_MAX)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(MESSAGES):
        producer.produce("work", f"{number}", partition=number % 6)
    assert producer.flush(SECONDS_MAX) == 0


def test_everything_gets_done_though_brokers_are_killed(tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=3, shards=3) as cluster:
        cluster.start()
        prepare(cluster)
        workers = [Worker(cluster), Worker(cluster)]
        deadline = time.monotonic() + SECONDS_MAX
        victims = [1, 2]
        accepted: set[Place] = set()
        unknown: set[Place] = set()
        try:
            while time.monotonic() < deadline:
                for worker in workers:
                    worker.work()
                accepted = set.union(*(worker.accepted for worker in workers))
                unknown = set.union(*(worker.unknown for worker in workers))
                if len(accepted | unknown) == MESSAGES:
                    break
                if victims and len(accepted) >= MESSAGES * (3 - len(victims)) // 4:
                    victim = victims.pop(0)
                    cluster.kill(victim)
                    cluster.start(victim)
        finally:
            for worker in workers:
                worker.client.close()
        assert not victims, "both were killed in the middle of the work"
        assert len(accepted | unknown) == MESSAGES
        assert len(workers[0].got.keys() | workers[1].got.keys()) == MESSAGES
        assert not cluster.complaints(), "\n".join(cluster.complaints())
