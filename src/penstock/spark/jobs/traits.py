"""Traits of a message, and which of them the dead have more often than the living.

A trait is a short text about a key or a value: its prefix, its shape, what a field says. Each trait
is counted among the dead and among the living, and compared:

    lift = (share of the dead that have it) / (share of the living that have it)

A lift of 1 says nothing; of 8, that the trait is eight times as frequent among the dead. Half a
message is added to both counts of the living, so that a trait no living message has, which is the
most telling of all, gets a large lift and not an infinite one. Traits are sorted by how surprising
their counts are (the log-likelihood ratio of Dunning 1993), since a lift of 50 may be one message.

Traits with the same counts say the same and are reported once.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

TEXT_CHARACTERS_MAX: Final = 40
FIELDS_MAX: Final = 20
PARSED_BYTES_MAX: Final = 65_536
SURPRISE_MIN: Final = 10.83
"""The value that chance exceeds once in a thousand times (chi-squared with one degree of
freedom)."""
_SEPARATORS: Final = "-:_/.#|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A trait that the dead have more often than the living."""

    trait: str
    dead: int
    living: int
    dead_share: float
    living_share: float
    lift: float
    surprise: float
    """The log-likelihood ratio; chance reaches 10.8 once in a thousand times."""


def traits_of(key: bytes | None, value: bytes | None) -> list[str]:
    """All traits of a message, each once."""
    found: dict[str, None] = {}
    if key is None:
        found["no key"] = None
    elif (text := _text(key)) is not None:
        found[f"key = {text}"] = None
        if prefix := _prefix(text):
            found[f"key begins with {prefix}"] = None
    else:
        found["key is long or no text"] = None
    for trait in _value_traits(value):
        found[trait] = None
    return list(found)


def compare(
    counts: Iterable[tuple[str, int, int]],
    *,
    dead: int,
    living: int,
    dead_min: int = 5,
    lift_min: float = 2.0,
    patterns_max: int = 10,
) -> list[Pattern]:
    """The telling ones among (trait, how many of the dead, how many of the living have it)."""
    found = []
    for trait, among_dead, among_living in counts:
        if among_dead < dead_min or not dead:
            continue
        dead_share = among_dead / dead
        living_share = among_living / living if living else 0.0
        lift = dead_share / ((among_living + 0.5) / (living + 1))
        surprise = _surprise(among_dead, dead, among_living, living)
        if lift < lift_min or surprise < SURPRISE_MIN:
            continue
        found.append(
            Pattern(
                trait=trait,
                dead=among_dead,
                living=among_living,
                dead_share=dead_share,
                living_share=living_share,
                lift=lift,
                surprise=surprise,
            )
        )
    # Of several with the same counts the shortest says it best.
    found.sort(key=lambda one: (-one.surprise, len(one.trait), one.trait))
    told: dict[tuple[int, int], Pattern] = {}
    for one in found:
        told.setdefault((one.dead, one.living), one)
    return list(told.values())[:patterns_max]


def _value_traits(value: bytes | None) -> Sequence[str]:
    if not value:
        return ["no value"]
    size = f"value of about 2^{len(value).bit_length() - 1} bytes"
    if len(value) > PARSED_BYTES_MAX:
        return [size]
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return [size, "value is no JSON" if _is_text(value) else "value is no text"]
    if not isinstance(parsed, dict):
        return [size, f"value is JSON: {_kind(parsed)}"]
    fields = sorted(parsed.items())[:FIELDS_MAX]
    shape = ", ".join(f"{name}: {_kind(one)}" for name, one in fields)
    found = [size, f"fields {{{shape}}}"]
    for name, one in fields:
        found += _field_traits(name, one)
    return found


def _field_traits(name: str, value: object) -> list[str]:
    if value is None or isinstance(value, bool):
        return [f"{name} is {json.dumps(value)}"]
    if isinstance(value, int | float):
        if math.isnan(value):
            return [f"{name} is no number"]
        where = "below " if value < 0 else "above " if value > 0 else ""
        return [f"{name} is {where}0"]
    if isinstance(value, str):
        if not value:
            return [f"{name} is empty"]
        found = [f"{name} = {value}"] if len(value) <= TEXT_CHARACTERS_MAX else []
        if prefix := _prefix(value):
            found.append(f"{name} begins with {prefix}")
        return found
    return []


def _surprise(among_dead: int, dead: int, among_living: int, living: int) -> float:
    """Dunning's log-likelihood ratio of a two-by-two table."""
    table = (
        (among_dead, dead - among_dead),
        (among_living, max(0, living - among_living)),
    )
    rows = [sum(row) for row in table]
    columns = [table[0][at] + table[1][at] for at in (0, 1)]
    whole = sum(rows)
    total = 0.0
    for row in (0, 1):
        for column in (0, 1):
            seen = table[row][column]
            if seen:
                total += seen * math.log(seen * whole / (rows[row] * columns[column]))
    return 2 * total


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list) else "object"


def _text(data: bytes) -> str | None:
    if len(data) > TEXT_CHARACTERS_MAX:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _prefix(text: str) -> str:
    """The part of a text up to its first separator, inclusive."""
    places = [at for one in _SEPARATORS if 0 < (at := text.find(one)) < TEXT_CHARACTERS_MAX]
    return text[: min(places) + 1] if places else ""
