"""A section of the configuration: a class whose attributes are settings, and do not change.

A dataclass would be much the same. But Python writes and compiles the methods of each of those anew
whenever it is imported, and ten of them took a broker longer to make than its log took to open.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Never

import msgspec

from penstock.server.notation import Notation


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The description of one attribute of a section."""

    key: str
    default: object
    notation: Notation[Any]
    meaning: str


class Section:
    """The values of the settings that a subclass lists; the others have their defaults."""

    settings: ClassVar[Mapping[str, Setting]] = {}
    """The settings by attribute, in order."""

    def __init_subclass__(cls) -> None:
        cls.settings = {
            name: entry for name, entry in vars(cls).items() if isinstance(entry, Setting)
        }

    def __init__(self, **values: object) -> None:
        unknown = values.keys() - self.settings.keys()
        assert not unknown, f"{type(self).__name__} has no {', '.join(sorted(unknown))}"
        for name, entry in self.settings.items():
            vars(self)[name] = values.get(name, entry.default)

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"{name} = {value!r}: a configuration does not change")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"{name} stays: a configuration does not change")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"
