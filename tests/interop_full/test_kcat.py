"""kcat, as its distribution ships it: another librdkafka than the one confluent-kafka brings along.

It is skipped where there is none; `apt-get install kcat`, or `brew install kcat`, gets it.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.clients import Operator
from tests.cluster.processes import Cluster
from tests.interop_full.kinds import CODECS
from tests.interop_full.lines import check_lines, lines_to_send, run_tool

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
MANY = int(os.environ.get("INTEROP_MESSAGES", "100000"))
PARTITIONS = 3

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.skipif(KCAT is None, reason="no kcat: apt-get install kcat"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(Path(tmp_path_factory.mktemp("kcat")), nodes=1) as cluster:
        cluster.start()
        yield cluster
        assert not cluster.complaints(), "\n".join(cluster.complaints())


def kcat(cluster: Cluster, *arguments: str, given: str = "") -> str:
    assert KCAT is not None
    return run_tool([KCAT, "-q", "-b", cluster.bootstrap, *arguments], given)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_sent_survives_a_kill(cluster: Cluster, codec: str) -> None:
    topic = f"kcat-{codec}"
    Operator(cluster.bootstrap).create_topic(topic, PARTITIONS)
    exactly_once = ("-X", "enable.idempotence=true")
    kcat(
        cluster,
        *("-P", "-t", topic, "-K:", "-z", codec, *exactly_once),
        given=lines_to_send(MANY),
    )
    cluster.kill(1)
    cluster.restart(1)
    read = kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-f", r"%p %k %s\n")
    check_lines(three_words(read), MANY)


def test_a_group_goes_on_where_it_was(cluster: Cluster) -> None:
    topic = "kcat-group"
    Operator(cluster.bootstrap).create_topic(topic, PARTITIONS)
    member = ("-G", "kcat", "-X", "auto.offset.reset=earliest", "-e", "-f", r"%p %k %s\n", topic)
    half = MANY // 2
    lines = lines_to_send(MANY).splitlines(keepends=True)
    kcat(cluster, "-P", "-t", topic, "-K:", given="".join(lines[:half]))
    first = kcat(cluster, *member)
    check_lines(three_words(first), half)
    assert kcat(cluster, *member) == ""
    cluster.kill(1)
    cluster.restart(1)
    kcat(cluster, "-P", "-t", topic, "-K:", given="".join(lines[half:]))
    check_lines(three_words(first + kcat(cluster, *member)), MANY)


def test_what_it_tells_about_the_cluster(cluster: Cluster) -> None:
    topic = "kcat-told"
    Operator(cluster.bootstrap).create_topic(topic, PARTITIONS)
    told = json.loads(kcat(cluster, "-L", "-J", "-t", topic))
    assert [broker["id"] for broker in told["brokers"]] == [1]
    (found,) = told["topics"]
    assert [part["partition"] for part in found["partitions"]] == list(range(PARTITIONS))
    assert {part["leader"] for part in found["partitions"]} == {1}


def test_headers_empty_values_and_times(cluster: Cluster) -> None:
    topic = "kcat-details"
    Operator(cluster.bootstrap).create_topic(topic, 1)
    before_ms = int(time.time() * 1_000)
    kcat(cluster, "-P", "-t", topic, "-K:", "-Z", "-H", "color=blue", given="a:1\nb:\n")
    read = kcat(cluster, "-C", "-t", topic, "-e", "-J")
    messages = [json.loads(line) for line in read.splitlines()]
    assert [(one["key"], one["payload"]) for one in messages] == [("a", "1"), ("b", None)]
    assert [one["headers"] for one in messages] == [["color", "blue"]] * 2
    assert all(one["ts"] >= before_ms for one in messages)
    assert kcat(cluster, "-Q", "-t", f"{topic}:0:{before_ms}").split() == [
        topic,
        "[0]",
        "offset",
        "0",
    ]
    late = kcat(cluster, "-C", "-t", topic, "-e", "-o", f"s@{before_ms + 3_600_000}")
    assert late == ""


def three_words(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        partition, key, value = line.split(" ")
        yield partition, key, value
