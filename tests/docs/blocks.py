"""The code blocks of a page, in order, and what a writer has said about running them.

A block is fenced and names its language; what the languages mean is in `LANGUAGES`. A comment right
above a block, which no reader of the page sees, says what the block itself cannot:

    <!-- test: until="order 99" -->        an endless program: Ctrl-C when it has printed this
    <!-- test: background until="ready" -->   a program that goes on while the page does
    <!-- test: background later="done" -->    the same; it prints this before the page ends
    <!-- test: file=jobs.py -->            a file of the reader's; it is written, not run
    <!-- test: output -->                  what the block before has printed; … is anything
    <!-- test: types="orders" -->          what the reader types when asked, a line each
    <!-- test: fails -->                   a command that ends with an error
    <!-- test: raises=QueueFull -->        Python that ends with this error
    <!-- test: needs=aws -->               a program that not every machine has
    <!-- test: nodes=3 -->                 the page's broker is a cluster; on its first block
    <!-- test: skip="why" -->              it cannot run; the reason is kept in unrun.txt

What a block needs and a reader need not see is a comment with a language, run like a block:

    <!-- test: sh
    penstock queue send orders "order 1"
    -->
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Use(Enum):
    """What becomes of a block of some language."""

    RUN = "is run"
    PARSED = "is parsed"
    SHOWN = "is for the eye"


LANGUAGES: Mapping[str, Use] = {
    "json": Use.PARSED,
    "python": Use.RUN,
    "sh": Use.RUN,
    "text": Use.SHOWN,
    "toml": Use.PARSED,
}
ORDERS = frozenset(
    {
        "background",
        "fails",
        "file",
        "later",
        "needs",
        "nodes",
        "output",
        "raises",
        "seconds",
        "skip",
        "types",
        "until",
    }
)
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)[^\n]*$")
_ORDER = re.compile(r"^ *<!-- test:(?P<words>[^\n]*?)-->\s*$")
_HIDDEN = re.compile(r"^ *<!-- test: *(?P<language>python|sh)\s*$")
_WORD = re.compile(r'(?P<name>[a-z]+)(?:=(?:"(?P<quoted>[^"]*)"|(?P<plain>\S+)))?')


class BadPage(Exception):
    """A page that cannot be run as it is written; the message says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block, and where it stands."""

    page: str
    line: int
    """The line of its fence; its text begins on the next one."""
    language: str
    text: str
    orders: Mapping[str, str] = field(default_factory=dict)
    hidden: bool = False

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def use(self) -> Use:
        return LANGUAGES[self.language]

    @property
    def runs(self) -> bool:
        """Whether something happens when the page is run: a block that is skipped does not."""
        return self.use is Use.RUN and "skip" not in self.orders

    @property
    def seconds_max(self) -> float:
        return float(self.orders.get("seconds", "100"))


def blocks_of(page: str, text: str) -> list[Block]:
    """Every block of a page, hidden ones too. Raises `BadPage` for what nobody could run."""
    blocks = list(_scan(page, text.splitlines()))
    for block, before in zip(blocks, [None, *blocks], strict=False):
        if block.language not in LANGUAGES:
            said = block.language or "none"
            raise BadPage(f"{block.place}: language {said}; name one of {', '.join(LANGUAGES)}")
        if unknown := sorted(set(block.orders) - ORDERS):
            raise BadPage(f"{block.place}: no such order: {', '.join(unknown)}")
        if "output" in block.orders and (before is None or not before.runs):
            raise BadPage(f"{block.place}: output of what? nothing ran before it")
    return blocks


def _scan(page: str, lines: list[str]) -> Iterator[Block]:
    orders: dict[str, str] = {}
    told_at = 0
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if found := _HIDDEN.match(line):
            start = number
            number = _end(page, lines, start, r"^ *-->\s*$")
            yield Block(
                page=page,
                line=start,
                language=found["language"],
                text="\n".join(lines[start : number - 1]) + "\n",
                hidden=True,
            )
        elif found := _ORDER.match(line):
            orders, told_at = _parse_orders(page, number, found["words"]), number
        elif found := _FENCE.match(line):
            start = number
            indent = len(found["indent"])
            number = _end(page, lines, start, r"^ *```\s*$")
            yield Block(
                page=page,
                line=start,
                language=found["language"],
                text="".join(f"{one[indent:]}\n" for one in lines[start : number - 1]),
                orders=orders,
            )
            orders = {}
        elif line.strip() and orders:
            raise BadPage(f"{page}:{told_at}: an order stands right above its block")
    if orders:
        raise BadPage(f"{page}:{told_at}: an order without a block")


def _end(page: str, lines: list[str], start: int, pattern: str) -> int:
    """The number of the line that ends what begins at `start`, counted from one."""
    for number in range(start, len(lines)):
        if re.match(pattern, lines[number]):
            return number + 1
    raise BadPage(f"{page}:{start}: this block has no end")


def _parse_orders(page: str, line: int, words: str) -> dict[str, str]:
    orders = {}
    rest = words.strip()
    while rest:
        found = _WORD.match(rest)
        if found is None:
            raise BadPage(f"{page}:{line}: cannot read: {rest}")
        orders[found["name"]] = found["quoted"] or found["plain"] or ""
        rest = rest[found.end() :].strip()
    return orders
