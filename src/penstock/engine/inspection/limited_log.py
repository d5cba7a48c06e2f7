"""A rate-limited log: lines about what clients do wrong, which must not be theirs to fill a disk
with.

A line is cut at 300 characters, and control characters in it are replaced: clients choose names,
and what they choose must not look like lines of the log. Of the lines of one second only the first
ten are written; the others are counted, and the count is written with the next line, or by `flush`.
"""

import logging
from typing import Final

from penstock.core.clock import Clock

LINES_PER_SECOND_MAX: Final = 10
LINE_CHARACTERS_MAX: Final = 300
TRACEBACK_MS: Final = 10_000
"""A failure of our own is written with its traceback once in this time; the others get a line."""


class LimitedLog:
    """A rate-limited log of one port; `what` is its subject, as in "Kafka clients"."""

    def __init__(self, log: logging.Logger, clock: Clock, what: str) -> None:
        self._log = log
        self._clock = clock
        self._what = what
        self._second = -1
        self._lines = 0
        self._traceback_ms: int | None = None

    def note(self, text: str) -> None:
        """Log a line about a client, unless there were too many in this second."""
        if self.may_write():
            self._log.warning("%s", one_line(text))

    def failure(self, text: str, error: BaseException) -> None:
        """A failure of our own, which a client may be able to repeat at will."""
        if not self.may_write():
            return
        if self.may_trace():
            self._log.error("%s", one_line(text), exc_info=error)
        else:
            self._log.error("%s", one_line(f"{text}: {type(error).__name__}: {error}"))

    def flush(self) -> None:
        """Called every now and then: say how many lines were left out, if a second is over."""
        second = self._clock.monotonic_ms() // 1_000
        if second != self._second:
            unsaid = self._lines - LINES_PER_SECOND_MAX
            self._second, self._lines = second, 0
            if unsaid > 0:
                self._log.warning("%d more lines about %s were left out", unsaid, self._what)

    def may_write(self) -> bool:
        """True if one more line may be written now; it is counted."""
        self.flush()
        self._lines += 1
        return self._lines <= LINES_PER_SECOND_MAX

    def may_trace(self) -> bool:
        """True if a failure may be written with its traceback."""
        now_ms = self._clock.monotonic_ms()
        if self._traceback_ms is not None and now_ms - self._traceback_ms < TRACEBACK_MS:
            return False
        self._traceback_ms = now_ms
        return True


class LimitedRecords(logging.Filter):
    """A filter that applies the same limits to the loggers of libraries whose names begin with one
    of `names`."""

    def __init__(self, limit: LimitedLog, names: tuple[str, ...]) -> None:
        super().__init__()
        self._limit = limit
        self._names = names

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written; it is made one line, but for a traceback now and then."""
        if record.levelno < logging.WARNING or not record.name.startswith(self._names):
            return True
        if not self._limit.may_write():
            return False
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None and not self._limit.may_trace():
            error = record.exc_info[1]
            text = f"{text.rstrip()}: {type(error).__name__}: {error}"
            record.exc_info, record.exc_text = None, None
        record.msg, record.args = one_line(text), None
        return True


def one_line(text: str) -> str:
    """Untrusted text as it may stand in a log."""
    plain = "".join(
        letter if letter.isprintable() else "?" for letter in text[: LINE_CHARACTERS_MAX + 1]
    )
    return plain if len(plain) <= LINE_CHARACTERS_MAX else plain[: LINE_CHARACTERS_MAX - 1] + "…"
