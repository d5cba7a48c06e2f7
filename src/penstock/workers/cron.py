"""Cron expressions: the usual five fields, in any time zone.

    ┌───────────── minute        0–59
    │ ┌─────────── hour          0–23
    │ │ ┌───────── day of month  1–31, L: the last one
    │ │ │ ┌─────── month         1–12 or jan–dec
    │ │ │ │ ┌───── day of week   0–7 or sun–sat; 0 and 7 are Sunday
    */5 9-17 * * mon-fri

A field is `*`, numbers, ranges and lists of them, each with a step after a slash if wanted. If both
days are restricted, either is enough, as in every cron since the first. `@hourly`, `@daily`,
`@weekly`, `@monthly` and `@yearly` are short for the usual ones.

When clocks change. A time that names its hours is a time of the day and comes once a day: if the
clock skips it, it comes as much later as the clock was put forward; if the clock shows it twice, it
comes the first time. With `*` for the hour it is a rhythm: it follows the time that really passes,
so the skipped hour has no ticks and the repeated hour has them twice.
"""

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from penstock.core.errors import InvalidRequest

DAYS_AHEAD_MAX = 366 * 9
"""The 29th of February can be eight years away (1896 to 1904), and nothing is further."""

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = dict(zip(("sun", "mon", "tue", "wed", "thu", "fri", "sat"), range(7), strict=True))


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    words: dict[str, int]


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),
)


class Cron:
    """A cron expression in a time zone."""

    def __init__(self, expression: str, zone: str | tzinfo = UTC) -> None:
        self.expression = expression
        self.zone: tzinfo = ZoneInfo(zone) if isinstance(zone, str) else zone
        fields = _ALIASES.get(expression.strip().lower(), expression).split()
        if len(fields) != len(_FIELDS):
            raise InvalidRequest(
                f"{expression!r} has {len(fields)} fields, and a cron expression has five: minute,"
                " hour, day of month, month, day of week"
            )
        days = fields[2].upper().split(",")
        self._last_day = "L" in days
        fields[2] = ",".join(day for day in days if day != "L")
        sets = [
            _parse(field, text, expression) if text else frozenset[int]()
            for field, text in zip(_FIELDS, fields, strict=True)
        ]
        self._minutes, self._hours = sorted(sets[0]), sorted(sets[1])
        self._month_days, self._months = sets[2], sets[3]
        self._weekdays = frozenset(day % 7 for day in sets[4])
        self._either_day = not fields[2].startswith("*") and not fields[4].startswith("*")
        self._is_rhythm = fields[1].startswith("*")

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, {str(self.zone)!r})"

    def next_after(self, when: datetime) -> datetime:
        """The first tick after a time, in UTC."""
        assert when.tzinfo is not None, f"{when} belongs to no time zone"
        when = when.astimezone(UTC)
        # A clock that is put forward moves a tick by hours, into the next day at most.
        day = when.astimezone(self.zone).date() - timedelta(days=1)
        for _ in range(DAYS_AHEAD_MAX):
            if self._has(day):
                found = [tick for tick in self._ticks(day) if tick > when]
                if found:
                    return min(found)
            day += timedelta(days=1)
        raise InvalidRequest(f"{self.expression!r} names a day that never comes")

    def _has(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        last = day.day == calendar.monthrange(day.year, day.month)[1]
        by_date = day.day in self._month_days or (self._last_day and last)
        by_weekday = day.isoweekday() % 7 in self._weekdays
        return by_date or by_weekday if self._either_day else by_date and by_weekday

    def _ticks(self, day: date) -> Iterator[datetime]:
        """All ticks of a day of the zone, in UTC, in no particular order."""
        begins, ends = (
            datetime.combine(one, time(), self.zone).utcoffset()
            for one in (day, day + timedelta(days=1))
        )
        changes = begins != ends
        for hour in self._hours:
            for minute in self._minutes:
                local = datetime.combine(day, time(hour, minute), self.zone)
                tick = local.astimezone(UTC)
                if not changes:
                    yield tick
                    continue
                exists = tick.astimezone(self.zone).replace(tzinfo=None) == local.replace(
                    tzinfo=None
                )
                if exists or not self._is_rhythm:
                    yield tick
                if exists and self._is_rhythm:
                    yield local.replace(fold=1).astimezone(UTC)


def _parse(field: _Field, text: str, expression: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span == "*":
            low, high = field.least, field.most
        else:
            low = _number(field, first, expression)
            high = _number(field, last, expression) if dash else (field.most if step else low)
        every = _number(_Field(f"step of {field.name}", 1, field.most, {}), step or "1", expression)
        if low > high:
            raise InvalidRequest(
                f"the {field.name} of {expression!r} goes from {low} to {high}, which is backwards"
            )
        found.update(range(low, high + 1, every))
    return frozenset(found)


def _number(field: _Field, text: str, expression: str) -> int:
    number = field.words.get(text, int(text) if text.isascii() and text.isdigit() else -1)
    if not field.least <= number <= field.most:
        raise InvalidRequest(
            f"the {field.name} of {expression!r} cannot be {text!r}: it is {field.least} to"
            f" {field.most}"
        )
    return number
