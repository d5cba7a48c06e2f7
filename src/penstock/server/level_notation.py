"""The notation of the three levels of an alert: `10000,50000,off`, `1%,5%,off`, `off,1m,5m`; and of
an address that may contain a secret and is not shown in full."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.core.alert_levels import NO_LEVELS, OFF, Levels
from penstock.core.durations import format_duration_ms, read_duration_ms
from penstock.server.notation import Notation

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_NUMBER = re.compile(r"[0-9]{1,12}")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")


def _parse(value: object, read: Callable[[str], float]) -> Levels:
    if isinstance(value, list):
        value = ",".join(str(part) for part in value)
    if not isinstance(value, str):
        raise ValueError("no levels")
    text = value.replace(" ", "")
    if text == OFF:
        return NO_LEVELS
    parts = text.split(",")
    if len(parts) != 3:
        raise ValueError("not three levels")
    return Levels(*(None if part == OFF else read(part) for part in parts))


def _format(levels: Levels, write: Callable[[float], str]) -> str:
    if levels.is_off:
        return OFF
    parts = (levels.attention, levels.warning, levels.critical)
    return ",".join(OFF if at is None else write(at) for at in parts)


def _read_count(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("no number")
    return int(text)


def _read_percent(text: str) -> float:
    found = _PERCENT.fullmatch(text)
    if found is None or float(found[1]) > 100:
        raise ValueError("no percentage")
    return float(found[1]) / 100


def _notation(
    example: str, read: Callable[[str], float], write: Callable[[float], str]
) -> Notation[Levels]:
    return Notation(
        allowed=f'attention,warning,critical, each of which may be off, such as "{example}"',
        placeholder="A,W,C",
        parse=lambda value: _parse(value, read),
        format=lambda levels: _format(levels, write),
    )


COUNTS = _notation("1000,off,10000", _read_count, lambda at: f"{at:.0f}")
SHARES = _notation("1%,5%,off", _read_percent, lambda at: f"{round(100 * at, 6):.10g}%")
DURATIONS = _notation("off,1m,5m", read_duration_ms, lambda at: format_duration_ms(int(at)))


def _split(url: str) -> "SplitResult":
    from urllib.parse import urlsplit  # noqa: PLC0415 - most brokers have no webhook

    return urlsplit(url)


def _parse_secret_url(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no address")
    place = _split(value.strip())
    if place.scheme not in ("http", "https") or not place.hostname or place.port == 0:
        raise ValueError("no address")
    return value.strip()


def _shown(url: str) -> str:
    place = _split(url)
    return f"{place.scheme}://{place.hostname}/…"


SECRET_URL: Notation[str] = Notation(
    allowed=(
        'an address such as "https://host/path", or "@FILE", a file that holds it; only its host'
        " is ever shown"
    ),
    placeholder="URL",
    parse=_parse_secret_url,
    format=_shown,
    secret=True,
)
