"""What is typed by mistake, and what a command says to it."""

import re

from tests.unit.cli.commands import Commands


def test_a_queue_that_is_not_there(commands: Commands) -> None:
    for verb in (["send", "nosuch", "hi"], ["receive", "nosuch"], ["describe", "nosuch"]):
        told = commands.complaint(1, "queue", *verb)
        assert "there is no queue nosuch" in told
        assert "`penstock queue create nosuch`" in told
    assert "no topic or queue nosuch" in commands.complaint(1, "produce", "nosuch")


def test_a_redrive_out_of_a_live_queue_moves_nothing_and_says_where_to_look(
    commands: Commands,
) -> None:
    commands.said("queue", "create", "alive", "--dead-letter-topic", "alive-dlq")
    commands.said("queue", "send", "alive", "a", "b")
    counted, hint = commands.told(0, "redrive", "alive", "--dry-run")
    assert counted == "0 messages would be moved\n"
    assert "the dead letters of alive are in alive-dlq: penstock redrive alive-dlq" in hint
    assert commands.said("redrive", "alive", "--dry-run", "--to", "alive-dlq") == (
        "2 messages would be moved\n"
    )
    told, hint = commands.told(1, "redrive", "alive")
    assert "0 messages of alive back to where they died" in told
    assert "2 could not be moved and stay: they do not say where they died" in told
    assert "penstock redrive alive-dlq" in hint
    (row,) = commands.said("queue", "moves", "alive").splitlines()[1:]
    assert row.endswith("2 could not be moved and stay: they do not say where they died, or it is"
                        " gone; use --to")  # fmt: skip


def test_an_acknowledged_message_is_not_shown_as_leased(commands: Commands) -> None:
    commands.said("queue", "create", "quick")
    commands.said("queue", "send", "quick", "x", "y")
    heads, row = commands.said("queue", "receive", "quick", "--ack").splitlines()
    assert "STATE" not in heads
    assert "leased" not in row
    assert row.split()[-2:] == ["-", "x"]
    assert " leased " in commands.said("queue", "receive", "quick")


def test_one_thing_may_be_called_by_its_other_names(commands: Commands) -> None:
    settings = ("--retry", "fixed", "--dead-letter", "", "--deduplication", "id")
    commands.said("queue", "create", "named", "-p", "2", *settings)
    found = commands.document("queue", "describe", "named")["settings"]
    assert (found["retry_policy"], found["dead_letter_topic"]) == ("fixed", "")
    for flag in ("--dedup-id", "--deduplication-id"):
        commands.said("queue", "send", "named", "once", "-k", "a", flag, "7")
        commands.said("produce", "named", "-q", "-k", "a", flag, "7", stdin=b"once\n")
    (only,) = commands.document("queue", "peek", "named")["messages"]
    place = f"{only['partition']}:{only['offset']}"
    for peek in (("peek", "named"), ("queue", "peek", "named")):
        found = commands.document(*peek, "--from", place)["messages"]
        assert [one["body"] for one in found] == ["once"]
        assert commands.document(*peek, "-p", str(1 - only["partition"]))["messages"] == []
    assert commands.said("queue", "cancel", "named", place).startswith(f"message {place} of")
    parts = (str(only["partition"]), str(only["offset"]))
    assert "does not wait" in commands.complaint(1, "queue", "cancel", "named", *parts)
    assert "PARTITION:OFFSET" in commands.complaint(2, "queue", "cancel", "named", "17")
    assert "not in partition 1" in commands.complaint(
        2, "peek", "named", "--from", "0:1", "-p", "1"
    )
    commands.said("queue", "configure", "named", "--set", "lease=7s", "--set", "retry-delay=3s")
    commands.said("queue", "configure", "named", "--unset", "retry-delay")
    found = commands.document("queue", "describe", "named")["settings"]
    assert (found["lease_ms"], found["retry_delay_ms"]) == (7_000, 5_000)


def test_help_shows_one_name_for_one_thing(commands: Commands) -> None:
    shown = commands.said("queue", "create", "--help")
    assert "--retry-policy" in shown
    assert re.search(r"--retry\b(?!-)", shown) is None


def test_a_wait_may_be_longer_than_a_request(commands: Commands) -> None:
    commands.said("queue", "create", "slow")
    commands.said("queue", "send", "slow", "here")
    printed, talk = commands.told(0, "queue", "receive", "slow", "--wait", "30s", "--ack")
    assert "here" in printed
    assert talk == "1 message acked\n"


def test_when_a_delayed_message_is_due(commands: Commands) -> None:
    commands.said("queue", "create", "later")
    commands.said("queue", "send", "later", "x", "--delay", "2h")
    commands.said("queue", "send", "later", "y")
    first, second = commands.said("queue", "peek", "later").splitlines()[1:]
    assert re.search(r" delayed .* in 1h ", first)
    assert re.search(r" ready .* - ", second)


def test_the_name_of_a_fifo_queue_says_so(commands: Commands) -> None:
    commands.said("queue", "create", "pay.fifo")
    assert commands.document("queue", "describe", "pay.fifo")["kind"] == "fifo"
    commands.said("queue", "create", "odd.fifo", "--order", "standard")
    assert commands.document("queue", "describe", "odd.fifo")["kind"] == "standard"


def test_a_queue_that_is_there_already(commands: Commands) -> None:
    commands.said("queue", "create", "twice", "--lease", "1m")
    assert "exists" in commands.complaint(1, "queue", "create", "twice")
    again = ("queue", "create", "twice", "--exist-ok")
    assert commands.told(0, *again) == ("queue twice is there already\n", "")
    _, told = commands.told(0, *again, "--lease", "2m", "--ttl", "1h")
    assert "its lease is 1m, not 2m; `penstock queue configure` changes it" in told
    assert "its ttl is -, not 1h" in told
    assert commands.document(*again, "--lease", "2m")["differs"] == {"lease_ms": 120_000}
    assert commands.document("queue", "describe", "twice")["settings"]["lease_ms"] == 60_000


def test_a_priority_that_would_not_count(commands: Commands) -> None:
    commands.said("queue", "create", "flat")
    told = commands.complaint(1, "produce", "flat", "--priority", "5", stdin=b"x\n")
    assert "flat has no priorities" in told
    commands.said("queue", "configure", "flat", "--priority", "strict")
    assert "1 message, " in commands.talk("produce", "flat", "--priority", "5", stdin=b"x\n")


def test_what_is_asked_before_something_is_deleted(commands: Commands) -> None:
    commands.said("queue", "create", "kept")
    code, told = commands.typed("no\n", "queue", "delete", "kept")
    assert code == 1
    assert "This would delete queue kept and all its messages." in told
    assert "Deleting kept cannot be undone. Type kept to do it:" in told
    assert "kept stays" in told
