"""The page of one queue: how it is, what is in it, what has failed, and what to do about it.

What waits and what is leased is asked of the partitions at the moment the page is made, so that it
is right after every change; rates come from the watch, which looks every few seconds.

    ?tab=messages     what is in the queue (&state= &from= &message=)
    ?tab=dead         what has failed for good (&reason= &text= &key= &header= &box= &message=)
    ?tab=workers      who asks for messages
    ?tab=send         a message by hand (&copy= the place of one to begin with)
    ?tab=settings     how it is set
    ?group=           the work group, if it is not the usual one
"""

import asyncio
from collections.abc import Awaitable

import msgspec
from starlette.requests import Request

from penstock.core.errors import PenstockError, Unavailable
from penstock.core.message_states import ALL_STATES, STATES, current_state
from penstock.core.queue_rules import (
    DEFAULT_PRIORITY,
    DEFAULT_WORK_GROUP,
    Deduplication,
    Priorities,
    QueueRules,
)
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import QueueCounts
from penstock.engine.moves.letter_counts import count_letters, dead_letter_queue
from penstock.watch.history import queue_key
from penstock.watch.readings import QueueReading
from penstock.web.broker import Broker, node_of
from penstock.web.dashboard.live.recent_readings import alerts_by_queue, lately
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.dead_letters import HERE, LETTERS, OWN, letter_box, one_letter
from penstock.web.dashboard.widgets.drafts import draft_of
from penstock.web.dashboard.widgets.filters import segment
from penstock.web.dashboard.widgets.messages import (
    ShownMessage,
    parse_message_place,
    queue_message,
    queue_row,
)
from penstock.web.dashboard.widgets.payloads import AUTO, FORMS
from penstock.web.dashboard.widgets.setting_lines import group_setting_lines, setting_lines
from penstock.web.dashboard.widgets.trouble import Trouble, troubles
from penstock.web.dashboard.widgets.worker_lines import SHOWN, worker_lines
from penstock.web.queue_browser import BrowseWanted, browse
from penstock.web.setting_names import queue_kind, queue_settings

ROWS = 25
PATIENCE_SECONDS = 2.0
"""The longest wait for a partition without a leader before the page says so."""
SLOW = "Some partitions cannot be reached now: what is here is what was known last."
POINTS = ("ready", "leased", "ack_rate")
TABS = ("messages", "dead", "workers", "send", "settings")


async def queue_page(broker: Broker, request: Request) -> View:
    node = node_of(broker)
    topic = node.engine.topics.topic(request.path_params["name"])
    places = await node.survey.places(topic.partitions)
    groups = sorted({name for place in places.values() for name in place.starts})
    group = _group(request, groups)
    reading = _reading(broker, topic, group)
    counts, problem = await _counts(node, topic, group, reading)
    own = bool(reading is not None and reading.dead_letters_of)
    letters, lying = await _letters(node, topic, group)
    tab = request.query_params.get("tab", "")
    if tab not in TABS:
        tab = "dead" if own else "messages"
    settings = queue_settings(topic.configs)
    data: dict[str, object] = {
        "name": topic.name,
        "kind": queue_kind(settings),
        "paused": bool(settings["paused"]),
        "partitions": len(topic.partitions),
        "group": group,
        "groups": groups,
        "now_ms": node.engine.topics.clock.wall_ms(),
        "ready": counts.ready,
        "leased": counts.leased,
        "delayed": counts.delayed,
        "dead": counts.dead,
        "letters": None if letters is None else letters.name,
        "dead_letters": counts.dead + lying,
        "dead_letters_of": list(reading.dead_letters_of) if reading is not None else [],
        "oldest_age_ms": _oldest(node, counts),
        "acked": counts.acked,
        "reading": reading,
        "troubles": _troubles(broker, topic, reading, counts.dead + lying),
        "idle": _idle(broker, topic, reading),
        "points": _points(broker, topic, group),
        "tab": tab,
        "path": f"/v1/queues/{segment(topic.name)}",
        "here_address": _here(topic, group),
        "gone": "",
        "problem": problem,
        "form": _form(request),
        "chosen": None,
    }
    if not problem and tab in ("messages", "dead"):
        data |= await _in_time(
            _messages(node, topic, group, request)
            if tab == "messages"
            else _dead(node, topic, letters, group, request, counts, own=own, lying=lying)
        )
    if tab == "workers":
        lines = await worker_lines(node, topic, group, reading.workers if reading else ())
        data |= {"workers": lines[:SHOWN], "workers_more": max(0, len(lines) - SHOWN)}
    if tab == "settings":
        data["settings"] = setting_lines(topic)
        data["group_settings"] = group_setting_lines(node, topic, group)
    if tab == "send":
        data |= _fields(topic.settings.queue.queue_rules)
        data["draft"] = await draft_of(node, request.query_params.get("copy", ""))
    if data["chosen"] is None and parse_message_place(request.query_params.get("message", "")):
        where = letters if tab == "dead" and letters is not None else topic
        data["gone"] = f"{where.name}:{request.query_params['message']}"
    return View(
        template="queue.html",
        title=topic.name,
        data=data,
        json=f"/v1/queues/{segment(topic.name)}",
        command=_command(topic, letters, tab, own=own),
    )


