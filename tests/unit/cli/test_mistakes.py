"""A command line that is typed wrongly: what was perhaps meant, and whose help to read."""

import pytest

from penstock.cli.main import run


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("quee list", 'command "quee". Did you mean: penstock queue? See: penstock --help'),
        ("queues", "Did you mean: penstock queue? See: penstock --help"),
        ("list", "penstock queue list or penstock topic list?"),
        ("queue lst", "Did you mean: penstock queue list? See: penstock queue --help"),
        ("zzz", 'Unknown command "zzz". See: penstock --help'),
        ("queue list --foo", "Unknown option: --foo. See: penstock queue list --help"),
        ("alert test --foo", "See: penstock alert test --help"),
        ("alert list --foo", "See: penstock alert list --help"),
        ("context list --foo", "See: penstock context list --help"),
        ("group list --foo", "See: penstock group list --help"),
        ("topic list --foo", "See: penstock topic list --help"),
        ("version --foo", "See: penstock version --help"),
        ("version surplus", 'Unexpected argument: "surplus". See: penstock version --help'),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], typed: str, said: str) -> None:
    assert run(typed.split()) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
