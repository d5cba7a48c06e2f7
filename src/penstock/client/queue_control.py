"""Cancelling, pausing, resetting, and deciding about dead messages: requests to any node."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias, TypedDict

from penstock.client.connection.request_router import RequestRouter
from penstock.client.descriptions import MoveDescription, from_milliseconds
from penstock.client.group_admin import new_offsets
from penstock.client.group_descriptions import OffsetChange
from penstock.client.reader.offsets import milliseconds_of
from penstock.client.reader.start_position import Start, StartRule
from penstock.client.record import Record
from penstock.client.sent_message import Sent
from penstock.client.worker.cumulative_ack import standings
from penstock.core.errors import InvalidRequest
from penstock.core.limits import MOVE_FILTER_PLACES_MAX
from penstock.core.move_filter import MoveFilter
from penstock.core.types import EARLIEST, LATEST, Offset
from penstock.wire.queue_control_requests import (
    AskMoves,
    CancelMessages,
    DecideDead,
    MoveMessages,
    MoveRows,
    RestartWork,
    StopMove,
)
from penstock.wire.requests import Done, MoveInfo, Redriven

Place: TypeAlias = tuple[int, int] | Sent | Record[Any]
"""A message by its partition and offset, or what knows them."""

_SENTINELS: Mapping[object, int] = {"earliest": EARLIEST, "latest": LATEST}


class LetterConditions(TypedDict, total=False):
    """Conditions that select dead messages: a message must meet all of them. Texts match in
    part."""

    reason: str
    """Part of the reason."""
    origin: str
    """The queue it died in."""
    group: str
    """The work group it died in."""
    since: datetime
    """It died then or later."""
    until: datetime
    """It died before that time."""
    ids: Iterable[str]
    """It has one of these ids."""
    key: str
    """Part of its key."""
    header: str
    """It has a header of this name, with a value that `header_value` is part of."""
    header_value: str
    body: str
    """Part of its bytes."""
    places: Iterable[tuple[int, int]]
    """It is at one of these: a partition and an offset each, as `peek` shows them."""


def filter_of(conditions: LetterConditions) -> MoveFilter:
    """Convert conditions to a filter of the wire protocol."""
    since, until = conditions.get("since"), conditions.get("until")
    found = MoveFilter(
        reason=conditions.get("reason", ""),
        topic=conditions.get("origin", ""),
        group=conditions.get("group", ""),
        from_ms=-1 if since is None else milliseconds_of(since),
        until_ms=-1 if until is None else milliseconds_of(until),
        ids=tuple(conditions.get("ids", ())),
        places=tuple((index, Offset(at)) for index, at in conditions.get("places", ())),
        key=conditions.get("key", ""),
        header=conditions.get("header", ""),
        header_value=conditions.get("header_value", ""),
        body=conditions.get("body", ""),
    )
    if found.header_value and not found.header:
        raise InvalidRequest("header_value means nothing without header: name the header, too")
    found.check()
    return found


def names_none(conditions: LetterConditions) -> bool:
    """Messages are to be named one by one, and none is: to the broker, none would mean all."""
    return any(
        chosen is not None and not tuple(chosen)
        for chosen in (conditions.get("ids"), conditions.get("places"))
    )


async def cancel(router: RequestRouter, name: str, group: str, places: Iterable[Place]) -> int:
    """Cancel messages that are not leased; how many of them were still there."""
    found = [_place(name, one) for one in places]
    count = 0
    for at in range(0, len(found), MOVE_FILTER_PLACES_MAX):
        some = tuple(found[at : at + MOVE_FILTER_PLACES_MAX])
        answer = await router.ask(CancelMessages(name, group, some), Done)
        count += answer.count
    return count


def _place(name: str, one: Place) -> tuple[int, int]:
    if isinstance(one, tuple) and not isinstance(one, Sent):
        return one
    queue = one.topic if isinstance(one, Record) else one.queue
    if queue != name:
        raise InvalidRequest(f"{one!r} is in {queue}, not in {name}")
    return one.partition, one.offset


async def reset(
    router: RequestRouter, name: str, group: str, to: Start, *, dry_run: bool
) -> list[OffsetChange]:
    """Reset the offsets of a work group; returns what changes, partition by partition."""
    rule = StartRule(to)
    before = await standings(router, name, group, {})
    after = await new_offsets(router, [name], rule)
    changes = [
        OffsetChange(
            topic=name,
            partition=part.partition,
            before=before[part.partition].first if part.partition in before else None,
            after=offset,
        )
        for part, offset in sorted(after.items())
    ]
    if not dry_run:
        for change in changes:
            start = _SENTINELS.get(to, change.after) if isinstance(to, str) else change.after
            await router.ask(RestartWork(name, group, change.partition, start), Done)
    return changes


async def decide(
    router: RequestRouter,
    name: str,
    group: str,
    conditions: LetterConditions,
    *,
    discard: bool,
    dry_run: bool = False,
) -> int:
    """Deliver dead messages anew where they are, or drop them; how many."""
    wanted = filter_of(conditions)
    if names_none(conditions):
        return 0
    request = DecideDead(name, group, discard, wanted, dry_run)
    return (await router.ask(request, Done, harmless=dry_run)).count


async def move_messages(
    router: RequestRouter,
    name: str,
    to: str | None,
    rate: int | None,
    conditions: LetterConditions,
    *,
    dry_run: bool,
) -> tuple[int, str]:
    """Move messages that pass a filter; how many, and the id of the move."""
    wanted = filter_of(conditions)
    if names_none(conditions):
        return 0, ""
    request = MoveMessages(name, to or "", rate or 0, wanted, dry_run)
    answer = await router.ask(request, Redriven, harmless=dry_run)
    return answer.count, answer.move_id


async def moves(router: RequestRouter, name: str) -> list[MoveDescription]:
    answer = await router.ask(AskMoves(name), MoveRows)
    return [
        MoveDescription(
            state=row.state,
            moved=row.moved,
            total=row.total,
            failure=row.failure,
            id=row.move_id,
            to=row.to,
            started_at=from_milliseconds(row.started_ms),
        )
        for row in answer.rows
    ]


async def cancel_move(router: RequestRouter, name: str, move_id: str) -> MoveDescription:
    answer = await router.ask(StopMove(name, move_id), MoveInfo)
    return MoveDescription(
        state=answer.state,
        moved=answer.moved,
        total=answer.total,
        failure=answer.failure,
        id=move_id,
    )
