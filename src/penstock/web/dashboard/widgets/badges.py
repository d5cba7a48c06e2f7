"""Two small pieces of pages that are written hundreds of times on each: the number in a table, and
the line that shows how something went. Templates use them as filters.

A macro of a template costs five times as much as a function. An open page asks for itself every two
seconds, and what it costs is taken from the messages.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from penstock.web.dashboard.widgets import filters as words

_HOW: Mapping[str, Callable[[float | None], str]] = {
    "number": words.number,
    "rate": words.rate,
    "age": words.age,
    "size": words.size,
}
_BEFORE = (
    '<svg class="spark" viewBox="0 0 96 24" preserveAspectRatio="none" aria-hidden="true">'
    '<polyline points="'
)
_AFTER = '"/></svg>'


class Html(str):
    """Text that is HTML already: templates put it into a page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def cell(value: float | None, how: str = "number") -> Html:
    """A number in a table; nothing is written softly. How: number, rate, age or size."""
    return Html(f'<td class="number{"" if value else " none"}">{escape(_HOW[how](value))}</td>')


def spark(points: Sequence[float]) -> Html:
    """A small line; nothing if there is too little to draw."""
    line = words.curve(points)
    return Html(f"{_BEFORE}{line}{_AFTER}" if line else "")
