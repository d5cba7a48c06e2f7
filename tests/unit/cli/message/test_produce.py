"""`penstock produce` against a real broker."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.cli.message import lines, produce
from penstock.cli.message import sender as sending
from penstock.cli.message.sender import Batch, Tally, paced
from tests.manual_loop import manual_loop, run_manually
from tests.unit.cli.commands import PROGRAM, Commands, shell


def stored(commands: Commands, name: str) -> list[dict[str, Any]]:
    """What is in a topic, in the order of its first partition."""
    printed = commands.said("consume", name, "--exit", "--json")
    return [msgspec.json.decode(line) for line in printed.splitlines()]


def bodies(commands: Commands, name: str) -> list[Any]:
    return [one["body"] for one in stored(commands, name)]


def test_lines(commands: Commands) -> None:
    commands.said("topic", "create", "lines", "-p", "1")
    talk = commands.talk("produce", "lines", stdin=b"one\n\ntwo three\nlast")
    assert talk.startswith("4 messages, 16 bytes acknowledged in ")
    assert talk.endswith(" MB/s\n")
    assert bodies(commands, "lines") == ["one", "", "two three", "last"]
    assert commands.told(0, "produce", "lines", "--quiet", stdin=b"x\n") == ("", "")
    assert commands.talk("produce", "lines").startswith("0 messages, 0 bytes")


def test_keys_and_headers(commands: Commands) -> None:
    commands.said("topic", "create", "keys", "-p", "1")
    commands.said(
        "produce", "keys", "-q", "-K", ":", "-k", "usual", stdin=b"a:1\n:2\nnone\nb:c:d\n"
    )
    commands.said("produce", "keys", "-q", "-K", r"\t", "-H", "h=1", stdin=b"t\tabbed\n")
    found = [(one["key"], one["body"]) for one in stored(commands, "keys")]
    assert found == [("a", "1"), ("", "2"), ("usual", "none"), ("b", "c:d"), ("t", "abbed")]
    assert stored(commands, "keys")[4]["headers"] == {"h": "1"}


def test_keys_go_where_kafka_sends_them(commands: Commands) -> None:
    commands.said("topic", "create", "spread", "-p", "8")
    commands.said("produce", "spread", "-q", "-K", ":", stdin=b"a:1\nb:2\na:3\n")
    parts = {one["key"]: one["partition"] for one in stored(commands, "spread")}
    assert len([one for one in stored(commands, "spread") if one["partition"] == parts["a"]]) >= 2


def test_files_and_zero_bytes(commands: Commands, tmp_path: Path) -> None:
    commands.said("topic", "create", "files", "-p", "1")
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb")
    second.write_bytes(b"c\n")
    commands.said("produce", "files", "-q", "--file", str(first), "-F", str(second))
    commands.said("produce", "files", "-q", "-0", stdin=b"d\nd\0e\0")
    assert bodies(commands, "files") == ["a", "b", "c", "d\nd", "e"]
    printed, talk = commands.told(1, "produce", "files", "--file", str(tmp_path / "none"))
    assert "none cannot be read: No such file" in talk
    assert printed == ""


def test_more_than_a_block(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(produce, "BATCH_MESSAGES", 700)
    commands.said("topic", "create", "much", "-p", "1")
    wanted = [f"{number:06}" for number in range(20_000)]
    talk = commands.talk("produce", "much", stdin="\n".join(wanted).encode())
    assert talk.startswith("20,000 messages, 120,000 bytes")
    assert commands.said("consume", "much", "--exit").splitlines() == wanted


def test_again_and_again(commands: Commands) -> None:
    commands.said("topic", "create", "often", "-p", "1")
    talk = commands.talk("produce", "often", "--count", "3", "--rate", "1e9", stdin=b"x\ny\n")
    assert talk.startswith("6 messages")
    assert bodies(commands, "often") == ["x", "x", "x", "y", "y", "y"]


def test_what_only_queues_understand(commands: Commands) -> None:
    commands.said("queue", "create", "jobs", "--priority", "strict")
    commands.said("produce", "jobs", "-q", stdin=b"soon\n")
    commands.said("produce", "jobs", "-q", "--priority", "9", stdin=b"first\n")
    commands.said("produce", "jobs", "-q", "--delay", "1h", stdin=b"later\n")
    states = [(one["body"], one["state"]) for one in commands.document("peek", "jobs")["messages"]]
    assert states == [("soon", "ready"), ("first", "ready"), ("later", "delayed")]
    assert commands.said("consume", "jobs", "--ack", "--exit") == "first\nsoon\n"
    commands.said("topic", "create", "plain")
    told = commands.complaint(1, "produce", "plain", "--delay", "1h", "--ttl", "2h", stdin=b"x\n")
    assert "plain is a topic, not a queue: --delay, --ttl would not count" in told


def test_a_file_may_be_sent_again(commands: Commands) -> None:
    commands.said("queue", "create", "import", "--deduplication", "id")
    sent = ("produce", "import", "--dedup-id", "import-%n")
    assert "duplicates" not in commands.talk(*sent, stdin=b"a\nb\n")
    assert "3 messages (2 duplicates)" in commands.talk(*sent, stdin=b"a\nb\nc\n")
    assert commands.said("consume", "import", "--ack", "--exit") == "a\nb\nc\n"


def test_json_lines(commands: Commands) -> None:
    commands.said("queue", "create", "rows")
    commands.said(
        "produce", "rows", "--json", "-q",
        stdin=b'{"body": {"id": 7}, "key": "7"}\n'
        b'{"body": {"base64": "/w=="}, "headers": {"a": "1"}}\n',
    )  # fmt: skip
    first, second = stored(commands, "rows")
    assert (first["key"], first["body"]) == ("7", '{"id":7}')
    assert first["headers"] == {"content-type": "application/json"}
    assert (second["body"], second["headers"]) == ({"base64": "/w=="}, {"a": "1"})
    _, talk = commands.told(1, "produce", "rows", "--json", stdin=b'{"body": "x"}\nhello\n')
    assert talk.splitlines()[-1].startswith("penstock: line 2 is not a message in JSON")


def test_what_is_not_there(commands: Commands) -> None:
    told = commands.complaint(1, "produce", "nothing", stdin=b"x\n")
    assert "there is no topic or queue nothing; make it with `penstock topic create" in told
    commands.said("produce", "made", "-q", "--create", "queue", stdin=b"x\n")
    rows = commands.document("topic", "list", "--prefix", "made")
    assert [(row["name"], row["is_queue"]) for row in rows] == [("made", True), ("made-dlq", True)]
    commands.said("produce", "made", "-q", "--create", "topic", stdin=b"y\n")
    assert bodies(commands, "made") == ["x", "y"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--count", "0"), "--count = 0 must be at least 1"),
        (("--rate", "0"), "must be more than 0"),
        (("--json", "-k", "x"), "each line has its own"),
        (("-K", ""), "must not be empty"),
        (("-K", "\\q"), "is not an escape"),
        (("-H", "x"), "must be NAME=VALUE"),
        (("--delay", "soon"), "must be a duration"),
        (("--create", "table"), "table"),
    ],
)
def test_typed_wrongly(commands: Commands, arguments: tuple[str, ...], words: str) -> None:
    assert words in commands.complaint(2, "produce", "x", *arguments)


def test_a_rate_is_kept() -> None:
    moments: list[float] = []

    async def batches() -> AsyncIterator[Batch]:
        yield [b"x"] * 50
        yield [b"y"] * 25

    async def play() -> None:
        async for batch in paced(batches(), 100):
            assert len(batch) <= 100 / sending.PORTIONS_PER_SECOND
            moments.extend([manual_loop().time()] * len(batch))

    run_manually(play())
    assert len(moments) == 75
    assert all(moment >= number // 10 * 0.1 - 0.02 for number, moment in enumerate(moments))
    assert moments[-1] < 1


def test_a_tally() -> None:
    tally = Tally(messages=3_000, size_bytes=2_000_000, duplicates=1)
    assert tally.sentence(2.0) == (
        "3,000 messages (1 duplicate), 2,000,000 bytes acknowledged in 2.00 s:"
        " 1,500 messages/s, 1.0 MB/s"
    )


@pytest.mark.slow
def test_real_pipes(commands: Commands) -> None:
    commands.said("topic", "create", "pipe", "-p", "1")
    sent = shell(r"printf 'one\ntwo\n' | penstock produce pipe")
    assert (sent.returncode, sent.stdout) == (0, "")
    assert sent.stderr.startswith("2 messages, 6 bytes")
    assert "\x1b" not in sent.stderr
    copied = shell(
        "penstock consume pipe -e --json | penstock produce copy --json --create topic -q"
        r" && penstock consume copy -e -f '%v;'"
    )
    assert (copied.returncode, copied.stdout, copied.stderr) == (0, "one;two;", "")


@pytest.mark.slow
def test_a_bar_on_a_terminal_only(commands: Commands, tmp_path: Path) -> None:
    commands.said("topic", "create", "bar", "-p", "1")
    path = tmp_path / "lines"
    path.write_bytes(b"line\n" * 1_000)
    ours, theirs = os.openpty()
    sent = subprocess.run(
        [PROGRAM, "produce", "bar", "--file", path],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        stderr=theirs,
        timeout=60,
        check=False,
    )
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    os.close(theirs)
    assert sent.returncode == 0
    assert "to bar" in shown
    assert "\x1b[2K" in shown, "the bar is wiped away in the end"
    assert "1,000 messages, 4,000 bytes acknowledged" in shown.splitlines()[-1]
