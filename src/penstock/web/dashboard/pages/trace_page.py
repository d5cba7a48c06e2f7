"""The page of one message's life: where it was written, who had it, how it failed, where it went.

    ?message=     its id, or its place as TOPIC:PARTITION:OFFSET
    ?in=          a topic to look in

Events are listed in order, place by place. A search for an id may have to try many
places, and is repeated only as often as it is cheap.
"""

import shlex
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request

from penstock.core.errors import PenstockError
from penstock.core.message_states import LEASED
from penstock.engine.cluster.node import Node
from penstock.web.broker import Broker, node_of
from penstock.web.dashboard.live.search_cache import SearchCache
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.filters import moment, segment
from penstock.web.dashboard.widgets.messages import ShownHeader
from penstock.web.dashboard.widgets.payloads import (
    AUTO,
    FORMS,
    Payload,
    plain,
    preview,
    show_payload,
)
from penstock.web.traces import find_trace, why_not_found
from penstock.wire.trace_requests import Encoded, Happening, Place, Sighting, Text, TraceInfo

ID_CHARACTERS_MAX = 400
HAPPENINGS_SHOWN = 200
_TONES = {
    "acked": "good", "delivered": "had", "released": "attention", "lease ended": "warning",
    "too late": "attention", "rejected": "critical", "died": "critical", "buried": "critical",
    "discarded": "critical", "moved": "good", "revived": "good", "written": "good",
}  # fmt: skip
_MEANINGS = {
    "lease ended": "the lease expired without an answer; the message is ready again",
    "returned": "back, as if it had never been delivered",
    "died": "it was delivered once too often",
    "taken": "leased by a move, to be sent on",
    "moved": "sent on, and done here",
    "buried": "dead, and sent on to the dead letters",
    "discarded": "dead, and not wanted any more",
    "revived": "dead, and delivered anew",
    "covered": "done by a reader of the log that commits offsets",
    "cancelled": "cancelled before it was leased",
    "purged": "dropped with all others",
}
_STATE_TONES = {"dead": "critical", LEASED: "good", "delayed": "attention"}

