"""`penstock peek` and `penstock redrive` against a real broker."""

import pytest

from tests.unit.cli.commands import Commands


def test_peek(commands: Commands) -> None:
    commands.said("queue", "create", "post")
    commands.said("produce", "post", "-q", "-k", "k", "-H", "a=1", stdin=b"one\ntwo\n\x1b[31mred\n")
    commands.said("produce", "post", "-q", "--delay", "1h", stdin=b"later\n")
    rows = commands.said("peek", "post").splitlines()
    assert rows[0].split()[:4] == ["PARTITION", "OFFSET", "STATE", "DELIVERIES"]
    assert rows[1].endswith("k    one")
    assert r"\x1b[31mred" in rows[3], "a body must not talk to the terminal"
    assert commands.document("peek", "post") == {
        "messages": commands.document("queue", "peek", "post")["messages"]
    }, "the long way says the same"
    found = commands.document("peek", "post", "--state", "delayed,in-flight")["messages"]
    assert [one["body"] for one in found] == ["later"]
    assert commands.document("peek", "post", "--state", "delayed,leased")["messages"] == found
    assert found[0]["headers"] == {"penstock-delay-ms": "3600000"}
    found = commands.document("peek", "post", "-n", "1", "--from", "1", "-p", "0")["messages"]
    assert [(one["body"], one["headers"]) for one in found] == [("two", {"a": "1"})]
    assert commands.talk("peek", "post", "--state", "dead") == "no messages\n"
    assert "must be some of ready" in commands.complaint(2, "peek", "post", "--state", "lost")
    assert "there is no topic" in commands.complaint(1, "peek", "nowhere")


def test_redrive(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.queue.moves.LOOK_SECONDS", 0)
    commands.said("queue", "create", "bills", "--deliveries-max", "1", "--dead-letter-topic", "no")
    commands.said("produce", "bills", "-q", stdin=b"a\nb\n")
    commands.said("consume", "bills", "--release")
    while len(commands.document("peek", "no")["messages"]) < 2:
        pass  # The broker moves them by itself.
    assert commands.said("redrive", "no", "--dry-run") == "2 messages would be moved\n"
    assert commands.document("redrive", "no", "--dry-run", "--body", "b") == {"matching": 1}
    assert commands.said("redrive", "no", "--body", "b").endswith(
        ": 1 message of no back to where they died, completed\n"
    )
    moved = commands.document("redrive", "no", "--no-wait")
    assert moved["to_move"] in (0, 1)
    while len(commands.document("peek", "bills")["messages"]) < 2:
        pass


def test_redrive_in_a_directory(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.queue.redrive.LOOK_SECONDS", 0)
    here = ("--url", "file:./notes")
    letters = "queue.dead.letter.topic=bin"
    commands.said("topic", "create", "bin", *here)
    commands.said("topic", "create", "notes", "--set", letters, "--set",
                  "queue.deliveries.max=1", *here)  # fmt: skip
    commands.said("produce", "notes", "-q", *here, stdin=b"a\nb\n")
    commands.said("consume", "notes", "--release", *here)
    while len(commands.document("peek", "bin", *here)["messages"]) < 2:
        pass  # The engine moves them by itself.
    assert commands.said("redrive", "bin", "--dry-run", *here) == "2 messages would be moved\n"
    told = commands.said("redrive", "bin", *here)
    assert told == "2 messages of bin back to where they died, completed\n"
    assert len(commands.document("peek", "notes", "--state", "ready", *here)["messages"]) == 2
    assert commands.document("redrive", "bin", "--dry-run", *here) == {"matching": 0}
    told = commands.complaint(2, "redrive", "bin", *here, "--reason", "x")
    assert "file:./notes is a directory" in told
