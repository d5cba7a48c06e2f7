"""Tables: as they are in a pipe, fitted and coloured on a terminal."""

import io

import pytest

from penstock.cli.table import print_table, table_lines
from penstock.core.plurals import counted

HEADS = ("QUEUE", "KIND", "READY", "WHAT")
ROWS = [("orders", "standard", 7, "a text that takes some room"), ("a", "fifo", 1_200, "-")]


def test_in_a_pipe_nothing_is_cut() -> None:
    assert table_lines(HEADS, ROWS, spare=("KIND",)) == [
        "QUEUE   KIND      READY  WHAT",
        "orders  standard      7  a text that takes some room",
        "a       fifo       1200  -",
    ]


@pytest.mark.parametrize("columns", range(24, 60))
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    lines = table_lines(HEADS, ROWS, columns=columns, spare=("KIND",))
    assert max(map(len, lines)) <= columns
    assert "1200" in lines[2]


def test_what_can_be_spared_goes_first_and_then_the_widest_text_is_cut() -> None:
    assert "standard" in table_lines(HEADS, ROWS, columns=52, spare=("KIND",))[1]
    assert table_lines(HEADS, ROWS, columns=50, spare=("KIND",))[1].endswith("some room")
    assert table_lines(HEADS, ROWS, columns=30, spare=("KIND",)) == [
        "QUEUE   READY  WHAT",
        "orders      7  a text that ta…",
        "a        1200  -",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for environment, coloured in (("", True), ("1", False)):
        monkeypatch.setenv("NO_COLOR", environment)
        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        print_table(HEADS, ROWS, tones=["critical", ""])
        first, second, third = terminal.getvalue().splitlines()
        assert second.startswith("\x1b[31morders") is coloured
        assert "\x1b" not in first + third
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stdout", pipe)
    print_table(HEADS, ROWS, tones=["critical", ""])
    assert "\x1b" not in pipe.getvalue()


def test_one_is_not_many() -> None:
    assert [counted(number, "message") for number in (0, 1, 2_000)] == [
        "0 messages", "1 message", "2,000 messages",
    ]  # fmt: skip