_searches: "WeakKeyDictionary[Node, SearchCache[TraceInfo]]" = WeakKeyDictionary()


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Something in the life of a message."""

    time_ms: int
    what: str
    detail: str
    who: str
    tone: str


class StateWord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a message in a work group."""

    group: str
    word: str
    tone: str
    detail: str


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a trace at one place."""

    topic: str
    partition: int
    offset: int
    href: str
    id: str
    is_queue: bool
    is_there: bool
    came_from: str
    """The place that it was moved from, if the trace does not contain it."""
    key: str
    payload: Payload
    headers: list[ShownHeader]
    trace: str
    states: list[StateWord]
    moments: list[Moment]
    left_out: int
    is_complete: bool
    since_ms: int | None


async def trace_page(broker: Broker, request: Request) -> View:
    """The trace of a message, or a form that asks for its id."""
    asked = request.query_params
    message = asked.get("message", "").strip()[:ID_CHARACTERS_MAX]
    within = [name for name in asked.getlist("in") if name]
    form = asked.get("view", AUTO)
    problem = ""
    chapters: list[Chapter] = []
    if message:
        try:
            found = await _find(broker, message, within)
            chapters = [_chapter(one, form if form in FORMS else AUTO) for one in found.sightings]
            problem = "" if chapters else why_not_found(found)
        except PenstockError as error:
            problem = str(error)
    return View(
        template="trace.html",
        title="Trace",
        data={
            "message": message,
            "within": ", ".join(within),
            "problem": problem,
            "chapters": chapters,
            "form": form,
        },
        json=f"/v1/trace/{segment(message)}" if message else "",
        command=f"penstock trace {shlex.quote(message)}" if message else "penstock trace --help",
    )


async def _find(broker: Broker, message: str, within: list[str]) -> TraceInfo:
    node = node_of(broker)
    searches = _searches.get(node)
    if searches is None:
        searches = _searches[node] = SearchCache(node.engine.topics.clock)
    key = (message, tuple(within))
    return await searches.get(key, lambda: find_trace(broker, message, within))


def _chapter(one: Sighting, form: str) -> Chapter:
    place = one.place
    kind = "queues" if one.is_queue else "topics"
    moments = sorted([*_written(one), *map(_moment, one.happenings), *_read(one)], key=_when)
    chosen = f"{place.partition}:{place.offset}"
    return Chapter(
        topic=place.topic,
        partition=place.partition,
        offset=place.offset,
        href=f"/{kind}/{segment(place.topic)}?message={chosen}",
        id=one.id,
        is_queue=one.is_queue,
        is_there=one.is_there,
        came_from="" if one.came_from is None else _address(one.came_from),
        key=preview(_bytes(one.key)),
        payload=show_payload(_bytes(one.body), form, size_bytes=one.body_bytes),
        headers=[
            ShownHeader(name=plain(name), value=preview(_bytes(value), 400), is_ours=_is_ours(name))
            for name, value in sorted(one.headers.items(), key=lambda row: _is_ours(row[0]))
        ],
        trace=plain(one.trace),
        states=[
            StateWord(
                group=state.group,
                word=state.state,
                tone=_STATE_TONES.get(state.state, ""),
                detail=plain(state.reason),
            )
            for state in one.states
        ],
        moments=moments[:HAPPENINGS_SHOWN],
        left_out=max(0, len(moments) - HAPPENINGS_SHOWN),
        is_complete=one.is_complete,
        since_ms=one.since_ms,
    )


def _written(one: Sighting) -> list[Moment]:
    """The moments when a message was sent and when it was committed. A dead letter keeps the time
    at which it was first sent."""
    found = []
    moved = one.came_from is not None
    if one.timestamp_ms is not None and not (moved and one.written is not None):
        found.append(Moment(time_ms=one.timestamp_ms, what="sent", detail="", who="", tone=""))
    if one.written is not None and one.written.time_ms > 0:
        at = one.written
        nodes = " ".join(map(str, at.nodes))
        held = f"held by nodes {nodes}" if len(at.nodes) > 1 else f"held by node {nodes}"
        came = f"from {one.came_from}, " if moved else ""
        found.append(
            Moment(
                time_ms=at.time_ms,
                what="moved here" if moved else "written",
                detail=f"{came}shard {at.shard}, entry {at.index} of term {at.term}, {held}",
                who="",
                tone="good",
            )
        )
    return found


def _moment(one: Happening) -> Moment:
    told = plain(one.detail) or _MEANINGS.get(one.what, "")
    details = [told] if told else []
    if one.deliveries is not None and one.what == "delivered":
        details.append("the first time" if one.deliveries == 1 else f"time {one.deliveries}")
    if one.until_ms is not None and one.until_ms > 0:
        details.append(f"until {moment(one.until_ms)}")
    if one.copy is not None:
        details.append(f"to {plain(str(one.copy))}")
    return Moment(
        time_ms=one.time_ms,
        what=one.what,
        detail=", ".join(details),
        who=plain(one.receiver or ""),
        tone=_TONES.get(one.what, ""),
    )


def _read(one: Sighting) -> list[Moment]:
    return [
        Moment(
            time_ms=reader.passed_ms or reader.time_ms,
            what="read",
            detail=f"group {plain(reader.group)} has committed {reader.committed:,}",
            who=plain(reader.member),
            tone="good",
        )
        for reader in one.readers
        if reader.committed > one.place.offset
    ]


def _address(place: Place) -> str:
    return f"{place.topic}:{place.partition}:{place.offset}"


def _when(one: Moment) -> int:
    return one.time_ms


def _bytes(text: Text) -> bytes | None:
    return text.base64 if isinstance(text, Encoded) else None if text is None else text.encode()


def _is_ours(name: str) -> bool:
    return name.startswith("penstock-")
