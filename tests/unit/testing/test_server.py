"""A broker beside the test: real clients, free ports, memory or a directory."""

import signal
import threading
import urllib.request
from pathlib import Path

import boto3
import pytest
from confluent_kafka import Consumer, Producer

from penstock.client.blocking.client import BlockingClient
from penstock.core.errors import DirectoryInUse, LocalError
from penstock.embedded.connector import connect
from penstock.testing.clock import ManualClock
from penstock.testing.server import PenstockServer

pytestmark = pytest.mark.slow


def test_every_door_is_open() -> None:
    with PenstockServer() as broker:
        producer = Producer({"bootstrap.servers": broker.kafka})
        producer.produce("events", b"by Kafka")
        assert producer.flush(30) == 0
        del producer  # Else it complains when the broker is gone.
        sqs = boto3.client(
            "sqs",
            endpoint_url=broker.sqs_url,
            region_name="eu-central-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
        )
        url = sqs.create_queue(QueueName="work")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="by SQS")
        with urllib.request.urlopen(f"{broker.http_url}/readyz") as answer:
            assert answer.status == 200
        with BlockingClient(connect(broker.url)) as client:
            assert {topic.name for topic in client.topics()} == {"events", "work"}
            (message,) = client.receive("work", wait=60)
            assert message.raw == b"by SQS"
        consumer = Consumer(
            {
                "bootstrap.servers": broker.kafka,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["events"])
        record = consumer.poll(30)
        assert record is not None
        assert record.value() == b"by Kafka"
        consumer.close()


def test_a_directory_is_kept_and_memory_is_not(tmp_path: Path) -> None:
    for data, expected in ((tmp_path / "data", ["kept"]), (None, [])):
        with PenstockServer(data) as broker, BlockingClient(connect(broker.url)) as client:
            client.create_topic("kept")
        with PenstockServer(data) as broker, BlockingClient(connect(broker.url)) as client:
            assert [topic.name for topic in client.topics()] == expected


def test_a_clock_that_is_moved_has_moved_everything_when_it_stands_again() -> None:
    clock = ManualClock()
    with PenstockServer(clock=clock) as broker, BlockingClient(connect(broker.url)) as client:
        client.create_queue("work", ttl=100, retry="none")
        client.send("work", "later", delay=60)
        client.send("work", "soon gone")
        client.receive("work", 10, lease=30)
        clock.advance(seconds=61)
        stats = client.queue("work").stats()
        assert (stats.ready, stats.leased, stats.delayed) == (2, 0, 0)
        clock.advance(seconds=61)
        assert client.queue("work").stats().expired == 2


def test_what_goes_wrong_is_raised(tmp_path: Path) -> None:
    with PenstockServer(tmp_path) as broker:
        with pytest.raises(DirectoryInUse, match="in use by this very process"):
            PenstockServer(tmp_path).start()
        port = int(broker.kafka.rpartition(":")[2])
        with pytest.raises(LocalError, match="another program listens there"):
            PenstockServer(kafka_port=port).start()
    with pytest.raises(LocalError, match="no setting nonsense"):
        PenstockServer(settings={"nonsense": 1})


def test_it_knows_where_it_is_only_when_it_runs() -> None:
    broker = PenstockServer(settings={"sqs.enabled": False})
    with pytest.raises(LocalError, match="not started yet"):
        broker.kafka  # noqa: B018
    with broker:
        assert broker.url == f"penstock://{broker.kafka}"
        with pytest.raises(LocalError, match="does not serve SQS"):
            broker.sqs_url  # noqa: B018
    broker.stop()


def test_it_leaves_signals_and_threads_as_they_were() -> None:
    signals = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    threads = set(threading.enumerate())
    with PenstockServer():
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == signals
    assert [one.name for one in threading.enumerate() if one not in threads] == []
