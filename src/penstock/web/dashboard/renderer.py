"""From a view to an answer: a page, the middle of a page, or JSON.

    GET /queues                                       the page
    GET /queues  x-penstock-fragment: 1               its `<main>` alone, for a page that is open
    GET /queues?format=json                           what is on it

Jinja2 is imported and the templates are compiled when the first page is asked for: most brokers
start without an open page. It takes some tenths of a second and happens beside the loop, which
has other things to do (`prepare`).

Every value is escaped where it is put into a page; a name that is missing in a template is an
error, not an empty place.
"""

import asyncio
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.errors import PenstockError
from penstock.core.version import __version__
from penstock.watch.alert import Alert
from penstock.watch.rules import RULES
from penstock.watch.runbooks import runbook_path
from penstock.web.answers import SAFE_HEADERS, json_answer
from penstock.web.broker import Broker
from penstock.web.dashboard.assets import asset_address, assets
from penstock.web.dashboard.live.status import alert_counts, other_nodes
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets import filters as words
from penstock.web.tokens import page_token

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent / "templates"
FRAGMENT = "x-penstock-fragment"
SAFE_PAGE = {
    **SAFE_HEADERS,
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every page: no inline scripts or styles, and none from other sites."""


_TITLES = {404: "Not found", 503: "Not now"}


DEFAULT_RANGE = "15m"
RANGES: Mapping[str, int] = {"15m": 900, "1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800}
"""In seconds."""


class ChartRange(msgspec.Struct, frozen=True):
    """How far back the charts of a page go, and the choices: `?range=6h` in the address."""

    name: str
    seconds: int
    names: tuple[str, ...] = tuple(RANGES)


def chart_range(request: Request) -> ChartRange:
    """What the address asks for."""
    name = request.query_params.get("range", DEFAULT_RANGE)
    name = name if name in RANGES else DEFAULT_RANGE
    return ChartRange(name, RANGES[name])


class Place(NamedTuple):
    """An entry of the navigation."""

    path: str
    name: str
    key: str
    """The key that opens it, pressed after `g`."""


NAVIGATION = (
    Place("/", "Overview", "o"),
    Place("/queues", "Queues", "q"),
    Place("/topics", "Topics", "t"),
    Place("/groups", "Groups", "g"),
    Place("/trace", "Trace", "m"),
    Place("/cluster", "Cluster", "c"),
    Place("/alerts", "Alerts", "a"),
    Place("/pipelines", "Pipelines", "p"),
    Place("/settings", "Settings", "s"),
    Place("/audit", "Audit", "l"),
)


async def prepare() -> None:
    """Have ready what pages are made with; at once if it is."""
    if not _prepared:
        await asyncio.to_thread(_prepare)


def render(broker: Broker, request: Request, view: View) -> Response:
    """The answer to a request for a page."""
    if request.query_params.get("format") == "json":
        return json_answer(view.data, status=view.status)
    template = environment().get_template(view.template)
    return page_answer(template.render(**_frame(broker, request, view), **view.data), view.status)


def page_answer(text: str | bytes, status: int = 200) -> Response:
    """A page that has been written, with what no page goes without."""
    return Response(text, status, media_type="text/html", headers=SAFE_PAGE)


def error_view(error: PenstockError) -> View:
    """A page that says what went wrong, for when there is nothing else to show."""
    return problem_view(error.http_status, type(error).__name__, str(error))


def problem_view(status: int, name: str, message: str) -> View:
    """The error page for an error that is not a `PenstockError`."""
    return View(
        template="error.html",
        title=_TITLES.get(status, "That went wrong"),
        data={"error": name, "message": message},
        status=status,
    )


def is_for_people(request: Request) -> bool:
    """Whether the answer is displayed by a browser."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


_prepared: list[str] = []
"""The templates that are compiled; none before the first page."""


def _prepare() -> None:
    assets()
    made = environment()
    names = made.list_templates()
    for name in names:
        made.get_template(name)
    _prepared[:] = names


@cache
def environment() -> "Environment":
    """The templates, with the words they use."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "number": words.number,
        "short": words.short_number,
        "rate": words.rate,
        "age": words.age,
        "short_age": words.short_age,
        "moment": words.moment,
        "clock": words.clock,
        "machine_moment": words.machine_moment,
        "size": words.size,
        "share": words.share,
        "segment": words.segment,
        "details": words.details,
        "cell": words.cell,
        "spark": words.spark,
    }
    made.globals |= {
        "asset": asset_address,
        "count_of": words.count_of,
        "runbook_of": runbook_address,
    }
    return made


def runbook_address(alert: Alert) -> str:
    """The address of an alert's runbook: on the configured site, or in this broker."""
    if alert.runbook.startswith(("http://", "https://")) or alert.rule not in RULES:
        return alert.runbook
    return runbook_path(alert.rule)


def address(request: Request, **changes: object) -> str:
    """The address of this page with other parameters; None takes one away. Templates know it as
    `with_query`."""
    query = {name: value for name, value in request.query_params.items() if name != "format"}
    query |= {name: str(value) for name, value in changes.items() if value is not None}
    query = {name: value for name, value in query.items() if changes.get(name, value) is not None}
    return request.url.path + ("?" + urlencode(query) if query else "")


def _frame(broker: Broker, request: Request, view: View) -> Mapping[str, object]:
    """The frame around every page."""
    engine = None if broker.node is None else broker.node.engine
    return {
        "view": view,
        "fragment": FRAGMENT in request.headers,
        "navigation": NAVIGATION,
        "current": _current(request.url.path),
        "range": chart_range(request),
        "with_query": lambda **changes: address(request, **changes),
        "json_address": view.json or address(request, format="json"),
        "token": page_token(broker),
        "read_only": broker.read_only,
        "version": __version__,
        "node_id": None if engine is None else engine.topics.node_id,
        "cluster_id": "" if engine is None else engine.topics.cluster_id,
        "phase": broker.phase.value,
        "problems": [*broker.problems(), *broker.warnings()],
        "alert_counts": alert_counts(broker),
        "other_nodes": other_nodes(broker),
    }


def _current(path: str) -> str:
    """The entry of the navigation that a page belongs to."""
    first = "/" + path.strip("/").partition("/")[0]
    first = "/alerts" if first == "/runbooks" else first
    return first if any(place.path == first for place in NAVIGATION) else ""
