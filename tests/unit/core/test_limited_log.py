"""The rate-limited log: ten lines a second, cut, on one line each, and a count of the others."""

import logging

import pytest

from penstock.core.limited_log import (
    LINE_CHARACTERS_MAX,
    LINES_PER_SECOND_MAX,
    TRACEBACK_MS,
    LimitedLog,
)
from penstock.testing import ManualClock

LOG = logging.getLogger("penstock.test")


def test_ten_lines_a_second_are_written_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    log = LimitedLog(LOG, clock, "clients")
    for number in range(LINES_PER_SECOND_MAX + 7):
        log.warn(f"line {number}")
    log.flush()
    assert [one.getMessage() for one in caplog.records] == [
        f"line {number}" for number in range(LINES_PER_SECOND_MAX)
    ]
    clock.advance(1_000)
    log.flush()
    log.flush()
    assert caplog.records[-1].getMessage() == "7 more lines about clients were left out"
    assert len(caplog.records) == LINES_PER_SECOND_MAX + 1
    log.warn("again")
    assert caplog.records[-1].getMessage() == "again"


def test_a_line_is_cut_and_stays_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = LimitedLog(LOG, ManualClock(), "clients")
    log.warn("a\nERROR forged\x1b[2J")
    log.warn("x" * 10_000)
    log.warn("y" * LINE_CHARACTERS_MAX)
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
