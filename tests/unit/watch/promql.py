"""A small part of Prometheus' language, enough to try our own rules on numbers that a test gives.

A vector is a value for each set of labels. Operators match equal sets of labels, a comparison keeps
what it holds for, and `and` keeps the left where there is a right: as Prometheus has it. Time is
not played: what `rate` comes to now, and what it was over the last hour, is given.
"""

import operator
import re
from collections.abc import Callable, Mapping

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<word>[A-Za-z_]\w*)"
    r'|(?P<text>"[^"]*")|(?P<sign>==|[^\s\w]))'
)
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else float("nan"),
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
}
_SUMS: Mapping[str, Callable[[list[float]], float]] = {"sum": sum, "min": min, "max": max}


class World:
    """Series by name; a rate is named `rate NAME`, what it usually is `usual NAME`."""

    def __init__(self) -> None:
        self._series: dict[str, Vector] = {}

    def put(self, name: str, value: float, **labels: str) -> None:
        self._series.setdefault(name, {})[frozenset(labels.items())] = value

    def select(self, name: str, wanted: Mapping[str, str]) -> Vector:
        found = self._series.get(name, {})
        return {
            labels: value
            for labels, value in found.items()
            if all((key, text) in labels for key, text in wanted.items())
        }


def evaluate(text: str, world: World) -> Value:
    """What an expression comes to."""
    reader = _Reader(text, world)
    value = reader.whole()
    assert reader.is_done, f"{text}: what is {reader.rest}?"
    return value


class _Reader:
    def __init__(self, text: str, world: World) -> None:
        self._tokens = [found[found.lastgroup or 0] for found in _TOKEN.finditer(text)]
        self._at = 0
        self._world = world
        self._kind = "now"

    @property
    def is_done(self) -> bool:
        return self._at == len(self._tokens)

    @property
    def rest(self) -> list[str]:
        return self._tokens[self._at :]

    def _peek(self) -> str:
        return "" if self.is_done else self._tokens[self._at]

    def _take(self, wanted: str = "") -> str:
        token = self._peek()
        assert token, f"{wanted or 'more'} was expected"
        assert wanted in ("", token), f"{wanted} instead of {self.rest}"
        self._at += 1
        return token

    def whole(self) -> Value:
        left = self._compared()
        while self._peek() == "and":
            self._take()
            right = self._compared()
            assert isinstance(left, dict), "and is for vectors"
            assert isinstance(right, dict), "and is for vectors"
            left = {labels: value for labels, value in left.items() if labels in right}
        return left

    def _compared(self) -> Value:
        left = self._added()
        if self._peek() in _COMPARISONS:
            holds = _COMPARISONS[self._take()]
            right = self._added()
            assert isinstance(left, dict), "a comparison is of a vector"
            return {
                labels: value
                for labels, value in left.items()
                if (other := _at(right, labels)) is not None and holds(value, other)
            }
        return left

    def _added(self) -> Value:
        left = self._multiplied()
        while self._peek() in ("+", "-"):
            left = _joined(_ARITHMETIC[self._take()], left, self._multiplied())
        return left

    def _multiplied(self) -> Value:
        left = self._atom()
        while self._peek() in ("*", "/"):
            left = _joined(_ARITHMETIC[self._take()], left, self._atom())
        return left

    def _atom(self) -> Value:
        token = self._take()
        if token == "(":
            value = self.whole()
            self._take(")")
            return value
        if token[0].isdigit():
            return float(token)
        if token in _SUMS:
            return self._summed(_SUMS[token])
        if token == "rate":
            self._take("(")
            found = self._selected(self._take(), "usual" if self._kind == "usual" else "rate")
            self._skip_range()
            self._take(")")
            return found
        if token == "quantile_over_time":
            return self._usual()
        if token == "label_replace":
            return self._relabelled()
        return self._selected(token)

    def _summed(self, fold: Callable[[list[float]], float]) -> Vector:
        self._take("by")
        self._take("(")
        names = {self._take()}
        while self._take() == ",":
            names.add(self._take())
        self._take("(")
        value = self.whole()
        self._take(")")
        assert isinstance(value, dict), "a sum is of a vector"
        parts: dict[Labels, list[float]] = {}
        for labels, number in value.items():
            kept = frozenset(one for one in labels if one[0] in names)
            parts.setdefault(kept, []).append(number)
        return {labels: fold(numbers) for labels, numbers in parts.items()}

    def _usual(self) -> Value:
        self._take("(")
        assert self._take() == "0.5", "the median"
        self._take(",")
        self._kind = "usual"
        value = self._atom()
        self._kind = "now"
        self._skip_range()
        self._take(")")
        return value

    def _relabelled(self) -> Vector:
        self._take("(")
        value = self.whole()
        given = []
        for _ in range(4):
            self._take(",")
            given.append(self._take().strip('"'))
        self._take(")")
        target, shape, source, pattern = given
        assert (shape, pattern) == ("$1", "(.*)"), "a copy"
        assert isinstance(value, dict), "labels are of a vector"
        return {
            labels | {(target, dict(labels)[source])}: number for labels, number in value.items()
        }

    def _selected(self, name: str, kind: str = "") -> Vector:
        wanted: dict[str, str] = {}
        if self._peek() == "{":
            self._take()
            key = self._take()
            self._take("=")
            wanted[key] = self._take().strip('"')
            self._take("}")
        return self._world.select(f"{kind} {name}".strip(), wanted)

    def _skip_range(self) -> None:
        self._take("[")
        while self._take() != "]":
            pass


def _at(value: Value, labels: Labels) -> float | None:
    return value.get(labels) if isinstance(value, dict) else value


def _joined(join: Callable[[float, float], float], left: Value, right: Value) -> Value:
    if isinstance(left, dict):
        return {
            labels: join(value, other)
            for labels, value in left.items()
            if (other := _at(right, labels)) is not None
        }
    if isinstance(right, dict):
        return {labels: join(left, value) for labels, value in right.items()}
    return join(left, right)
