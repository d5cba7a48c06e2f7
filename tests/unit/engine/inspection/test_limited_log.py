"""The rate-limited log: ten lines a second, cut, on one line each, and a count of the others."""

import logging

import pytest

from penstock.engine.inspection.limited_log import (
    LINE_CHARACTERS_MAX,
    LINES_PER_SECOND_MAX,
    TRACEBACK_MS,
    LimitedLog,
    LimitedRecords,
)
from penstock.testing import ManualClock

LOG = logging.getLogger("penstock.test")


def test_ten_lines_a_second_are_written_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    log = LimitedLog(LOG, clock, "clients")
    for number in range(LINES_PER_SECOND_MAX + 7):
        log.note(f"line {number}")
    log.flush()
    assert [one.getMessage() for one in caplog.records] == [
        f"line {number}" for number in range(LINES_PER_SECOND_MAX)
    ]
    clock.advance(1_000)
    log.flush()
    log.flush()
    assert caplog.records[-1].getMessage() == "7 more lines about clients were left out"
    assert len(caplog.records) == LINES_PER_SECOND_MAX + 1
    log.note("again")
    assert caplog.records[-1].getMessage() == "again"


def test_a_line_is_cut_and_stays_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = LimitedLog(LOG, ManualClock(), "clients")
    log.note("a\nERROR forged\x1b[2J")
    log.note("x" * 10_000)
    log.note("y" * LINE_CHARACTERS_MAX)
    texts = [one.getMessage() for one in caplog.records]
    assert texts[0] == "a?ERROR forged?[2J"
    assert texts[1] == "x" * (LINE_CHARACTERS_MAX - 1) + "…"
    assert texts[2] == "y" * LINE_CHARACTERS_MAX


def test_a_traceback_comes_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = LimitedLog(LOG, clock, "clients")
    error = ValueError("a bug")
    for _ in range(3):
        log.failure("Fetch failed", error)
    clock.advance(TRACEBACK_MS)
    log.failure("Fetch failed", error)
    assert [one.exc_info is not None for one in caplog.records] == [True, False, False, True]
    assert caplog.records[1].getMessage() == "Fetch failed: ValueError: a bug"


def test_lines_of_a_library_have_the_same_limits() -> None:
    written: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(record)

    clock = ManualClock()
    names = ("penstock", "library.http", "other")
    own, library, other = (logging.Logger(name) for name in names)  # noqa: LOG001
    handler = Kept()
    handler.addFilter(LimitedRecords(LimitedLog(own, clock, "HTTP clients"), ("library",)))
    for one in (own, library, other):
        one.addHandler(handler)
    for number in range(100):
        try:
            raise ValueError("a bug\nof theirs")
        except ValueError:
            library.exception("request %d failed", number)
        library.info("said")
        other.warning("x" * 1_000)
    ours = [one for one in written if one.name == "library.http" and one.levelno > logging.INFO]
    assert len(ours) == LINES_PER_SECOND_MAX
    assert [one.exc_info is not None for one in ours] == [True] + 9 * [False]
    assert ours[1].getMessage() == "request 1 failed: ValueError: a bug?of theirs"
    assert len([one for one in written if one.name == "other"]) == 100
    clock.advance(1_000)
    library.warning("again")
    assert [one.getMessage() for one in written[-2:]] == [
        "90 more lines about HTTP clients were left out",
        "again",
    ]