async def _in_time(part: Awaitable[dict[str, object]]) -> dict[str, object]:
    """A part of the page, or why it is not there."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await part
    except TimeoutError:
        return {"problem": SLOW}
    except PenstockError as error:
        return {"problem": str(error)}


async def _counts(
    node: Node, topic: Topic, group: str, reading: QueueReading | None
) -> tuple[QueueCounts, str]:
    """Return the current counts; while a partition has no leader, the last ones of the watch, and
    the reason."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await node.delivery.counts(topic, group), ""
    except TimeoutError:
        problem = SLOW
    except Unavailable as error:
        problem = str(error)
    if reading is None:
        raise Unavailable(problem)
    known = QueueCounts(
        ready=reading.ready,
        leased=reading.leased,
        delayed=reading.delayed,
        dead=reading.dead - reading.dead_lettered,
        acked=reading.acked,
    )
    return known, problem


async def _messages(node: Node, topic: Topic, group: str, request: Request) -> dict[str, object]:
    asked = request.query_params
    state = current_state(asked.get("state", ""))
    wanted = BrowseWanted(
        group=group,
        states=frozenset({state}) if state in STATES else ALL_STATES,
        written=asked.get("from", "0"),
        limit=ROWS,
    )
    page = await browse(node, topic, wanted)
    return {
        "state": state if state in STATES else "",
        "states": list(STATES),
        "rows": [queue_row(topic, group, one) for one in page.found],
        "next": page.next,
        "begins": "from" not in asked,
        "chosen": await _chosen(node, topic, group, request),
    }


async def _dead(
    node: Node,
    topic: Topic,
    letters: Topic | None,
    group: str,
    request: Request,
    counts: QueueCounts,
    *,
    own: bool,
    lying: int,
) -> dict[str, object]:
    """The tab of dead letters. The queue's settings decide where they are; if two places are
    possible, the request chooses."""
    box, where, work, total = HERE, topic, group, counts.dead
    if letters is not None and request.query_params.get("box") != HERE:
        box, where, work, total = LETTERS, letters, DEFAULT_WORK_GROUP, lying
    elif own and not counts.dead:
        box, total = OWN, counts.ready + counts.leased + counts.delayed
    found = await letter_box(node, where, work, request, box=box, total=total)
    chosen = await _chosen(node, where, work, request)
    return {
        "letter_box": found,
        "here": counts.dead if box == LETTERS else 0,
        "chosen": chosen,
        "one": None if chosen is None else one_letter(where, work, chosen, box),
        "policy": _policy(node, topic, group),
    }


async def _chosen(node: Node, topic: Topic, group: str, request: Request) -> ShownMessage | None:
    """The message that the address names, if it is still in the queue."""
    place = parse_message_place(request.query_params.get("message", ""))
    if place is None or place[0] >= len(topic.partitions):
        return None
    page = await node.delivery.browse(
        topic, group=group, index=place[0], start=Offset(place[1]), messages_max=1
    )
    if not page or page[0].message.offset != place[1]:
        return None
    return queue_message(topic, group, page[0], _form(request))


