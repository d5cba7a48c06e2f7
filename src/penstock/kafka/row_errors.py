"""How an answer says what became of one of its rows.

Where a request has rows, each of them succeeds or fails by itself. A refusal is a code, which
programs act on, and a sentence, which people read; versions that have no place for the sentence
drop it. Rows that wait for the cluster are carried out side by side, a portion at a time: a request
may hold more rows than there should be tasks.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

from penstock.core.errors import PenstockError
from penstock.core.limits import KAFKA_ROWS_AT_ONCE
from penstock.kafka.codec import clipped
from penstock.kafka.context import Context
from penstock.kafka.error_codes import SECURITY_DISABLED, code_of

Row = dict[str, object]
T = TypeVar("T")


def refused(
    context: Context, error: PenstockError, choose: Callable[[PenstockError], int] = code_of
) -> Row:
    """The fields of a row that tell what went wrong."""
    return refused_with(context, choose(error), str(error))


def refused_with(context: Context, code: int, text: str) -> Row:
    """The same for what is an error to Kafka's clients only."""
    context.count_error(code)
    return {"error_code": code, "error_message": clipped(text)}


def no_access_rules(context: Context) -> Row:
    """What every question about access rules is answered with."""
    return refused_with(context, SECURITY_DISABLED, "this broker has no access rules (ACLs)")


async def side_by_side(work: Callable[[T], Awaitable[Row]], items: Iterable[T]) -> list[Row]:
    """Carry out a request's items; the rows come in their order."""
    return [row async for row in rows_side_by_side(work, items)]


async def rows_side_by_side(
    work: Callable[[T], Awaitable[Row]], items: Iterable[T]
) -> AsyncIterator[Row]:
    """The same, a portion of rows after the other."""
    rest = iter(items)
    while portion := list(islice(rest, KAFKA_ROWS_AT_ONCE)):
        for row in await asyncio.gather(*map(work, portion)):
            yield row
