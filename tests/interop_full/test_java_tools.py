"""The tools that come with Apache Kafka, which are its Java client: only where KAFKA_HOME is set.

Its console producer is idempotent by default. Nothing of this needs a running Kafka, only its bin
and libs folders, of version 3 or 4.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import Cluster
from tests.interop_full.kinds import CODECS
from tests.interop_full.lines import check_lines, lines_to_send, run_tool

KAFKA_HOME = os.environ.get("KAFKA_HOME", "")
MANY = int(os.environ.get("INTEROP_MESSAGES", "100000"))
PARTITIONS = 3
ARRIVES_WITHIN_MS = 60_000

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not KAFKA_HOME, reason="KAFKA_HOME does not say where Apache Kafka is"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(Path(tmp_path_factory.mktemp("java")), nodes=1) as cluster:
        cluster.start()
        yield cluster
        assert not cluster.complaints(), "\n".join(cluster.complaints())


def tool(cluster: Cluster, name: str, *arguments: str, given: str = "") -> str:
    program = str(Path(KAFKA_HOME) / "bin" / f"{name}.sh")
    return run_tool([program, "--bootstrap-server", cluster.bootstrap, *arguments], given)


def create(cluster: Cluster, topic: str) -> None:
    tool(cluster, "kafka-topics", "--create", "--topic", topic, "--partitions", str(PARTITIONS))


def consume(cluster: Cluster, topic: str, group: str, count: int) -> str:
    """As a member of a group, which commits where it got to when it ends."""
    shown = [
        f"print.{part}=true" for part in ("partition", "key", "value")
    ]  # Kafka prints `Partition:0<tab>key<tab>value`.
    return tool(
        cluster,
        "kafka-console-consumer",
        *("--topic", topic, "--group", group, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", str(ARRIVES_WITHIN_MS)),
        *(word for one in shown for word in ("--property", one)),
    )


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_sent_survives_a_kill(cluster: Cluster, codec: str) -> None:
    topic = f"java-{codec}"
    create(cluster, topic)
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    tool(
        cluster,
        "kafka-console-producer",
        *("--topic", topic, "--compression-codec", codec, *keyed),
        given=lines_to_send(MANY),
    )
    cluster.kill(1)
    cluster.restart(1)
    check_lines(printed(consume(cluster, topic, f"group-{codec}", MANY)), MANY)
    assert lags(cluster, f"group-{codec}") == [0] * PARTITIONS


def test_topics_are_described_and_deleted(cluster: Cluster) -> None:
    create(cluster, "java-described")
    told = tool(cluster, "kafka-topics", "--describe", "--topic", "java-described")
    assert f"PartitionCount: {PARTITIONS}" in told
    assert len(re.findall(r"Leader: 1\b", told)) == PARTITIONS
    tool(cluster, "kafka-topics", "--delete", "--topic", "java-described")
    assert "java-described" not in tool(cluster, "kafka-topics", "--list").split()


def lags(cluster: Cluster, group: str) -> list[int]:
    """Of each partition, as `kafka-consumer-groups --describe` has it."""
    told = tool(cluster, "kafka-consumer-groups", "--describe", "--group", group)
    rows = [line.split() for line in told.splitlines() if line.startswith(f"{group} ")]
    return [int(row[5]) for row in rows]


def printed(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        partition, key, value = line.split("\t")
        yield partition, key, value
