"""One line of a table of configs: its name, its allowed text and its meaning.

Configs are text, because users type them and Kafka's tools list them; the code that acts on them
wants numbers. A table (`core.topic_configs`, `core.group_configs`) has one line per config.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import IntEnum
from typing import ClassVar

import msgspec

from penstock.core.errors import InvalidConfig
from penstock.core.limits import TOPIC_CONFIG_CHARACTERS_MAX

ConfigValue = bool | int | float | str | tuple[str, ...]

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
DAY_MS = 24 * 60 * 60 * 1000
_SHOWN_CHARACTERS_MAX = 60
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{0,18})?|\.[0-9]{1,18}")


class ConfigKind(IntEnum):
    """The type of a config's value, numbered as in Kafka's DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table of configs."""

    subject: ClassVar[str] = "config"
    """The name of the kind of config in error messages."""

    name: str
    kind: ConfigKind
    default: str
    documentation: str
    acts: bool = True
    """False if the config has no effect in Penstock and is there for Kafka's sake only."""
    least: int = 0
    most: int = LONG_MAX
    choices: tuple[str, ...] = ()
    """The values of a STRING or a BOOLEAN, the elements of a LIST; a STRING with none is any text,
    a BOOLEAN either value."""
    pattern: str = ""
    """A STRING, or an element of a LIST, may be what this regular expression matches, too."""
    example: str = ""
    """An example of a text that the pattern matches."""
    characters_max: int = TOPIC_CONFIG_CHARACTERS_MAX
    catalog_version: int = 1
    """The catalog's version from which on all nodes know it."""
    empty_version: int = 0
    """The catalog's version from which on a LIST may be empty; 0: it may not."""

    def version_of(self, text: str | None) -> int:
        """The catalog's version that it takes to set this text; None: to take it back."""
        empties = self.kind is ConfigKind.LIST and text is not None and not text.strip()
        return max(self.catalog_version, self.empty_version) if empties else self.catalog_version

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        match self.kind:
            case ConfigKind.BOOLEAN:
                return " or ".join(self.choices or ("true", "false"))
            case ConfigKind.STRING if not self.choices:
                return f"a text of at most {self.characters_max} characters"
            case ConfigKind.STRING:
                like = f", or like {self.example}" if self.pattern else ""
                return f"one of {', '.join(self.choices)}{like}"
            case ConfigKind.LIST:
                named = [*self.choices, *([f"texts like {self.example}"] if self.pattern else [])]
                least = "any number" if self.empty_version else "one or more"
                return f"{least} of {', '.join(named)}, with commas between them"
            case ConfigKind.INT | ConfigKind.LONG:
                return f"an integer from {self.least} to {self.most}"
            case ConfigKind.DOUBLE:
                return f"a number from {self.least} to {self.most}"

    def parse(self, text: str) -> ConfigValue:
        """The value that the text stands for; `InvalidConfig` if it stands for none."""
        self.check_characters(text)
        value = self._read(text.strip())
        if value is None:
            raise self._wrong(text)
        return value

    def check_characters(self, text: str) -> None:
        """Raise `InvalidConfig` if the text, or a part of it, is too long to be looked at."""
        if len(text) > self.characters_max:
            raise self._wrong(text)

    def _wrong(self, text: str) -> InvalidConfig:
        return InvalidConfig(
            f"{self.subject} {self.name} cannot be {quoted(text)}: it is {self.allowed}"
        )

    def _read(self, text: str) -> ConfigValue | None:
        match self.kind:
            case ConfigKind.BOOLEAN:
                chosen = text.lower()
                if self.choices and chosen not in self.choices:
                    return None
                return {"true": True, "false": False}.get(chosen)
            case ConfigKind.STRING:
                if not self.choices or text in self.choices:
                    return text
                return text if self.pattern and re.fullmatch(self.pattern, text) else None
            case ConfigKind.LIST:
                if not text and self.empty_version:
                    return ()
                parts = tuple(part.strip() for part in text.split(","))
                return parts if all(map(self._is_element, parts)) else None
            case ConfigKind.INT | ConfigKind.LONG:
                return self._in_range(int(text)) if _INTEGER.fullmatch(text) else None
            case ConfigKind.DOUBLE:
                return self._in_range(float(text)) if _DECIMAL.fullmatch(text) else None

    def _is_element(self, part: str) -> bool:
        if part in self.choices:
            return True
        return bool(self.pattern and re.fullmatch(self.pattern, part))

    def _in_range(self, number: float) -> float | None:
        return number if self.least <= number <= self.most else None


class ConfigValues:
    """The parsed values of a set of configs."""

    __slots__ = ("_values",)

    def __init__(self, table: Mapping[str, Config], texts: Mapping[str, str]) -> None:
        self._values = {
            name: one.parse(texts.get(name, one.default)) for name, one in table.items()
        }

    def integer(self, name: str) -> int:
        """Return the value of an INT or LONG config."""
        value = self._values[name]
        assert type(value) is int, f"{name} is {value!r}, not an integer"
        return value

    def bounded(self, name: str) -> int | None:
        """An INT or a LONG in which a negative number means: no bound."""
        value = self.integer(name)
        return value if value >= 0 else None

    def decimal(self, name: str) -> float:
        """Return the value of a DOUBLE config."""
        value = self._values[name]
        assert type(value) is float, f"{name} is {value!r}, not a number"
        return value

    def boolean(self, name: str) -> bool:
        """The value of a config of type BOOLEAN."""
        value = self._values[name]
        assert type(value) is bool, f"{name} is {value!r}, neither true nor false"
        return value

    def text(self, name: str) -> str:
        """The value of a config of type STRING."""
        value = self._values[name]
        assert type(value) is str, f"{name} is {value!r}, not a text"
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the value of a LIST config."""
        value = self._values[name]
        assert type(value) is tuple, f"{name} is {value!r}, not a list"
        return value


def check_config_names(table: Mapping[str, Config], names: Iterable[str], subject: str) -> None:
    """Raise an error for a name that is not in the table."""
    for name in sorted(names):
        if name not in table:
            # Comparing costs time that grows with the length, and no name is long.
            acting = [known for known, config in table.items() if config.acts]
            asked = name[:_SHOWN_CHARACTERS_MAX]
            near = get_close_matches(asked, acting, 1) or get_close_matches(asked, table, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(table)}"
            raise InvalidConfig(f"there is no {subject} {quoted(name)}{hint}")


def quoted(text: str) -> str:
    """A value of a request, shortened for an error message."""
    if len(text) > _SHOWN_CHARACTERS_MAX:
        return f"{text[:_SHOWN_CHARACTERS_MAX]!r}… ({len(text)} characters)"
    return repr(text)
