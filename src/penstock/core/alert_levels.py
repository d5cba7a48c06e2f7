"""The three levels of an alert, and the numbers at which they begin, as people write them.

    1000,off,10000     attention above 1000, no warning, critical above 10000
    off                no alert at all
    default            whatever the broker's own settings say

The same three numbers are a setting of the broker (`alerts.depth`) and a config of a topic
(`alert.depth`), which is why they are read here.
"""

import re
from enum import Enum

import msgspec

DEFAULT = "default"
OFF = "off"
LEVELS_PATTERN = r"(?:off|[0-9]{1,12}(?:\.[0-9]{1,6})?)(?:,(?:off|[0-9]{1,12}(?:\.[0-9]{1,6})?)){2}"
"""Three numbers, each of which may be off."""

_LEVELS = re.compile(LEVELS_PATTERN)


class Level(Enum):
    """The severity of an alert, lowest first."""

    ATTENTION = "attention"
    """Look at it when there is time."""
    WARNING = "warning"
    """It will get worse unless an operator acts."""
    CRITICAL = "critical"
    """Messages are not processed, or soon will not be."""

    @property
    def rank(self) -> int:
        """The rank of the level; higher is worse."""
        return _RANKS[self]


_RANKS = {level: number for number, level in enumerate(Level)}


class Levels(msgspec.Struct, frozen=True):
    """The threshold of each level; None if it never alerts."""

    attention: float | None = None
    warning: float | None = None
    critical: float | None = None

    @property
    def is_off(self) -> bool:
        """True if no level ever alerts."""
        return self.attention is None and self.warning is None and self.critical is None

    def scaled(self, divisor: float) -> "Levels":
        """Return the levels in a larger unit: percent as shares."""
        parts = (self.attention, self.warning, self.critical)
        return Levels(*(None if part is None else part / divisor for part in parts))

    def items(self) -> tuple[tuple[Level, float], ...]:
        """The levels that are on, the worst first."""
        every = (
            (Level.CRITICAL, self.critical),
            (Level.WARNING, self.warning),
            (Level.ATTENTION, self.attention),
        )
        return tuple((level, at) for level, at in every if at is not None)


NO_LEVELS = Levels()


def parse_levels(text: str) -> Levels | None:
    """Parse a setting; None for `default`. Raise ValueError if it is malformed."""
    text = text.replace(" ", "")
    if text == DEFAULT:
        return None
    if text == OFF:
        return NO_LEVELS
    if not _LEVELS.fullmatch(text):
        raise ValueError("not three levels")
    return Levels(*(None if part == OFF else float(part) for part in text.split(",")))
