"""`penstock queue …` against a real broker."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.cli.main import run
from penstock.cli.queue.flags import flag_of, set_configs
from penstock.cli.queue.messages import parse_time_ms
from penstock.cli.table import format_age
from tests.web_broker import WebBroker

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("queue")) as running:
        yield running


@pytest.fixture(autouse=True)
def _reached(broker: WebBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_URL", f"penstock://{broker.address}")
    monkeypatch.setattr("sys.stdin", io.StringIO())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(capsys: Captured, *arguments: str) -> str:
    """What a command that does what it is told prints."""
    capsys.readouterr()
    assert run(["queue", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def document(capsys: Captured, *arguments: str) -> Any:
    return msgspec.json.decode(said(capsys, *arguments, "--json"))


def complaint(capsys: Captured, code: int, *arguments: str) -> str:
    """The one sentence of a command that does not."""
    capsys.readouterr()
    assert run(["queue", *arguments]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    return output.err


def test_a_queue_from_its_making_to_its_end(capsys: Captured) -> None:
    made = said(
        capsys, "create", "life", "--lease", "1m", "--order", "fifo", "--no-delete-acked",
        "--dead-letter-topic", "life-dlq", "--bytes-max", "1MiB", "--set", "min.insync.replicas=1",
    )  # fmt: skip
    assert made == "queue life is made\nqueue life-dlq is made\n"
    lines = said(capsys, "list", "--prefix", "life").splitlines()
    assert lines[0].startswith("QUEUE     KIND  GROUP  READY  LEASED  DELAYED  DEAD  OLDEST")
    assert lines[1].split() == ["life", "fifo", "queue", "0", "0", "0", "0", "-", "life-dlq"]
    told = said(capsys, "describe", "life")
    assert told.startswith("queue life: fifo, 1 partition\n")
    assert re.search(r"^lease +1m$", told, re.MULTILINE)
    assert re.search(r"^delete_acked +no$", told, re.MULTILINE)
    assert document(capsys, "describe", "life")["settings"]["bytes_max"] == 1 << 20
    said(capsys, "configure", "life", "--ttl", "2h", "--unset", "lease_ms")
    settings = document(capsys, "describe", "life")["settings"]
    assert (settings["ttl_ms"], settings["lease_ms"]) == (7_200_000, 30_000)
    said(capsys, "configure", "life", "--ttl", "-1")
    assert document(capsys, "describe", "life")["settings"]["ttl_ms"] == -1
    assert "penstock queue resume life" in said(capsys, "pause", "life")
    assert said(capsys, "list", "--prefix", "life").splitlines()[1].endswith("paused")
    assert said(capsys, "resume", "life") == "queue life delivers again\n"
    assert said(capsys, "delete", "life", "--yes") == "queue life is deleted\n"
    assert "there is no queue life" in complaint(capsys, 1, "describe", "life")
    assert [one["name"] for one in document(capsys, "list", "--prefix", "life")] == ["life-dlq"]


def test_messages(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    said(capsys, "create", "post", "--priority", "strict")
    sent = said(capsys, "send", "post", "one", "two", "-k", "key", "-H", "a=b=c")
    assert sent == "post partition 0 offset 0\npost partition 0 offset 1\n"
    said(capsys, "send", "post", "urgent", "--priority", "9", "--ttl", "1h")
    said(capsys, "send", "post", "later", "--delay", "1h")
    said(capsys, "send", "post", "much later", "--at", "2100-01-01T00:00:00Z")
    monkeypatch.setattr("sys.stdin", io.StringIO("a line\n\033[31mred\n"))
    assert len(document(capsys, "send", "post")["messages"]) == 2
    rows = said(capsys, "peek", "post").splitlines()
    assert rows[0].split() == [
        "PARTITION",
        "OFFSET",
        "STATE",
        "DELIVERIES",
        "AGE",
        "UNTIL",
        "KEY",
        "BODY",
        "REASON",
    ]
    assert len(rows) == 8
    assert rows[1].endswith("key  one")
    assert r"\x1b[31mred" in rows[7], "a body must not talk to the terminal"
    found = document(capsys, "peek", "post", "--state", "delayed")["messages"]
    assert [one["body"] for one in found] == ["later", "much later"]
    assert found[1]["until_ms"] == 4_102_444_800_000
    page = document(capsys, "peek", "post", "-n", "2", "--partition", "0", "--from", "1")
    assert ([one["body"] for one in page["messages"]], page["next"]) == (["two", "urgent"], "0:3")
    assert run(["queue", "peek", "post", "-n", "1"]) == 0
    assert "go on with --from 0:1" in capsys.readouterr().err
    received = document(capsys, "receive", "post", "-n", "2", "--lease", "5m")["messages"]
    assert [one["body"] for one in received] == ["urgent", "one"]
    assert received[1]["headers"]["a"] == "b=c"
    said(capsys, "receive", "post", "--ack", "--wait", "1s")
    (counts,) = document(capsys, "describe", "post")["groups"]
    assert (counts["leased"], counts["acked"], counts["delayed"]) == (2, 1, 2)
    assert said(capsys, "cancel", "post", "0", "4") == "message 0:4 of post is called off\n"
    assert "does not wait" in complaint(capsys, 1, "cancel", "post", "0", "4")


def test_an_empty_queue_says_so(capsys: Captured) -> None:
    said(capsys, "create", "empty")
    for verb in ("peek", "receive"):
        assert run(["queue", verb, "empty"]) == 0
        assert capsys.readouterr().err == "no messages\n"


def test_destructive_verbs_ask(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    said(capsys, "create", "dear")
    said(capsys, "send", "dear", "x", "y")
    for verb in (["purge"], ["delete"], ["reset", "latest"], ["dead", "discard"]):
        arguments = (verb[0], "dear", *verb[1:])
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert "add --yes" in complaint(capsys, 1, *arguments)
        monkeypatch.setattr("sys.stdin", Terminal("deer\n"))
        assert "the name does not match" in complaint(capsys, 1, *arguments)
    assert document(capsys, "describe", "dear")["groups"][0]["ready"] == 2
    monkeypatch.setattr("sys.stdin", Terminal("dear\n"))
    assert said(capsys, "purge", "dear") == "queue dear is purged\n"
    assert document(capsys, "describe", "dear")["groups"][0]["purged"] == 2


def test_reset(capsys: Captured) -> None:
    said(capsys, "create", "twice", "--no-delete-acked")
    said(capsys, "send", "twice", "x", "y")
    said(capsys, "receive", "twice", "-n", "2", "--ack")
    told = said(capsys, "reset", "twice", "earliest", "--dry-run")
    assert told.splitlines() == [
        "PARTITION  WAS AT  GOES ON AT  END",
        "        0       2           0    2",
        "",
        "2 messages would be ahead of group queue",
    ]
    assert said(capsys, "reset", "twice", "1", "--yes").endswith(
        "1 message is ahead of group queue\n"
    )
    assert document(capsys, "reset", "twice", "2000-01-01", "--yes")["messages"] == 2
    assert document(capsys, "reset", "twice", "--to", "@-1h", "--yes")["messages"] == 2
    assert document(capsys, "reset", "twice", "--to", "@2000-01-01", "--dry-run")["messages"] == 2
    assert document(capsys, "reset", "twice", "--to", "end", "--yes")["messages"] == 0
    (place,) = document(capsys, "reset", "twice", "--to", "-1", "--dry-run")["partitions"]
    assert (place["was"], place["start"], place["end"]) == (2, 1, 2)
    assert document(capsys, "reset", "twice", "--to", "+1", "--yes")["messages"] == 1
    assert document(capsys, "describe", "twice")["groups"][0]["ready"] == 1
    assert "or a time such as" in complaint(capsys, 2, "reset", "twice", "yesterday", "--yes")
    assert "Say once where" in complaint(capsys, 2, "reset", "twice")
    assert "Say once where" in complaint(capsys, 2, "reset", "twice", "0", "--to", "1")


def test_a_group_of_its_own(capsys: Captured) -> None:
    said(capsys, "create", "shared", "--dead-letter", "")
    said(capsys, "send", "shared", "x")
    said(capsys, "receive", "shared", "--group", "second", "--ack")
    rows = said(capsys, "list", "--prefix", "shared").splitlines()[1:]
    assert [row.split()[2:4] for row in rows] == [["queue", "1"], ["second", "0"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "x", "--lease", "30"), '--lease = "30" must be a duration with its unit'),
        (("create", "x", "--ttl", "-2"), "such as \"30s\", or -1"),
        (("create", "x", "--bytes-max", "much"), "must be a size"),
        (("create", "x", "--order", "lifo"), "must be one of standard, fifo"),
        (("create", "x", "--set", "novalue"), "must be NAME=VALUE"),
        (("configure", "x"), "Nothing to change"),
        (("send", "x", "y", "--delay", "soon"), "must be a duration"),
        (("send", "x", "y", "--at", "soon"), "must be a time"),
        (("send", "x", "y", "-H", "novalue"), "must be NAME=VALUE"),
        (("redrive", "x", "--message", "17"), "must be PARTITION:OFFSET"),
        (("redrive", "x", "--since", "soon"), "must be a time"),
        (("dead", "x", "eat"), "eat"),
        (("peek",), "requires an argument"),
    ],
)  # fmt: skip
def test_typed_wrongly(capsys: Captured, arguments: tuple[str, ...], words: str) -> None:
    assert words in complaint(capsys, 2, *arguments)


def test_a_refusal_is_the_brokers_sentence(capsys: Captured) -> None:
    for arguments in (("purge", "nowhere", "--yes"), ("peek", "nowhere"), ("moves", "nowhere")):
        assert "there is no queue nowhere; " in complaint(capsys, 1, *arguments)
    said(capsys, "create", "there")
    assert "exists already" in complaint(capsys, 1, "create", "there")
    assert "did you mean" in complaint(capsys, 1, "configure", "there", "--set", "leaze_ms=1")


def test_every_setting_has_a_flag() -> None:
    flags = {flag_of(config) for config in set_configs()}
    assert {"--lease", "--retry-policy", "--dead-letter-topic", "--retention"} <= flags
    assert len(flags) == len(set_configs())


def test_times_and_ages() -> None:
    assert parse_time_ms("1970-01-01T00:00:02Z") == 2_000
    assert parse_time_ms("1970-01-01T01:00:00+01:00") == 0
    assert parse_time_ms("1970-01-02") == 86_400_000
    assert parse_time_ms("+1h") > parse_time_ms("2020-01-01")
    ages = [format_age(ms) for ms in (0, 999, 1_000, 59_999, 3_600_000, 90_000_000)]
    assert ages == ["0ms", "999ms", "1s", "59s", "1h", "1d"]


def reject_all(broker: WebBroker, name: str, reason: str) -> None:
    received = broker.expect(200, "POST", f"/v1/queues/{name}/receive", {"max": 100})["messages"]
    verdicts = [
        {"receipt": one["receipt"], "verdict": "reject", "reason": reason} for one in received
    ]
    broker.expect(200, "POST", f"/v1/queues/{name}/settle", {"verdicts": verdicts})


def test_dead_letters(broker: WebBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.queue.moves.LOOK_SECONDS", 0)
    said(capsys, "create", "bills", "--dead-letter-topic", "bills-dlq")
    said(capsys, "send", "bills", "a", "b", "c")
    reject_all(broker, "bills", "no such customer")
    while document(capsys, "describe", "bills-dlq")["groups"][0]["ready"] < 3:
        pass  # The broker moves them by itself.
    assert said(capsys, "peek", "bills-dlq").splitlines()[1].endswith("  no such customer")
    assert run(["queue", "moves", "bills-dlq"]) == 0
    assert "nothing was ever moved" in capsys.readouterr().err
    assert said(capsys, "redrive", "bills-dlq", "--dry-run") == "3 messages would be moved\n"
    chosen = ("--reason", "customer", "--body", "b", "--died-in", "bills", "--since", "2000-01-01")
    assert document(capsys, "redrive", "bills-dlq", "--dry-run", *chosen) == {"matching": 1}
    told = said(capsys, "redrive", "bills-dlq", "--rate", "1000", *chosen, "--wait")
    assert told.endswith(": 1 message of bills-dlq back to where they died, completed\n")
    (found,) = document(capsys, "peek", "bills")["messages"]
    assert found["body"] == "b"
    said(capsys, "create", "elsewhere")
    moved = document(capsys, "redrive", "bills-dlq", "--to", "elsewhere", "--wait")
    assert (moved["moved"], moved["state"]) == (2, "completed")
    rows = said(capsys, "moves", "bills-dlq").splitlines()
    assert rows[0].split() == ["MOVE", "TO", "STATE", "MOVED", "FAILED", "OF", "RATE", "PROBLEM"]
    assert rows[1].split()[1:5] == ["elsewhere", "completed", "2", "0"]
    assert rows[1] in said(capsys, "describe", "bills-dlq")
    over = complaint(capsys, 1, "moves", "bills-dlq", "--cancel", moved["id"])
    assert "is over" in over


def test_dead_messages_that_stayed(broker: WebBroker, capsys: Captured) -> None:
    said(capsys, "create", "stay", "--dead-letter", "")
    said(capsys, "send", "stay", "a", "b", "c")
    reject_all(broker, "stay", "never mind")
    rows = said(capsys, "peek", "stay", "--state", "dead").splitlines()
    assert rows[1].endswith("a     never mind")
    told = said(capsys, "dead", "stay", "revive", "--message", "0:1")
    assert told == "1 dead message of stay is delivered again\n"
    told = said(capsys, "dead", "stay", "archive")
    assert told == "2 dead messages of stay stay where they are\n"
    assert document(capsys, "dead", "stay", "discard", "--yes") == {"messages": 2}
    (counts,) = document(capsys, "describe", "stay")["groups"]
    assert (counts["ready"], counts["dead"], counts["purged"]) == (1, 0, 2)


def test_a_work_group_is_configured(capsys: Captured, broker: WebBroker) -> None:
    said(capsys, "create", "grouped", "--lease", "7s")
    broker.expect(200, "POST", "/v1/queues/grouped/receive", {"group": "emails"})
    assert "set for work group" not in said(capsys, "describe", "grouped")
    told = said(capsys, "configure", "grouped", "--group", "emails", "--lease", "5m",
                "--deliveries-max", "4")  # fmt: skip
    assert told == "work group emails of queue grouped is configured\n"
    shown = said(capsys, "describe", "grouped")
    own = shown.partition("set for work group emails; the rest is the queue's\n")[2]
    assert [line.split() for line in own.splitlines()] == [
        ["deliveries_max", "4"], ["lease", "5m"],
    ]  # fmt: skip
    found = document(capsys, "describe", "grouped")
    assert found["settings"]["lease_ms"] == 7_000
    assert found["group_settings"]["emails"]["lease_ms"] == {"value": 300_000, "source": "own"}
    said(capsys, "configure", "grouped", "--group", "emails", "--unset", "lease_ms",
         "--unset", "deliveries_max")  # fmt: skip
    assert "set for work group" not in said(capsys, "describe", "grouped")
    refused = complaint(capsys, 1, "configure", "grouped", "--group", "emails", "--ttl", "5s")
    assert "no work group setting" in refused
