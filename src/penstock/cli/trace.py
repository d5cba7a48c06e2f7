"""`penstock trace`: what is known of one message, by its id or its place.

What is shown is what can still be seen: a queue keeps no diary of each delivery. See
`sightings.py` for how a message is found.
"""

import datetime as dt
import re
import sys
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.admin import Json, print_json
from penstock.cli.formats import plain_text
from penstock.cli.session import with_client
from penstock.cli.sightings import (
    Place,
    Search,
    Sighting,
    dead_letters_of,
    find_moved,
    find_origin,
    look_at,
    time_of,
)
from penstock.cli.where import DEFAULT_URL, Url
from penstock.client.client import Client
from penstock.core.errors import LocalError
from penstock.web.queue_messages import text

BODY_CHARACTERS_MAX = 200

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACE = re.compile(r"(.+):(\d{1,9}):(\d{1,18})")


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
            help="Look for it here, and not everywhere; may be repeated.",
        ),
    ] = (),
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Tell what is known of one message: where it is, its state, its deliveries, how it died.

    The id is the one that senders and workers get; SQS shows the same. A dead letter keeps its id;
    what is moved out of a dead-letter queue gets a new one.

    Examples
    --------
    penstock trace 9ff44b68-1c6e-8a0d-9b6e-2d8a4c3f1e07
    penstock trace 9ff44b68-1c6e-8a0d-9b6e-2d8a4c3f1e07 --in jobs --in jobs-dead --json
    penstock trace jobs:0:17
    """
    wanted = _wanted(message)
    search = Search()
    found = with_client(url, lambda client: _trace(client, wanted, within, search))
    if search.is_over:
        print("there was more than could be searched; say where to look with --in QUEUE",
              file=sys.stderr)  # fmt: skip
    if not found:
        where = " or ".join(within) if within else "any topic"
        raise LocalError(
            f"no message of {where} has the id {message}; if the queue it was sent to is gone, say"
            " where it may be with --in QUEUE"
        )
    if json:
        print_json({"message": message, "sightings": [_document(one) for one in found]})
        return
    for number, one in enumerate(found):
        print("" if number == 0 else "\n", end="")
        for name, value in _rows(one):
            print(f"{name:<10}  {value}")


def _wanted(written: str) -> str | Place:
    if _ID.fullmatch(written.lower()):
        return written.lower()
    place = _PLACE.fullmatch(written)
    if place is not None:
        return Place(place[1], int(place[2]), int(place[3]))
    raise LocalError(f'"{written}" is neither the id of a message nor a place such as jobs:0:17')


async def _trace(
    client: Client, wanted: str | Place, within: tuple[str, ...], search: Search
) -> list[Sighting]:
    """Where it was sent to first, and then where it was moved to."""
    if isinstance(wanted, Place):
        return [await look_at(client, wanted, {})]
    names = within or tuple(one.name for one in await client.topics())
    topics = {name: await client.describe_topic(name) for name in names}
    by_id = {one.id: one.name for one in topics.values()}
    origin = find_origin(wanted, topics.values(), search)
    seen = [] if origin is None else [await look_at(client, origin, by_id)]
    elsewhere = list(topics.values()) if within else []
    if origin is not None and not within:
        queue = topics[origin.topic]
        letters = topics.get(dead_letters_of(queue))
        # Dead letters first: what comes back to the queue comes from there.
        elsewhere = [queue] if letters is None else [letters, queue]
    since = time_of(seen[0]) if seen else None
    moved = await find_moved(client, wanted, elsewhere, since, search)
    return seen + [await look_at(client, place, by_id) for place in moved]


def _rows(seen: Sighting) -> list[tuple[str, str]]:
    """What is known, for people."""
    rows = [("place", f"{'queue' if seen.is_queue else 'topic'} {seen.place}")]
    if seen.is_there:
        rows.append(("sent", _time(seen.timestamp_ms)))
        if seen.key is not None:
            rows.append(("key", _shown(seen.key)))
        rows.append(("body", "none" if seen.data is None else _body(seen.data)))
        rows += [
            ("header", f"{name}={_shown(value or b'')}") for name, value in seen.headers.items()
        ]
    else:
        rows.append(("body", "not there any more: deleted after it was done, or by retention"))
    if seen.came_from:
        rows.append(("moved from", seen.came_from))
    if seen.died is not None:
        died = seen.died
        times = "" if died.deliveries is None else f" after {died.deliveries} deliveries"
        when = "" if died.time_ms is None else f", {_time(died.time_ms)}"
        rows.append(("died", f"in {died.place} of group {died.group}{times}{when}"))
        rows.append(("reason", _shown(died.reason.encode()) or "none given"))
    for state in seen.states:
        told = f"group {state.group}: {state.state}"
        if state.state == "over":
            told = f"group {state.group}: over (done, expired, dropped or moved away)"
        if state.deliveries is not None:
            told += f", {state.deliveries} deliveries"
        if state.until_ms is not None:
            told += f", {'since' if state.state == 'dead' else 'until'} {_time(state.until_ms)}"
        if state.reason:
            told += f", {_shown(state.reason.encode())}"
        rows.append(("state", told))
    return rows


def _document(seen: Sighting) -> dict[str, object]:
    return {
        "place": seen.place,
        "is_queue": seen.is_queue,
        "is_there": seen.is_there,
        "timestamp_ms": seen.timestamp_ms if seen.is_there else None,
        "key": text(seen.key),
        "body": text(seen.data),
        "headers": {name: text(value) for name, value in seen.headers.items()},
        "came_from": seen.came_from or None,
        "died": seen.died,
        "states": seen.states,
    }


def _body(data: bytes) -> str:
    shown = _shown(data[: BODY_CHARACTERS_MAX * 4])[:BODY_CHARACTERS_MAX]
    more = "…" if len(data) > len(shown) else ""
    return f"{len(data)} bytes: {shown}{more}"


def _shown(data: bytes) -> str:
    return plain_text(data).replace("\n", "\\n")


def _time(time_ms: int) -> str:
    time = dt.datetime.fromtimestamp(time_ms / 1_000, dt.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
