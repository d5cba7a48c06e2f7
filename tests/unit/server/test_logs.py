"""How log lines look."""

import io
import logging
from collections.abc import Iterator

import msgspec
import pytest

from penstock.server.config import Log
from penstock.server.logs import configure_logs, event_fields


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def lines(settings: Log, *, colour: bool = False) -> list[str]:
    stream = io.StringIO()
    configure_logs(settings, colour=colour, stream=stream)
    logger = logging.getLogger("penstock.server")
    logger.debug("seen %d", 1)
    logger.info("a line\nforged \x1b[31m")
    try:
        raise ValueError("boom")
    except ValueError:
        logger.exception("it failed")
    return stream.getvalue().splitlines()


def test_text() -> None:
    first, failed, *traceback = lines(Log())
    assert first[12:] == " info    server: a line\\nforged \\x1b[31m"
    assert failed[12:] == " error   server: it failed"
    assert traceback[-1] == "ValueError: boom"


def test_colour_is_for_trouble() -> None:
    first, failed, *_ = lines(Log(), colour=True)
    assert "\x1b" not in first
    assert failed.startswith("\x1b[31m")


def test_json() -> None:
    seen, first, failed = (msgspec.json.decode(line) for line in lines(
        Log(level="debug", format="json")
    ))  # fmt: skip
    assert seen["level"] == "debug"
    assert first["message"] == "a line\nforged \x1b[31m"
    assert first["logger"] == "server"
    assert first["time"].endswith("Z")
    assert "ValueError: boom" in failed["traceback"]


def test_the_level_counts() -> None:
    assert len(lines(Log(level="error", format="json"))) == 1


def test_what_a_line_is_given_by_name_stands_beside_it() -> None:
    stream = io.StringIO()
    configure_logs(Log(format="json"), colour=False, stream=stream)
    line = "shard 2 leads in term 7: node 1 was not heard any more; votes of 2 3, of 1 2 3"
    fields = {"node": 3, "what": object, "level": "forged", **event_fields(line)}
    logging.getLogger("penstock.server").info("node 3 %s", line, extra=fields)
    (written,) = (msgspec.json.decode(one) for one in stream.getvalue().splitlines())
    assert (written["node"], written["shard"], written["term"]) == (3, 2, 7)
    assert written["event"] == "leadership"
    assert written["level"] == "info", "a name of ours is not for others to give"
    assert written["what"] == "<class 'object'>"
    assert written["message"] == f"node 3 {line}"
