"""`penstock trace`: what became of one message, by its id or its place.

The broker finds it and its history (see `engine.inspection.traces`); here it is printed.
"""

import datetime as dt
import re
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.address_flags import DEFAULT_URL, Url
from penstock.cli.admin import Json, print_json
from penstock.cli.message.formats import plain_text
from penstock.cli.session import with_client
from penstock.core import delivery_headers
from penstock.core.errors import LocalError
from penstock.wire.trace_requests import (
    Encoded,
    Happening,
    Reader,
    Sighting,
    State,
    Text,
    TraceInfo,
    Written,
)

BODY_CHARACTERS_MAX = 200
TRACE_SECONDS = 60.0

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACE = re.compile(r"(.+):(\d{1,9}):(\d{1,18})")

_TOLD = (
    "penstock-dead-",
    delivery_headers.ORIGIN,
    delivery_headers.MESSAGE_ID,
    delivery_headers.SENT_MS,
    delivery_headers.FORMER_ID,
)
"""Headers that other rows tell of."""

Row = tuple[str, str]


def trace(
    message: Annotated[
        str, Parameter(help="The message's id, or its place as QUEUE:PARTITION:OFFSET.")
    ],
    /,
    *,
    within: Annotated[
        tuple[str, ...],
        Parameter(
            name="--in",
            metavar="QUEUE",
            negative="",
            show_default=False,
            help="Search only this topic; may be repeated.",
        ),
    ] = (),
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Show the history of one message: when it was sent, where it is in the log and on which
    nodes, its receivers and their verdicts, how it died, where it was moved to.

    The id is the one that senders and workers get; SQS shows the same. A dead letter keeps its id;
    what is moved out of a dead-letter queue gets a new one, and is found by the first one too. What
    was done to messages is kept in memory, for a bounded time; the output says how far back.

    Examples
    --------
    penstock trace 9ff44b68-1c6e-8a0d-9b6e-2d8a4c3f1e07
    penstock trace 9ff44b68-1c6e-8a0d-9b6e-2d8a4c3f1e07 --in jobs --in jobs-dlq --json
    penstock trace jobs:0:17
    """
    if not _ID.fullmatch(message.lower()) and not _PLACE.fullmatch(message):
        raise LocalError(
            f'"{message}" is neither the id of a message nor a place such as jobs:0:17'
        )
    found = with_client(
        url, lambda client: client.trace(message, within=within), timeout=TRACE_SECONDS
    )
    if not found.sightings:
        raise LocalError(_not_found(found, within))
    if json:
        print_json({"message": message, "sightings": found.sightings})
        return
    for number, one in enumerate(found.sightings):
        print("" if number == 0 else "\n", end="")
        for name, value in _rows(one):
            print(f"{name:<10}  {value}")


def _not_found(found: TraceInfo, within: tuple[str, ...]) -> str:
    where = " or ".join(within) if within else "any topic"
    if found.gave_up:
        return (
            f"there was more than could be searched, and none of the newest messages of {where} has"
            f" the id {found.message}; say where to look with --in QUEUE, or give its place"
        )
    return (
        f"no message of {where} has the id {found.message}; if the queue it was sent to is gone,"
        " say where it may be with --in QUEUE"
    )


def _rows(seen: Sighting) -> list[Row]:
    """The facts about a message as rows of text."""
    rows = [("place", f"{'queue' if seen.is_queue else 'topic'} {seen.place}"), ("id", seen.id)]
    if seen.is_there:
        rows.append(("sent", _time(seen.timestamp_ms)))
        if seen.trace:
            rows.append(("trace", _shown(seen.trace)))
        if seen.key is not None:
            rows.append(("key", _shown(seen.key)))
        rows.append(("body", "none" if seen.body is None else _body(seen.body, seen.body_bytes)))
        own = (one for one in seen.headers.items() if not one[0].startswith(_TOLD))
        rows += [("header", f"{name}={_shown(value)}") for name, value in own]
    else:
        rows.append(("body", "not there any more: deleted after it was done, or by retention"))
    if seen.written is not None:
        rows.append(("written", _written(seen.written)))
    if seen.came_from is not None:
        rows.append(("moved from", str(seen.came_from)))
    if seen.died is not None:
        died = seen.died
        times = "" if died.deliveries is None else f" after {died.deliveries} deliveries"
        when = "" if died.time_ms is None else f", {_time(died.time_ms)}"
        rows.append(("died", f"in {died.place} of group {died.group}{times}{when}"))
        rows.append(("reason", _shown(died.reason) or "none given"))
    rows += [("event", _event(one)) for one in seen.happenings]
    rows += [("state", _state(one)) for one in seen.states]
    rows += [("reader", _reader(one, seen.place.offset)) for one in seen.readers]
    if (seen.is_queue or seen.readers) and not seen.is_complete:
        rows.append(("note", _reach(seen)))
    return rows


def _written(written: Written) -> str:
    when = "" if written.time_ms < 0 else f" {_time(written.time_ms)},"
    nodes = ", ".join(map(str, written.nodes))
    leads = f", node {written.leader} leads" if written.leader else ", no leader now"
    return (
        f"{when} shard {written.shard}, term {written.term}, index {written.index}; on"
        f" node{'s' * (len(written.nodes) != 1)} {nodes}{leads}"
    ).strip()


def _event(one: Happening) -> str:
    told = f"{_time(one.time_ms)} {one.what}"
    if one.what in ("delivered", "taken"):
        told += f" to {_shown(one.receiver) or 'a receiver without a name'}"
    elif one.receiver:
        told += f" by {_shown(one.receiver)}"
    told += f", group {_shown(one.group)}"
    if one.deliveries:
        told += f", delivery {one.deliveries}"
    if one.until_ms is not None:
        told += f", until {_time(one.until_ms)}"
    if one.copy is not None:
        told += f", to {one.copy}"
    return told + (f": {_shown(one.detail)}" if one.detail else "")


def _state(state: State) -> str:
    told = f"group {_shown(state.group)}: {state.state}"
    if state.state == "over":
        told += " (done, expired, dropped or moved away)"
    if state.deliveries is not None:
        told += f", {state.deliveries} deliveries"
    if state.until_ms is not None:
        told += f", {'since' if state.state == 'dead' else 'until'} {_time(state.until_ms)}"
    return told + (f", {_shown(state.reason)}" if state.reason else "")


def _reader(reader: Reader, offset: int) -> str:
    told = f"group {_shown(reader.group)}: "
    if reader.committed <= offset:
        return f"{told}not there yet, at offset {reader.committed} since {_time(reader.time_ms)}"
    if reader.passed_ms is None:
        return f"{told}past it, at offset {reader.committed} since {_time(reader.time_ms)}"
    by = f" by {_shown(reader.member)}" if reader.member else ""
    return f"{told}past it since {_time(reader.passed_ms)}{by}, at offset {reader.committed} now"


def _reach(seen: Sighting) -> str:
    if seen.since_ms is None:
        return "the delivery history is empty: what happened so far is not known any more"
    since = _time(seen.since_ms)
    return f"the delivery history begins {since}: what happened before is not known any more"


def _body(body: Text, size: int) -> str:
    shown = _shown(body)[:BODY_CHARACTERS_MAX]
    more = "…" if size > len(shown) else ""
    return f"{size} bytes: {shown}{more}"


def _shown(value: Text) -> str:
    if value is None:
        return ""
    data = value.base64 if isinstance(value, Encoded) else value.encode()
    return plain_text(data).replace("\n", "\\n")


def _time(time_ms: int | None) -> str:
    time = dt.datetime.fromtimestamp((time_ms or 0) / 1_000, dt.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
