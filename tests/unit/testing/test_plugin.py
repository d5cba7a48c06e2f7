"""The pytest plugin, used as users use it: their files, in a pytest of their own.

Each run loads this plugin and those that are named, and no others: whoever runs coroutines, or
nobody, must make no difference.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

KAFKA_AND_SQS = """
import boto3
from confluent_kafka import Consumer, Producer

import penstock


def test_kafka(penstock_kafka_bootstrap):
    producer = Producer({"bootstrap.servers": penstock_kafka_bootstrap})
    producer.produce("orders", b"first", key=b"7")
    assert producer.flush(30) == 0
    consumer = Consumer({
        "bootstrap.servers": penstock_kafka_bootstrap,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
    })
    consumer.subscribe(["orders"])
    record = consumer.poll(30)
    assert (record.key(), record.value()) == (b"7", b"first")
    consumer.close()


def test_sqs(penstock_sqs_url):
    sqs = boto3.client(
        "sqs", endpoint_url=penstock_sqs_url, region_name="us-east-1",
        aws_access_key_id="any", aws_secret_access_key="any",
    )
    assert "QueueUrls" not in sqs.list_queues(), "every test has a broker of its own"
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="resize")
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == "resize"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_time_of_sqs(penstock_sqs_url, penstock_clock):
    sqs = boto3.client(
        "sqs", endpoint_url=penstock_sqs_url, region_name="us-east-1",
        aws_access_key_id="any", aws_secret_access_key="any",
    )
    url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    penstock_clock.advance(seconds=900)
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "later"


def test_all_speak_of_the_same_queue(penstock_broker, penstock_url, penstock_sqs_url):
    assert penstock_url == penstock_broker.url
    assert penstock_sqs_url == penstock_broker.sqs_url
"""

PLAIN = """
import asyncio

import penstock


def test_native_over_tcp(penstock_url):
    async def story():
        async with penstock.connect(penstock_url) as client:
            await client.send("work", {"id": 7})
            (message,) = await client.receive("work", wait=20)
            assert message.body == {"id": 7}
            assert await message.ack()

    asyncio.run(story())


def test_a_client_in_a_plain_test(penstock_client):
    async def story():
        async with penstock_client as client:
            await client.send("work", "one")
            assert [message.body for message in await client.receive("work")] == ["one"]

    asyncio.run(story())


def test_a_client_that_was_left_open(penstock_client):
    async def story():
        client = await penstock_client
        await client.send("work", "one")

    asyncio.run(story())


def test_nothing_is_left_of_it():
    import threading
    assert [one for one in threading.enumerate() if one.name.startswith("penstock")] == []


def test_a_blocking_client(penstock_blocking_client, penstock_clock):
    penstock_blocking_client.send("work", "tomorrow", delay=86_400)
    assert penstock_blocking_client.receive("work") == []
    penstock_clock.advance(seconds=86_400)
    (message,) = penstock_blocking_client.receive("work")
    assert message.body == "tomorrow"
    penstock_clock.advance(seconds=30)
    penstock_clock.advance(seconds=4)
    assert penstock_blocking_client.queue("work").stats().ready == 1
"""

ASYNC = """
import asyncio

import pytest

pytestmark = pytest.mark.{mark}


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_it_is_open(penstock_client):
    await penstock_client.send("work", "one")
    assert [message.body for message in await penstock_client.receive("work")] == ["one"]


async def test_it_is_another_one(penstock_client):
    assert await penstock_client.topics() == []


async def test_who_waits_is_woken_by_the_clock(penstock_client, penstock_clock):
    queue = penstock_client.queue("work")
    await queue.send("in an hour", delay=3600)
    waiting = asyncio.create_task(queue.receive(wait=60))
    await asyncio.sleep(0)
    penstock_clock.advance(seconds=59)
    penstock_clock.jump_wall(3_600_000)
    (message,) = await waiting
    assert message.body == "in an hour"


class TestMethods:
    @pytest.mark.parametrize("body", ["a", "b"])
    async def test_it_is_open(self, penstock_client, body):
        async with penstock_client as client:
            await client.send("work", body)
"""

CLUSTER = """
import asyncio

import penstock


def test_a_node_dies(penstock_cluster):
    async def story():
        async with penstock.connect(penstock_cluster.url) as client:
            await client.send("work", "kept")
            penstock_cluster.kill(1)
            found = []
            while not found:
                found = await client.receive("work", wait=20)
            assert found[0].body == "kept"
        penstock_cluster.restart(1)

    asyncio.run(story())
"""


def run(directory: Path, source: str, *plugins: str, arguments: tuple[str, ...] = ()) -> str:
    """Run a user's test file; what pytest says of it."""
    (directory / "test_user.py").write_text(source, "utf-8")
    (directory / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings =\n    error\naddopts = -p no:cacheprovider\n", "utf-8"
    )
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    flags = [flag for name in ("penstock.testing.plugin", *plugins) for flag in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "--color=no", *flags, *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafka_and_sqs_clients(tmp_path: Path) -> None:
    assert "4 passed" in run(tmp_path, KAFKA_AND_SQS)


def test_plain_tests(tmp_path: Path) -> None:
    assert "5 passed" in run(tmp_path, PLAIN)


@pytest.mark.parametrize(("mark", "plugin"), [("anyio", "anyio"), ("asyncio", "pytest_asyncio")])
def test_coroutines_whoever_runs_them(tmp_path: Path, mark: str, plugin: str) -> None:
    if importlib.util.find_spec(plugin) is None:
        pytest.skip(f"{plugin} is not installed")
    module = "pytest_asyncio.plugin" if plugin == "pytest_asyncio" else plugin
    scope = ("-o", "asyncio_default_fixture_loop_scope=function") if mark == "asyncio" else ()
    source = ASYNC.replace("{mark}", mark)
    assert "5 passed" in run(tmp_path, source, module, arguments=scope)


def test_a_cluster(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, CLUSTER)


def test_what_there_is_is_told(tmp_path: Path) -> None:
    told = run(tmp_path, "def test_nothing():\n    pass\n", arguments=("--fixtures",))
    for name, words in {
        "penstock_broker": "A real broker in this process",
        "penstock_url": "for `penstock.connect`",
        "penstock_kafka_bootstrap": "for Kafka clients",
        "penstock_sqs_url": "for SQS clients",
        "penstock_client": "In an async test it is open",
        "penstock_blocking_client": "without a loop",
        "penstock_cluster": "Slow: starting takes",
        "penstock_clock": "stands still until",
    }.items():
        assert f"{name} -- " in told
        assert words in told
