"""Reasons for which messages died, with what differs from message to message taken out.

    order 4711 took 30.2 s           order <n> took <n> s
    no such sku "X-17"               no such sku <text>

Two failures are of one kind if their reasons read the same then. The rules are regular expressions
in the common part of Python's and Java's: Spark applies them to a column (`kind_column`), Python to
a text (`kind_of`), and a test compares the two. Their order matters: what is quoted may hold a
number, an address holds four.

A traceback is known by its last line, any other text by its first.
"""

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

CHARACTERS_MAX: Final = 200

_RULES: Final = (
    (r"(?s)^Traceback .*\n(?=\S[^\n]*\s*$)", ""),
    (r"(?s)^\s+", ""),
    (r"(?s)\s*\n.*$", ""),
    (r'"[^"]*"', "<text>"),
    (r"(?<![A-Za-z0-9])'[^']*'(?![A-Za-z0-9])", "<text>"),
    (r"`[^`]*`", "<text>"),
    (r"[a-z][a-z0-9+.]*://[^\s,;)>]+", "<address>"),
    (r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<id>"),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+(Z|[+-][0-9]{2}:?[0-9]{2})?)?", "<time>"),
    (r"\b[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]+)?\b", "<address>"),
    (r"\b0x[0-9a-fA-F]+\b", "<id>"),
    (r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{12,}\b", "<id>"),
    (r"\b[A-Za-z]+[-_#][A-Za-z0-9_-]*[0-9][A-Za-z0-9_-]*", "<id>"),
    (r"[-+]?[0-9]+([.,][0-9]+)*([eE][-+]?[0-9]+)?", "<n>"),
    (r"\s+", " "),
    (r" $", ""),
)
_COMPILED: Final = tuple((re.compile(pattern), put) for pattern, put in _RULES)
UNSAID: Final = "(no reason)"


def kind_of(reason: str) -> str:
    """The kind of failure that a reason tells of."""
    for pattern, put in _COMPILED:
        reason = pattern.sub(put, reason)
    return reason[:CHARACTERS_MAX] or UNSAID


def kind_column(reason: "Column") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as Spark's users write it

    for pattern, put in _RULES:
        reason = F.regexp_replace(reason, pattern, put)
    cut = F.substring(reason, 1, CHARACTERS_MAX)
    return F.when(cut == "", F.lit(UNSAID)).otherwise(cut)
