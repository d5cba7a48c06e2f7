"""The format of log lines: text for people, or JSON for programs.

Library code only asks `logging.getLogger(__name__)` and never configures anything; the two commands
that run a broker call `configure_logs` once. Lines go to stderr, because stdout is for what was
asked for.

    text    14:03:07.214 info    server: ready kafka=127.0.0.1:9092 …
    json    {"time":"2026-01-31T14:03:07.214Z","level":"info","logger":"server","message":"ready …"}

A line is a sentence, and its parts may be given by name as well (`extra`). In JSON
those stand beside the message, to be searched for and counted; the text says them in the sentence.

A line break inside a message is escaped in both, so that no client can forge a line by sending one.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from penstock.core.clock import SystemClock
from penstock.engine.inspection.events import kind_of
from penstock.engine.inspection.limited_log import LimitedLog, LimitedRecords
from penstock.server.config import Log

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
HTTP_LOGGERS = ("asyncio", "penstock.sqs", "penstock.web", "uvicorn")
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31;1m"}
_PLAIN = "\x1b[0m"
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {10: "\\n", 13: "\\r", 9: " "}

_FACTS = {name: re.compile(rf"\b{name} (\d+)\b") for name in ("shard", "term")}
_STANDARD = {*vars(logging.makeLogRecord({})), "asctime", "color_message", "message", "taskName"}
"""The attributes of every record; all others are named parts of the line."""


class TextFormatter(logging.Formatter):
    """Formats a record as one line of text; a traceback, which is a bug, follows on lines of its
    own."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        moment = datetime.fromtimestamp(record.created).astimezone()
        message = record.getMessage().translate(_CONTROL)
        line = (
            f"{moment:%H:%M:%S}.{moment.microsecond // 1_000:03} {level:<7} "
            f"{_short(record.name)}: {message}"
        )
        if self._colour and level in _COLOURS:
            line = f"{_COLOURS[level]}{line}{_PLAIN}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON document on a line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        document: dict[str, object] = {
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z",
            "level": record.levelname.lower(),
            "logger": _short(record.name),
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in document:
                document[name] = value
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(document, enc_hook=str).decode()


def event_fields(line: str) -> dict[str, object]:
    """The facts in a line of the engine, by name: its kind, and the shard and term it mentions."""
    found: dict[str, object] = {"event": kind_of(line)}
    for name, pattern in _FACTS.items():
        fact = pattern.search(line)
        if fact is not None:
            found[name] = int(fact.group(1))
    return found


def _short(name: str) -> str:
    return name.removeprefix("penstock.")


def configure_logs(settings: Log, *, colour: bool, stream: TextIO | None = None) -> None:
    """Send the lines of all loggers to one stream in one format, replacing earlier handlers."""
    channel = logging.StreamHandler(sys.stderr if stream is None else stream)
    channel.setFormatter(
        JsonFormatter() if settings.format == "json" else TextFormatter(colour=colour)
    )
    # Lines that clients can cause there have no other limit.
    limit = LimitedLog(logging.getLogger("penstock.http"), SystemClock(), "HTTP clients")
    channel.addFilter(LimitedRecords(limit, HTTP_LOGGERS))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(channel)
    root.setLevel(_LEVELS[settings.level])
    # What they say below these levels is about themselves, or about clients that send rubbish.
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