async def _letters(node: Node, topic: Topic, group: str) -> tuple[Topic | None, int]:
    """The dead-letter queue of a work group, and how many letters lie in it."""
    topics = node.engine.topics
    name = dead_letter_queue(topics, topic, group)
    found = topics.catalog.topic(name) if name else None
    return found, (await count_letters(topics, node.delivery, [name])).get(name, 0)


def _policy(node: Node, topic: Topic, group: str) -> str:
    if group == DEFAULT_WORK_GROUP:
        return str(queue_settings(topic.configs)["dead_letter_policy"])
    return node.groups.work_settings(topic, group)["queue.dead.letter.policy"].value


def _fields(rules: QueueRules) -> dict[str, object]:
    """The fields of a message that have an effect on this queue."""
    return {
        "fifo": rules.fifo,
        "priorities": rules.priorities is not Priorities.OFF,
        "default_priority": DEFAULT_PRIORITY,
        "deduplicates": rules.deduplication is not Deduplication.OFF,
        "delivery_headers": rules.delivery_headers,
    }


def _group(request: Request, groups: list[str]) -> str:
    wanted = request.query_params.get("group", DEFAULT_WORK_GROUP)
    if wanted in groups or not groups:
        return wanted if wanted in groups else DEFAULT_WORK_GROUP
    return DEFAULT_WORK_GROUP if DEFAULT_WORK_GROUP in groups else groups[0]


def _reading(broker: Broker, topic: Topic, group: str) -> QueueReading | None:
    readings = lately(broker).readings
    return None if readings is None else readings.queue(topic.name, group)


def _troubles(
    broker: Broker, topic: Topic, reading: QueueReading | None, dead_letters: int
) -> list[Trouble]:
    """With the same number of dead letters as everywhere on the page."""
    if reading is None:
        return []
    if not reading.dead_letters_of:
        reading = msgspec.structs.replace(reading, dead_letters=dead_letters)
    alerts = alerts_by_queue(lately(broker).alerts).get(topic.name, ())
    return troubles(reading, alerts)


def _idle(broker: Broker, topic: Topic, reading: QueueReading | None) -> list[str]:
    """The queues to which dead letters would go back and which no worker asks for messages."""
    readings = lately(broker).readings
    if readings is None or reading is None:
        return []
    found = (readings.queue(name) for name in reading.dead_letters_of or (topic.name,))
    return [one.queue for one in found if one is not None and not one.consumers]


def _points(broker: Broker, topic: Topic, group: str) -> dict[str, list[float]]:
    """The last minutes of each curve, for the small charts."""
    seen = lately(broker)
    key = queue_key(topic.name, group)
    found = {name: seen.points(key, name) for name in POINTS}
    return {name: points if any(points) else [] for name, points in found.items()}


def _oldest(node: Node, counts: QueueCounts) -> int | None:
    if counts.oldest_ms < 0 or not counts.ready + counts.leased + counts.delayed:
        return None
    return max(0, node.engine.topics.clock.wall_ms() - counts.oldest_ms)


def _here(topic: Topic, group: str) -> str:
    """The address of this page without a tab, to which one is added."""
    work = "" if group == DEFAULT_WORK_GROUP else f"group={segment(group)}&"
    return f"/queues/{segment(topic.name)}?{work}tab="


def _form(request: Request) -> str:
    wanted = request.query_params.get("view", AUTO)
    return wanted if wanted in FORMS else AUTO


def _command(topic: Topic, letters: Topic | None, tab: str, *, own: bool) -> str:
    if tab == "dead":
        if letters is None and not own:
            return f"penstock queue dead {topic.name} revive"
        return f"penstock queue redrive {topic.name if letters is None else letters.name} --dry-run"
    words = {"messages": "peek", "send": "send", "settings": "describe", "workers": "describe"}
    return f"penstock queue {words[tab]} {topic.name}"
