"""`penstock topic …` against a real broker."""

from pathlib import Path

import pytest

from tests.unit.cli.commands import Commands


def test_a_topic_from_its_making_to_its_end(commands: Commands) -> None:
    made = commands.said("topic", "create", "life", "-p", "3", "--set", "retention.ms=60000")
    assert made == "topic life is there, with 3 partitions\n"
    assert "life" in commands.complaint(1, "topic", "create", "life")
    commands.said("topic", "create", "life", "--exist-ok")
    assert commands.said("topic", "list", "--prefix", "life").splitlines() == [
        "TOPIC  PARTITIONS  KIND",
        "life            3  topic",
    ]
    commands.said("produce", "life", "-p", "1", "--quiet", stdin=b"one\ntwo\n")
    assert commands.said("topic", "describe", "life").splitlines() == [
        "topic life: 3 partitions",
        "",
        "PARTITION  LEADER  START  END  MESSAGES",
        "        0       1      0    0         0",
        "        1       1      0    2         2",
        "        2       1      0    0         0",
        "",
        "retention.ms  60000",
    ]
    described = commands.document("topic", "describe", "life")
    assert described["partitions"][1] == {"index": 1, "leader": 1, "start": 0, "end": 2}
    assert described["configs"] == {"retention.ms": "60000"}
    assert commands.said("topic", "delete", "life", "--yes") == "topic life is deleted\n"
    assert "there is no topic" in commands.complaint(1, "topic", "describe", "life")
    assert "there are no topics" in commands.talk("topic", "list", "--prefix", "life")


def test_configs(commands: Commands) -> None:
    commands.said("topic", "create", "set")
    rows = commands.said("topic", "config", "set").splitlines()
    assert rows[0].split() == ["CONFIG", "VALUE", "SOURCE"]
    assert any(row.split() == ["cleanup.policy", "delete", "default"] for row in rows)
    told = commands.said("topic", "config", "set", "--set", "cleanup.policy=compact")
    assert any(row.split() == ["cleanup.policy", "compact", "set"] for row in told.splitlines())
    assert commands.document("topic", "config", "set", "--unset", "cleanup.policy") == {}
    commands.said("topic", "config", "set", "--partitions", "9")
    assert len(commands.document("topic", "describe", "set")["partitions"]) == 9
    assert "partitions" in commands.complaint(1, "topic", "config", "set", "--partitions", "2")
    assert "did you mean" in commands.complaint(1, "topic", "config", "set", "--set", "cleanup=x")
    assert "must be NAME=VALUE" in commands.complaint(2, "topic", "config", "set", "--set", "x")


def test_a_queue_is_a_topic(commands: Commands) -> None:
    commands.said("queue", "create", "work")
    rows = commands.document("topic", "list", "--prefix", "work")
    assert rows == [
        {"name": name, "partitions": 1, "is_queue": True} for name in ("work", "work-dlq")
    ]
    assert commands.said("topic", "describe", "work").startswith("queue work: 1 partition\n")


def test_topics_of_the_cluster_itself(commands: Commands) -> None:
    complaint = commands.complaint(1, "topic", "create", "__staging", "-p", "1")
    assert "the cluster makes itself" in complaint
    assert commands.document("topic", "list", "--prefix", "__") == []
    rows = commands.document("topic", "list", "--prefix", "__", "--internal")
    assert {row["name"] for row in rows} <= {"__audit", "__staging"}
    complaint = commands.complaint(1, "topic", "delete", "__staging", "--yes")
    assert "kept by the cluster" in complaint


def test_deleting_asks_for_the_name(commands: Commands) -> None:
    commands.said("topic", "create", "dear")
    assert "add --yes" in commands.complaint(1, "topic", "delete", "dear")
    code, talk = commands.typed("deer\n", "topic", "delete", "dear")
    assert (code, "the name does not match; dear stays" in talk) == (1, True)
    code, _ = commands.typed("dear\n", "topic", "delete", "dear")
    assert code == 0
    assert commands.document("topic", "list", "--prefix", "dear") == []


def test_nobody_answers(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    told = commands.complaint(1, "topic", "list", "--url", "penstock://127.0.0.1:1")
    assert "start a broker with `penstock dev`" in told
    assert "kafka" in commands.complaint(1, "topic", "list", "--url", "kafka://127.0.0.1:1")


@pytest.mark.slow
def test_a_directory_in_place_of_a_broker(commands: Commands, tmp_path: Path) -> None:
    here = f"file:{tmp_path / 'data'}"
    told = commands.complaint(1, "topic", "list", "--url", here)
    assert f"there is no directory {tmp_path / 'data'}; correct --url" in told
    commands.said("topic", "create", "notes", "-p", "1", "--url", here)
    commands.said("produce", "notes", "-q", "--url", here, stdin=b"kept\n")
    assert commands.said("consume", "notes", "--exit", "--url", here) == "kept\n"
    assert [one["name"] for one in commands.document("topic", "list", "--url", here)] == ["notes"]
