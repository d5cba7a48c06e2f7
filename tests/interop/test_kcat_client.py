"""kcat, where it is installed: often an older librdkafka, which is choosy about versions."""

import shutil
import subprocess

import pytest

from tests.kafka_broker import ThreadedBroker

KCAT = shutil.which("kcat")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(KCAT is None, reason="kcat is not installed"),
]


def kcat(broker: ThreadedBroker, *arguments: str, text: str = "") -> list[str]:
    assert KCAT is not None
    done = subprocess.run(
        [KCAT, "-b", broker.address, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_come_back(broker: ThreadedBroker, codec: str) -> None:
    lines = [f"{number % 3}:value {number}" for number in range(100)]
    topic = f"lines-{codec}"
    kcat(broker, "-P", "-t", topic, "-z", codec, "-K:", text="\n".join(lines))
    found = kcat(broker, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-f", "%k:%s\n")
    assert sorted(found) == sorted(lines)
    first = kcat(broker, "-C", "-t", topic, "-e", "-q", "-c", "1", "-f", "%o\n")
    assert first == ["0"]


def test_a_group_reads_everything_once(broker: ThreadedBroker) -> None:
    kcat(broker, "-P", "-t", "grouped", text="one\ntwo\nthree")
    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000")
    found = kcat(broker, "-G", "readers", *settings, "-q", "-c", "3", "grouped")
    assert sorted(found) == ["one", "three", "two"]


def test_what_is_there_is_listed(broker: ThreadedBroker) -> None:
    kcat(broker, "-P", "-t", "listed", text="one")
    listing = "\n".join(kcat(broker, "-L", "-t", "listed"))
    assert 'topic "listed" with 4 partitions' in listing
    assert "leader 1, replicas: 1, isrs: 1" in listing
