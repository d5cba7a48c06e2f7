"""Two of three nodes are gone: what is committed can be read, what is written is refused with an
error that invites to try again, and when the nodes are back everything goes on by itself.
"""

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.cluster.clients import COMMON, PRODUCER
from tests.cluster.history import Recorder
from tests.cluster.processes import Cluster
from tests.cluster.readers import drain
from tests.cluster.workload import Load, Workload

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

READABLE_WITHIN_SECONDS = 30.0
REFUSED_WITHIN_SECONDS = 30.0
WRITABLE_WITHIN_SECONDS = 20.0
RETRIED_BY_ALL = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
)
"""Codes after which every client tries again, unless it was told not to."""


def test_reads_go_on_and_writes_come_back(tmp_path: Path) -> None:
    load = Load(producers=1, readers=0, members=0)
    with (
        Recorder(tmp_path / "history.jsonl") as recorder,
        Cluster(tmp_path) as cluster,
    ):
        cluster.start()
        workload = Workload(cluster.addresses, recorder, seed=1, load=load)
        workload.start()
        workload.wait_acked(500, seconds=30)
        workload.stop()
        workload.drain()
        for node in (1, 2):
            cluster.kill(node)

        drain(
            recorder,
            cluster.bootstrap,
            load.topic,
            load.partitions,
            seconds=READABLE_WITHIN_SECONDS,
        )
        assert workload.check().valid, workload.check().describe()

        error = refusal(cluster.bootstrap, load)
        assert error.code() in RETRIED_BY_ALL, f"writes are refused with {error.name()}"

        waiting, acked = send_one(cluster.bootstrap, load)
        assert waiting.flush(1.0) == 1, "acknowledged without a majority"
        cluster.start(1, 2)
        began = time.monotonic()
        assert waiting.flush(WRITABLE_WITHIN_SECONDS) == 0, "not writable again"
        print(f"written {time.monotonic() - began:.2f} s after the majority was back")
        assert acked == [None]
        assert not cluster.complaints()


def refusal(bootstrap: str, load: Load) -> KafkaError:
    """What a producer that does not try again is told."""
    settings = {
        **COMMON,
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "message.send.max.retries": 0,
        "message.timeout.ms": int(REFUSED_WITHIN_SECONDS * 1_000),
    }
    producer = Producer(settings)
    errors: list[KafkaError | None] = []
    producer.produce(
        load.topic, b"refuse me", partition=0, on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush(REFUSED_WITHIN_SECONDS + 5)
    assert errors, "the producer was told nothing"
    assert errors[0] is not None, "acknowledged without a majority"
    return errors[0]


def send_one(bootstrap: str, load: Load) -> tuple[Producer, list[KafkaError | None]]:
    """A producer as users have it, with a message under way."""
    producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap})
    outcomes: list[KafkaError | None] = []

    def reported(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    producer.produce(load.topic, b"wait for me", partition=0, on_delivery=reported)
    return producer, outcomes
