"""`penstock trace` against a real broker."""

import re
from typing import Any

import pytest

from penstock.engine.inspection.traces import message_search
from penstock.engine.inspection.traces import trace as traces
from tests.unit.cli.commands import Commands


def ids(commands: Commands, name: str) -> list[str]:
    printed = commands.said("consume", name, "--exit", "-f", r"%i\n")
    return printed.split()


def seen(commands: Commands, message: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = commands.document("trace", message, *arguments)["sightings"]
    return found


def test_a_message_of_a_topic(commands: Commands) -> None:
    commands.said("topic", "create", "orders", "-p", "3")
    commands.said("produce", "orders", "-q", "-p", "1", stdin=b"zero\n")
    commands.said("produce", "orders", "-q", "-p", "1", "-k", "k", "-H", "a=1", stdin=b"one\x07\n")
    (message,) = ids(commands, "orders")[1:]
    rows = commands.said("trace", message.upper()).splitlines()
    assert rows[0] == "place       topic orders 1:1"
    assert rows[1] == f"id          {message}"
    assert rows[2].startswith("sent        20")
    assert rows[3:6] == ["key         k", r"body        4 bytes: one\x07", "header      a=1"]
    assert re.fullmatch(
        r"written     20\S+Z, shard \d+, term \d+, index \d+; on node 1, node 1 leads", rows[6]
    )
    assert len(rows) == 7, "nobody reads it"
    (found,) = seen(commands, "orders:1:1")
    assert found == seen(commands, message, "--in", "orders")[0]
    assert (found["key"], found["body"], found["headers"]) == ("k", "one\x07", {"a": "1"})
    (gone,) = seen(commands, "orders:1:99")
    assert gone["is_there"] is False


def test_the_life_of_a_job(commands: Commands) -> None:
    commands.said(
        "queue", "create", "jobs", "--deliveries-max", "2", "--dead-letter-topic", "grave"
    )
    commands.said("produce", "jobs", "-q", stdin=b"hopeless\nother\n")
    message, _ = ids(commands, "jobs")
    (waiting,) = seen(commands, message)
    assert waiting["states"] == [
        {"group": "queue", "state": "ready", "deliveries": 0, "until_ms": None, "reason": ""}
    ]
    commands.said("consume", "jobs", "-n", "1", "--release")
    assert seen(commands, message)[0]["states"][0]["deliveries"] == 1
    commands.said("consume", "jobs", "-n", "2", "--lease", "1h")
    told = commands.said("trace", message)
    assert "\nstate       group queue: leased, 2 deliveries, until 20" in told
    events = [row.split(maxsplit=2)[2] for row in told.splitlines() if row.startswith("event")]
    who = r"to \S+ \(native, 127\.0\.0\.1:\d+\), group queue"
    for row, expected in zip(
        events,
        [rf"delivered {who}, delivery 1, until 20.*", "released by .*",
         rf"delivered {who}, delivery 2, until 20.*"],
        strict=True,
    ):  # fmt: skip
        assert re.fullmatch(expected, row), row
    assert "note " not in told, "the history knows all of it"


def test_a_dead_letter(commands: Commands) -> None:
    commands.said("queue", "create", "bills", "--deliveries-max", "1", "--dead-letter-topic", "no")
    commands.said("produce", "bills", "-q", stdin=b"a\n")
    (message,) = ids(commands, "bills")
    commands.said("consume", "bills", "--release")
    while seen(commands, message)[0]["states"][0]["state"] != "over":
        pass  # The broker moves it by itself.
    first, letter = seen(commands, message)
    assert first["place"] == {"topic": "bills", "partition": 0, "offset": 0}
    assert letter["place"]["topic"] == "no"
    assert letter["came_from"] == first["place"]
    assert [one["what"] for one in first["happenings"]] == ["delivered", "released", "buried"]
    assert letter["died"] == {
        "place": {"topic": "bills", "partition": 0, "offset": 0},
        "group": "queue",
        "reason": "too many deliveries",
        "deliveries": 1,
        "time_ms": letter["died"]["time_ms"],
    }
    told = commands.said("trace", message)
    assert "\n\nplace       queue no 0:0\n" in told
    assert "\nmoved from  bills 0:0\n" in told
    assert "\ndied        in bills 0:0 of group queue after 1 deliveries, 20" in told
    assert "\nreason      too many deliveries\n" in told
    assert "header " not in told, "what other rows say is not said twice"
    assert len(seen(commands, message, "--in", "no")) == 1, "also if one looks only there"


def test_what_is_not_found(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    commands.said("topic", "create", "hay", "-p", "1")
    commands.said("produce", "hay", "-q", "--count", "50", stdin=b"x\n")
    needle = "00000000-0000-8000-8000-000000000000"
    told = commands.complaint(1, "trace", needle, "--in", "hay")
    assert f"no message of hay has the id {needle}" in told
    assert "is neither the id" in commands.complaint(1, "trace", "needle")
    assert "there is no topic" in commands.complaint(1, "trace", "nowhere:0:0")
    oldest = ids(commands, "hay")[0]
    assert len(seen(commands, oldest)) == 1
    monkeypatch.setattr(traces, "PLACES_TRIED_MAX", 10)
    monkeypatch.setattr(message_search, "PLACES_AT_ONCE", 2)
    told = commands.complaint(1, "trace", oldest, "--in", "hay")
    assert "there was more than could be searched" in told


def test_who_reads_a_topic(commands: Commands) -> None:
    commands.said("topic", "create", "news", "-p", "1")
    commands.said("produce", "news", "-q", stdin=b"a\nb\n")
    commands.said("consume", "news", "--group", "readers", "-n", "1")
    told = commands.said("trace", "news:0:0")
    assert re.search(r"reader      group readers: past it since 20\S+Z.*, at offset 1 now", told)
    assert "reader      group readers: not there yet, at offset 1" in commands.said(
        "trace", "news:0:1"
    )
