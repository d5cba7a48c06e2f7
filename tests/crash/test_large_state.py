"""More state than a shard may hold, against a real broker: it is refused, and nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from penstock.cli.main import run as run_command
from penstock.core.limits import KIB
from tests.cluster.addresses import Block, free_block

pytestmark = [pytest.mark.crash, pytest.mark.slow]

COMMITS = 16
"""Of 7.8 MB each, eight of which find room."""
TOPICS, PARTITIONS = 4, 475
KNOWN = 500
POLICY_VIOLATION = 44
READY_SECONDS = 60.0
MEMORY_KIB_MAX = 512 * KIB


class Broker:
    """`penstock serve` in its smallest form, on a directory that outlives it."""

    def __init__(self, data: Path, block: Block) -> None:
        host = block.host(1)
        self.address, self._http = f"{host}:20001", f"{host}:20002"
        settings = {
            "data": str(data),
            "kafka": self.address,
            "http": self._http,
            "peer": f"{host}:20003",
            "shards": 1,
            "storage.segment_size": "64MiB",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.testing.broker_process", json.dumps(settings)],
            stdin=subprocess.PIPE,
        )

    def wait_ready(self) -> None:
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            assert self._process.poll() is None, "the broker has ended"
            try:
                with urllib.request.urlopen(f"http://{self._http}/readyz", timeout=5) as answer:
                    assert answer.status == 200
                    return
            except (urllib.error.URLError, TimeoutError):
                time.sleep(0.1)
        raise AssertionError("the broker is not ready")

    @property
    def memory_kib(self) -> int:
        """The most that it had resident."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
            return text

    def end(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)
        self._process.wait(60)
        assert self._process.stdin is not None
        self._process.stdin.close()


@contextmanager
def broker(data: Path, block: Block) -> Iterator[Broker]:
    running = Broker(data, block)
    try:
        running.wait_ready()
        yield running
    finally:
        running.end()


def fill(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic("known", 1, 1)]
    topics += [NewTopic(f"many{number}", PARTITIONS, 1) for number in range(TOPICS)]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": address})
    for number in range(KNOWN):
        producer.produce("known", b"%d" % number)
    assert not producer.flush(60)


def consumer(address: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "message.max.bytes": 100_000_000,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


def commit(address: str, group: str) -> int:
    """Commit much metadata; the code of the answer, 0 if it was accepted."""
    offsets = [
        TopicPartition(f"many{topic}", partition, 5, "m" * 4_090)
        for topic in range(TOPICS)
        for partition in range(PARTITIONS)
    ]
    client = consumer(address, group)
    try:
        client.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    finally:
        client.close()
    return 0


def known(address: str) -> int:
    """How many of the known messages can be read."""
    client = consumer(address, "reader")
    client.assign([TopicPartition("known", 0, 0)])
    found: set[bytes] = set()
    until = time.monotonic() + 30
    while len(found) < KNOWN and time.monotonic() < until:
        for message in client.consume(KNOWN, timeout=1):
            if message.error() is None:
                found.add(message.value() or b"")
    client.close()
    return len(found)


def test_a_storm_of_commits_is_refused_and_every_message_stays(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    block, data = free_block(), tmp_path / "data"
    with broker(data, block) as running:
        fill(running.address)
        codes = [commit(running.address, f"storm{number}") for number in range(COMMITS)]
        assert codes[:8] == [0] * 8
        assert set(codes[8:]) == {POLICY_VIOLATION}
        assert known(running.address) == KNOWN
        assert 'penstock_shard_state_bytes{group="1",kind="groups"}' in running.metrics()
        assert running.memory_kib < MEMORY_KIB_MAX
    with broker(data, block) as running:
        assert known(running.address) == KNOWN, "after a kill"
        assert commit(running.address, "late") == POLICY_VIOLATION
        running.end(signal.SIGTERM)
    directory = os.fspath(data / "shard-1")
    assert run_command(["log", "repair", directory, "--drop-groups-above", "1MiB", "--yes"]) == 0
    assert capfd.readouterr().out.count("dropped: group storm") == 8
    with broker(data, block) as running:
        assert known(running.address) == KNOWN, "after the groups were dropped"
        assert commit(running.address, "late") == 0
