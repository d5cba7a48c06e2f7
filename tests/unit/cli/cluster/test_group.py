"""`penstock group …` against a real broker."""

import subprocess

import pytest

from tests.unit.cli.commands import PROGRAM, Commands


def read_some(commands: Commands, group: str, topic: str) -> None:
    """A topic with six messages in two partitions, of which a group has read four."""
    commands.said("topic", "create", topic, "-p", "2")
    commands.said("produce", topic, "-q", "-p", "0", stdin=b"a\nb\nc\n")
    commands.said("consume", topic, "--group", group, "--exit")
    commands.said("produce", topic, "-q", "-p", "1", stdin=b"d\ne\nf\n")
    commands.said("consume", topic, "--group", group, "-n", "1")


def test_lag(commands: Commands) -> None:
    read_some(commands, "slow", "tide")
    (row,) = commands.document("group", "list", "--prefix", "slow")
    assert (row["name"], row["state"]) == ("slow", "Empty")
    assert commands.said("group", "list", "--prefix", "slow").splitlines()[1].startswith("slow")
    assert commands.said("group", "describe", "slow").splitlines() == [
        "group slow: Empty, 2 messages behind",
        "",
        "it has no members now",
        "",
        "TOPIC  PARTITION  COMMITTED  END  LAG",
        "tide           0          3    3    0",
        "tide           1          1    3    2",
    ]
    described = commands.document("group", "describe", "slow")
    assert (described["lag"], described["partitions"][1]["lag"]) == (2, 2)
    assert commands.said("consume", "tide", "--group", "slow", "--exit") == "e\nf\n"


def test_reset(commands: Commands) -> None:
    read_some(commands, "again", "ebb")
    told = commands.said("group", "reset", "again", "--to", "earliest", "--dry-run")
    assert told.splitlines() == [
        "TOPIC  PARTITION  WAS AT  GOES ON AT",
        "ebb            0       3           0",
        "ebb            1       1           0",
    ]
    assert "add --yes" in commands.told(1, "group", "reset", "again", "--to", "earliest")[1]
    code, talk = commands.typed("agian\n", "group", "reset", "again", "--to", "earliest")
    assert (code, "the name does not match" in talk) == (1, True)
    assert commands.document("group", "describe", "again")["lag"] == 2
    code, talk = commands.typed("again\n", "group", "reset", "again", "--to", "earliest")
    assert (code, "the offsets of group again are reset" in talk) == (0, True)
    assert commands.document("group", "describe", "again")["lag"] == 6


@pytest.mark.parametrize(
    ("place", "lag"),
    [("latest", 0), ("2", 2), ("-1", 2), ("+1", 4), ("@-1h", 6), ("@2100-01-01", 0), ("end", 0)],
)
def test_places(commands: Commands, place: str, lag: int) -> None:
    name = f"to-{place.strip('@+-')}-{lag}"
    read_some(commands, name, name)
    changed = commands.document("group", "reset", name, "--to", place, "--yes", "--topic", name)
    assert changed["dry_run"] is False
    assert len(changed["changes"]) == 2
    assert commands.document("group", "describe", name)["lag"] == lag


def test_a_group_that_begins_with_a_reset(commands: Commands) -> None:
    commands.said("topic", "create", "flood", "-p", "1")
    commands.said("produce", "flood", "-q", stdin=b"a\nb\n")
    commands.said("group", "reset", "early", "--to", "1", "--topic", "flood", "--yes")
    assert commands.said("consume", "flood", "--group", "early", "--exit") == "b\n"
    assert "name the topics" in commands.complaint(
        1, "group", "reset", "no", "--to", "end", "--yes"
    )


def test_the_end_of_a_group(commands: Commands) -> None:
    read_some(commands, "gone", "sand")
    assert "add --yes" in commands.complaint(1, "group", "delete", "gone")
    assert commands.said("group", "delete", "gone", "--yes") == "group gone is deleted\n"
    assert (
        commands.complaint(1, "group", "describe", "gone") == "penstock: there is no group gone\n"
    )
    assert "there are no groups" in commands.talk("group", "list", "--prefix", "gone")


def test_typed_wrongly(commands: Commands) -> None:
    assert "must be start, end" in commands.complaint(2, "group", "reset", "x", "--to", "soon")
    assert "requires an argument" in commands.complaint(2, "group", "reset", "x")


@pytest.mark.slow
def test_members(commands: Commands) -> None:
    commands.said("topic", "create", "watch", "-p", "1")
    commands.said("produce", "watch", "-q", stdin=b"first\n")
    with subprocess.Popen(
        [PROGRAM, "consume", "watch", "--group", "watchers"], stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"first\n"
        told = commands.said("group", "describe", "watchers")
        assert told.startswith("group watchers: Stable, shared by ")
        assert "MEMBER" in told
        assert "watch:0" in told
        (joined,) = commands.document("group", "describe", "watchers")["members"]
        assert joined["assigned"] == [{"topic": "watch", "partition": 0}]
        complaint = commands.complaint(1, "group", "reset", "watchers", "--to", "end", "--yes")
        assert "has members: stop them" in complaint
        commands.said("produce", "watch", "-q", stdin=b"second\n")
        assert reader.stdout.readline() == b"second\n"
        reader.terminate()
    assert reader.returncode != 0
