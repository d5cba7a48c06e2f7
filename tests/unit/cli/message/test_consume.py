"""`penstock consume` against a real broker."""

import signal
import subprocess

import msgspec
import pytest

from tests.unit.cli.commands import PROGRAM, Commands, shell


@pytest.fixture(scope="module")
def numbers() -> set[str]:
    """Topics that are filled already."""
    return set()


@pytest.fixture
def filled(commands: Commands, numbers: set[str]) -> Commands:
    """Two partitions: 0 to 9 in the first, 10 to 14 in the second."""
    if "numbers" not in numbers:
        numbers.add("numbers")
        commands.said("topic", "create", "numbers", "-p", "2")
        first = b"".join(b"%d\n" % number for number in range(10))
        second = b"".join(b"%d\n" % number for number in range(10, 15))
        commands.said("produce", "numbers", "-q", "-p", "0", "-k", "even", stdin=first)
        commands.said("produce", "numbers", "-q", "-p", "1", "-H", "a=1", stdin=second)
    return commands


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ((), [*range(15)]),
        (("-o", "start"), [*range(15)]),
        (("-o", "end"), []),
        (("-o", "-2"), [8, 9, 13, 14]),
        (("-o", "+4"), [4, 5, 6, 7, 8, 9, 14]),
        (("-o", "8"), [8, 9]),
        (("-o", "3", "-p", "1"), [13, 14]),
        (("-o", "@-1h", "-p", "1"), [10, 11, 12, 13, 14]),
        (("-o", "@2100-01-01"), []),
        (("-n", "3"), [0, 1, 2]),
        (("-p", "1", "-n", "2"), [10, 11]),
        (("-p", "1", "-p", "0", "-o", "-1"), [9, 14]),
    ],
)
def test_places(filled: Commands, arguments: tuple[str, ...], printed: list[int]) -> None:
    told = filled.said("consume", "numbers", "--exit", *arguments)
    assert told == "".join(f"{number}\n" for number in printed)


def test_following(filled: Commands) -> None:
    assert filled.said("consume", "numbers", "-n", "1", "-p", "1", "-o", "-1") == "14\n"
    every = filled.said("consume", "numbers", "--follow", "-n", "15").split()
    assert sorted(map(int, every)) == [*range(15)]


def test_formats(filled: Commands) -> None:
    told = filled.said(
        "consume", "numbers", "-e", "-o", "-1", "-f", r"%t %p:%o [%k] %v %S (%h)\n"
    )  # fmt: skip
    assert told == "numbers 0:9 [even] 9 1 ()\nnumbers 1:4 [] 14 2 (a=1)\n"
    assert filled.said("consume", "numbers", "-e", "-o", "-1", "-f", "%v,") == "9,14,"
    printed = filled.said("consume", "numbers", "-e", "-o", "-1", "-p", "1", "--json")
    (line,) = printed.splitlines()
    found = msgspec.json.decode(line)
    assert (found["topic"], found["partition"], found["offset"]) == ("numbers", 1, 4)
    assert (found["key"], found["body"], found["headers"]) == (None, "14", {"a": "1"})


def test_leases(commands: Commands) -> None:
    commands.said("queue", "create", "jobs", "--deliveries-max", "9", "--retry", "none")
    commands.said("produce", "jobs", "-q", stdin=b"a\nb\nc\n")
    assert commands.said("consume", "jobs", "-e") == "a\nb\nc\n", "a log is only read"
    printed, talk = commands.told(0, "consume", "jobs", "-n", "1", "--lease", "1h")
    assert (printed, talk.split(";")[0]) == (
        "a\n",
        "1 message stays leased and comes back when that ends",
    )
    told = commands.said("consume", "jobs", "--release", "--json")
    rows = [msgspec.json.decode(line) for line in told.splitlines()]
    assert [(row["queue"], row["body"], row["deliveries"]) for row in rows] == [
        ("jobs", "b", 1),
        ("jobs", "c", 1),
    ]
    assert commands.said("consume", "jobs", "--ack", "-e", "-f", r"%v %d\n") == "b 2\nc 2\n"
    (counts,) = commands.document("queue", "describe", "jobs")["groups"]
    assert (counts["leased"], counts["ready"], counts["acked"]) == (1, 0, 2)
    second = commands.said("consume", "jobs", "--group", "other", "--ack", "-n", "1")
    assert second == "a\n"


def test_refusals(filled: Commands) -> None:
    assert "there is no topic" in filled.complaint(1, "consume", "nowhere")
    assert filled.document("topic", "list", "--prefix", "nowhere") == []
    told = filled.complaint(1, "consume", "numbers", "--ack")
    assert "numbers is a topic, not a queue" in told
    told = filled.complaint(1, "consume", "numbers", "-e", "-p", "2")
    assert "numbers has partitions 0 to 1, not 2" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "soon"), '--offset = "soon" must be start, end, -10'),
        (("-o", "@soon"), "or a time such as"),
        (("-f", "%z"), "%z is unknown"),
        (("-f", "%v", "--json"), "exclude each other"),
        (("-n", "0"), "--limit = 0 must be at least 1"),
        (("--ack", "--release"), "exclude each other"),
        (("--ack", "-p", "0"), "--partition cannot be combined with --group"),
        (("--group", "g", "-p", "0"), "--partition cannot be combined with --group"),
        (("--ack", "-o", "end"), "--offset is for topics"),
        (("--lease", "5"), "must be a duration"),
    ],
)
def test_typed_wrongly(commands: Commands, arguments: tuple[str, ...], words: str) -> None:
    assert words in commands.complaint(2, "consume", "x", *arguments)


@pytest.mark.slow
def test_a_reader_that_has_enough(commands: Commands) -> None:
    commands.said("topic", "create", "endless", "-p", "1")
    commands.said("produce", "endless", "-q", "--count", "200000", stdin=b"line\n")
    for follow in ("--follow", "--exit"):
        told = shell(f"set +o pipefail; penstock consume endless {follow} | head -1")
        assert (told.returncode, told.stdout, told.stderr) == (0, "line\n", "")


@pytest.mark.slow
def test_what_comes_is_printed_when_it_comes(commands: Commands) -> None:
    commands.said("topic", "create", "live", "-p", "1")
    commands.said("produce", "live", "-q", stdin=b"first\n")
    with subprocess.Popen(
        [PROGRAM, "consume", "live"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        for line in (b"first\n", b"second\n", b"third\n"):
            if line != b"first\n":
                commands.said("produce", "live", "-q", stdin=line)
            assert reader.stdout.readline() == line
        reader.send_signal(signal.SIGINT)
        assert reader.stdout.read() == b""
        assert reader.stderr.read() == b"penstock: interrupted\n"
    assert reader.returncode == 130
