"""The readings of the watch over HTTP, as documents.

    GET     /v1/readings            everything, as of a few seconds ago (?queue= or ?group=: one)
    GET     /v1/history             curves for charts (?queue= &group= &topic= &node= &names=
                                    &since_s=)
    GET     /v1/alerts              what is wrong, what was, and the rules (?state=firing)
    POST    /v1/alerts/test         send a test to the webhook, and say how that went
    GET     /v1/events              what happened on all nodes, the newest last (?limit= &kind=)

Any node can be asked. Nothing here changes anything but the test, which sends one message.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.errors import InvalidRequest, Unavailable, UnknownGroup, UnknownTopic
from penstock.core.limits import (
    EVENTS_MAX,
    HISTORY_LONG_STEP_MS,
    HISTORY_LONG_STEPS,
    HISTORY_STEP_MS,
    HISTORY_STEPS,
)
from penstock.core.message_states import current_state
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.watch.alert import Alert
from penstock.watch.history import (
    CLUSTER,
    CLUSTER_NAMES,
    DEPRECATED_NAMES,
    GROUP_NAMES,
    NODE_NAMES,
    QUEUE_NAMES,
    TOPIC_NAMES,
    Curves,
    Key,
    queue_key,
)
from penstock.watch.readings import GroupReading, QueueReading, Readings
from penstock.watch.rules import RULES
from penstock.watch.watch import Watch
from penstock.web.answer_types import AlertBoard, AlertTested, EventList, RuleLine
from penstock.web.answers import json_answer
from penstock.web.api_operation import ApiOperation, QueryParameter, limit_parameter
from penstock.web.broker import Broker, node_of
from penstock.web.requests import bounded, whole_number

SINCE_SECONDS = HISTORY_STEP_MS * HISTORY_STEPS // 1_000
SINCE_SECONDS_MAX = HISTORY_LONG_STEP_MS * HISTORY_LONG_STEPS // 1_000
EVENT_LINES = 200


def watch_routes(broker: Broker) -> Sequence[ApiOperation]:
    watching = _Watching(broker)
    return [
        ApiOperation(
            "GET",
            "/v1/readings",
            watching.readings,
            "Read everything as of a few seconds ago, or one queue or consumer group",
            query=[_QUEUE, _GROUP],
            answers={200: (Readings, QueueReading, GroupReading)},
        ),
        ApiOperation(
            "GET",
            "/v1/history",
            watching.history,
            "Read curves for charts: of the cluster, or of one queue, group, topic or node",
            query=[
                _QUEUE,
                _GROUP,
                QueryParameter("topic", str, "The curves of this topic"),
                QueryParameter("node", str, "The curves of this node"),
                QueryParameter("names", str, "The curves, separated by commas"),
                QueryParameter(
                    "since_s",
                    Annotated[int, msgspec.Meta(ge=1, le=SINCE_SECONDS_MAX)],
                    "How far back",
                ),
            ],
            answers={200: Curves},
        ),
        ApiOperation(
            "GET",
            "/v1/alerts",
            watching.alerts,
            "List the current and recent alerts, and the rules",
            query=[
                QueryParameter(
                    "state",
                    Literal["", "firing", "pending", "resolved"],
                    "Only alerts in this state",
                )
            ],
            answers={200: AlertBoard},
        ),
        ApiOperation(
            "POST",
            "/v1/alerts/test",
            watching.test,
            "Send a test to the webhook, and report the result",
            answers={200: AlertTested},
        ),
        ApiOperation(
            "GET",
            "/v1/events",
            watching.events,
            "List the events of all nodes, newest last",
            query=[
                limit_parameter(EVENT_LINES, EVENTS_MAX),
                QueryParameter("kind", str, "Only events of this kind"),
            ],
            answers={200: EventList},
        ),
    ]


_QUEUE = QueryParameter("queue", str, "This queue")
_GROUP = QueryParameter("group", str, "This consumer group; with `queue`, this work group")


class _Watching:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def readings(self, request: Request) -> Response:
        readings = self._readings()
        queue, group = (request.query_params.get(name) for name in ("queue", "group"))
        if queue is not None:
            found = readings.queue(queue, group)
            if found is None:
                raise UnknownTopic(f"there is no queue {queue}")
            return json_answer(found)
        if group is not None:
            reading = readings.group(group)
            if reading is None:
                raise UnknownGroup(f"there is no group {group}")
            return json_answer(reading)
        return json_answer(readings)

    async def history(self, request: Request) -> Response:
        """Serve a curve. Times without a reading are 0, as for a queue that has just been
        created."""
        watch = self._watch()
        since_s = whole_number(request, "since_s", SINCE_SECONDS, least=1, most=SINCE_SECONDS_MAX)
        key, known = _asked(request)
        text = request.query_params.get("names", "")
        names = tuple(part.strip() for part in text.split(",") if part.strip())
        if not names:
            names = known + tuple(old for new, old in DEPRECATED_NAMES.items() if new in known)
        for name in names:
            if current_state(name) not in known:
                raise InvalidRequest(f"there is no curve {name[:60]}; there are {', '.join(known)}")
        at_ms = 0 if watch.readings is None else watch.readings.at_ms
        since_ms = at_ms - 1_000 * since_s
        return json_answer(watch.long_history.curves(key, names, since_ms, at_ms))

    async def alerts(self, request: Request) -> Response:
        watch = self._watch()
        state = request.query_params.get("state", "")
        if state not in ("", "firing", "pending", "resolved"):
            raise InvalidRequest("state is firing, pending or resolved")
        active = [
            _with_silence(watch, one)
            for one in watch.alerts.active()
            if state in ("", one.state.value)
        ]
        return json_answer(
            AlertBoard(
                enabled=watch.settings.enabled,
                webhook=watch.webhook.shown,
                webhook_statistics=watch.webhook.statistics(),
                alerts=active,
                resolved=watch.alerts.resolved() if state in ("", "resolved") else (),
                silences=watch.silences.current(),
                rules=[
                    RuleLine(
                        rule=rule.name,
                        title=rule.title,
                        about=rule.about,
                        unit=rule.unit.value,
                        below=rule.below,
                        target=rule.target,
                        levels=watch.settings.levels[rule.name],
                        meaning=rule.meaning,
                        advice=rule.advice,
                        runbook=rule.runbook,
                    )
                    for rule in RULES.values()
                ],
            )
        )

    async def test(self, _request: Request) -> Response:
        watch = self._watch()
        await bounded(watch.test())
        return json_answer(AlertTested(sent=True, webhook=watch.webhook.shown))

    async def events(self, request: Request) -> Response:
        limit = whole_number(request, "limit", EVENT_LINES, least=1, most=EVENTS_MAX)
        kind = request.query_params.get("kind", "")
        events = node_of(self._broker).events
        found = await events.everywhere(EVENTS_MAX if kind else limit)
        chosen = [one for one in found if kind in ("", one.kind)]
        return json_answer(EventList(chosen[-limit:]))

    def _watch(self) -> Watch:
        if self._broker.watch is None:
            raise Unavailable("the broker is starting; ask again", retry_after_ms=1_000)
        return self._broker.watch

    def _readings(self) -> Readings:
        readings = self._watch().readings
        if readings is None:
            raise Unavailable("the first survey is under way; ask again", retry_after_ms=1_000)
        return readings


def _with_silence(watch: Watch, alert: Alert) -> Alert:
    """The alert, with what covers it."""
    found = watch.silences.of(alert)
    return alert if found is None else msgspec.structs.replace(alert, silence=found.id)


def _asked(request: Request) -> tuple[Key, tuple[str, ...]]:
    """The key of the curves, and the names of those it has."""
    asked = request.query_params
    if "queue" in asked:
        return queue_key(asked["queue"], asked.get("group", DEFAULT_WORK_GROUP)), QUEUE_NAMES
    if "group" in asked:
        return ("group", asked["group"]), GROUP_NAMES
    if "topic" in asked:
        return ("topic", asked["topic"]), TOPIC_NAMES
    if "node" in asked:
        return ("node", asked["node"]), NODE_NAMES
    return CLUSTER, CLUSTER_NAMES
