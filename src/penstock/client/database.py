"""Databases, as any DB-API 2 driver shows them: the little of it that is needed here.

Drivers differ in how a statement names its parameters. Statements are written here with `{}` for
each one, and `run` spells them as the driver wants them. Values never become part of the text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from penstock.core.errors import InvalidRequest

ParamStyle = Literal["qmark", "numeric", "named", "format", "pyformat"]
"""The `paramstyle` of a DB-API 2 driver."""
_SPELLINGS: dict[ParamStyle, str] = {
    "qmark": "?",
    "numeric": ":{number}",
    "named": ":{name}",
    "format": "%s",
    "pyformat": "%({name})s",
}
_TABLE = re.compile(r"[A-Za-z_]\w{0,62}(\.[A-Za-z_]\w{0,62})?")


class Cursor(Protocol):
    """The part of a DB-API 2 cursor that is used here."""

    @property
    def rowcount(self) -> int: ...
    # Any: psycopg 3 takes a `LiteralString` or an object of its own and no other text, others take
    # a str, and for type checkers neither contains the other.
    def execute(self, sql: Any, parameters: Any = ..., /) -> object:
        """Run a statement."""
        ...

    def fetchone(self) -> Any:
        """The next row; None after the last."""
        ...

    def fetchall(self) -> Sequence[Any]:
        """Return the remaining rows."""
        ...

    def close(self) -> object: ...


class Connection(Protocol):
    """The part of a DB-API 2 connection that is used here."""

    def cursor(self) -> Cursor: ...
    def commit(self) -> object: ...
    def rollback(self) -> object: ...
    def close(self) -> object: ...


def run(
    cursor: Cursor, paramstyle: ParamStyle, statement: str, values: Mapping[str, object]
) -> None:
    """Execute a statement whose `{}` stand for these values, in order."""
    spelling = _SPELLINGS[paramstyle]
    names = [spelling.format(number=number, name=name) for number, name in enumerate(values, 1)]
    named = paramstyle in ("named", "pyformat")
    cursor.execute(statement.format(*names), values if named else tuple(values.values()))


def table_name(name: str) -> str:
    """The name of a table, if it can be one; it becomes part of statements."""
    if not _TABLE.fullmatch(name):
        raise InvalidRequest(f"{name!r} cannot be the name of a table: use letters, digits and _")
    return name
