"""The charts of choice: every way through them ends, and `penstock plan --ask` asks them."""

import io
import itertools
from collections.abc import Iterator

import msgspec
import pytest

from penstock.cli.main import run
from penstock.cli.plan.choices import CHARTS, Chart, Choice, Question, choose, recommendation

Captured = pytest.CaptureFixture[str]

# (answers, the names that are recommended)
WAYS = [
    ("yy", ["a direct call, no broker"]),
    (
        "nyynyynnyyn",
        [
            "a queue, with workers",
            "at least once, with idempotent work",
            "a standard queue",
            "three nodes",
        ],
    ),
    (
        "nynnnnn",
        ["a queue", "at most once", "a standard queue", "no broker: memory in your program"],
    ),
    (
        "nynynyyyyyyy",
        [
            "a queue",
            "an effect exactly once",
            "a FIFO queue, with the customer as the message group",
            "the cloud's queue",
        ],
    ),
    (
        "nyyyynynnnyny",
        [
            "a queue, with Celery's canvas above it",
            "at least once, and a unique key in the database",
            "a standard queue",
            "one broker",
        ],
    ),
    (
        "nnynynn",
        [
            "a topic, with a consumer group for each program",
            "at most once",
            "no broker: a directory in your program",
        ],
    ),
]


def leaves(at: Question | Choice) -> Iterator[Choice]:
    if isinstance(at, Choice):
        yield at
    else:
        yield from leaves(at.yes)
        yield from leaves(at.no)


@pytest.mark.parametrize(("answers", "names"), WAYS, ids=[answers for answers, _ in WAYS])
def test_a_way_through_the_charts(answers: str, names: list[str]) -> None:
    given = iter(answers)
    found = choose(lambda _question: next(given) == "y")
    assert [one.choice.name for one in found] == names
    assert list(given) == [], "every answer was asked for"
    assert all(name in line for name, line in zip(names, recommendation(found), strict=False))


@pytest.mark.parametrize("chart", CHARTS, ids=lambda one: one.title)
def test_every_choice_says_how_it_is_had(chart: Chart) -> None:
    assert all(one.name and one.how for one in leaves(chart.start))


@pytest.mark.parametrize("bits", range(64))
def test_every_recommended_command_can_be_typed(bits: int) -> None:
    from penstock.cli.program import app

    answers = itertools.cycle([bool(bits >> place & 1) for place in range(6)])
    for one in choose(lambda _question: next(answers)):
        if one.choice.create:
            app.parse_args(one.choice.create.split()[1:], exit_on_error=False, print_error=False)


def test_asked_in_a_pipe(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nyes\nn\ny\nn\ny\nyes\nY\ny\nn\n"))
    assert run(["plan", "--ask", "--json"]) == 0
    printed, talk = capsys.readouterr()
    found = msgspec.json.decode(printed)
    assert [one["choice"]["guarantee"] for one in found["chosen"]] == ["", "exactly-once", "", ""]
    assert "Must messages be handled in order? [y/n] Y" in talk
    assert any("--order fifo" in line for line in found["recommendation"])


def test_the_answers_decide_what_is_computed(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nyes\nn\ny\nn\ny\nyes\nY\ny\nn\n"))
    assert run(["plan", "--ask", "--rate", "10", "--service-time", "1s"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "Recommendation" in page
    assert "A FIFO queue, exactly-once, " in page


@pytest.mark.parametrize(
    ("text", "arguments", "code", "sentence"),
    [
        ("n\nmaybe\n", ("--ask",), 1, '"maybe" is no answer to: Is each message'),
        ("n\n", ("--ask",), 1, "there is no answer to: Is each message for one worker"),
        ("", (), 2, "Give a load, --rate and --service-time; or --ask"),
        ("", ("--rate", "5"), 2, "--service-time requires an argument"),
    ],
)
def test_what_cannot_be_answered(
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    arguments: tuple[str, ...],
    code: int,
    sentence: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert run(["plan", *arguments]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert sentence in output.err.splitlines()[-1]
