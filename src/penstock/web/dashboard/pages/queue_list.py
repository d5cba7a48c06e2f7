"""The page of all queues: by urgency, or in the requested order."""

from collections.abc import Callable, Mapping

from starlette.requests import Request

from penstock.web.broker import Broker
from penstock.web.dashboard.live.recent_readings import alerts_by_queue, lately
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.pagination import part_of
from penstock.web.dashboard.widgets.trouble import QueueRow, by_trouble

ROWS = 100
NEW_QUEUE: Mapping[str, str] = {
    "suffix": "-dlq",
    "deliveries_max": "5",
    "retry_policy": "jittered",
    "retry_delay_ms": "2s",
    "lease_ms": "30s",
}
"""The initial values of the form for a new queue: exponential retries and a dead-letter queue."""
_KEYS: Mapping[str, Callable[[QueueRow], float | str]] = {
    "name": lambda row: row.reading.queue,
    "ready": lambda row: row.reading.ready,
    "leased": lambda row: row.reading.leased,
    "delayed": lambda row: row.reading.delayed,
    "dead": lambda row: row.reading.dead_letters,
    "oldest": lambda row: row.reading.oldest_age_ms or 0,
    "in": lambda row: row.reading.in_rate,
    "done": lambda row: row.reading.ack_rate,
    "errors": lambda row: row.reading.error_rate,
    "workers": lambda row: row.reading.consumers,
}


async def queue_list(broker: Broker, request: Request) -> View:
    """The page of all queues."""
    seen = lately(broker)
    rows: list[QueueRow] = []
    if seen.readings is not None:
        rows = by_trouble(seen.readings.queues, alerts_by_queue(seen.alerts))
    total = len(rows)
    wanted = request.query_params.get("q", "")
    rows = [row for row in rows if wanted.lower() in row.reading.queue.lower()]
    sort = request.query_params.get("sort", "")
    key = _KEYS.get(sort.removeprefix("-"))
    if key is not None:
        rows.sort(key=key, reverse=sort.startswith("-"))
    part = part_of(request, len(rows), ROWS)
    return View(
        template="queues.html",
        title="Queues",
        data={
            "known": seen.readings is not None,
            "q": wanted,
            "new": NEW_QUEUE,
            "sort": sort if key is not None else "",
            "total": total,
            "found": len(rows),
            "troubled": sum(1 for row in rows if row.tone),
            "part": part,
            "queues": [seen.with_points(row) for row in rows[part.first : part.end]],
        },
        json="/v1/queues",
        command="penstock queue list",
    )
