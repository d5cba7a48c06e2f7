"""Every page, and where it is.

A page is added here, in one line; what it needs besides is a function in a module of its own and a
template. The function raises our errors as they come: they become a page that says so.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.core.errors import PenstockError
from penstock.web.broker import Broker
from penstock.web.dashboard.assets import answer_asset
from penstock.web.dashboard.live.page_cache import Shared
from penstock.web.dashboard.live.stream import Live
from penstock.web.dashboard.pages.alerts import alerts
from penstock.web.dashboard.pages.audit import audit
from penstock.web.dashboard.pages.cluster import cluster
from penstock.web.dashboard.pages.group_list import group_list
from penstock.web.dashboard.pages.group_page import group_page
from penstock.web.dashboard.pages.overview import overview
from penstock.web.dashboard.pages.pipelines import pipelines
from penstock.web.dashboard.pages.queue_list import queue_list
from penstock.web.dashboard.pages.queue_page import queue_page
from penstock.web.dashboard.pages.runbook_page import runbook_list, runbook_page
from penstock.web.dashboard.pages.search import search
from penstock.web.dashboard.pages.settings import settings
from penstock.web.dashboard.pages.topic_list import topic_list
from penstock.web.dashboard.pages.topic_page import topic_page
from penstock.web.dashboard.pages.trace_page import trace_page
from penstock.web.dashboard.renderer import error_view, prepare, render
from penstock.web.dashboard.view import Page

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]

PAGES: dict[str, Page] = {
    "/": overview,
    "/queues": queue_list,
    "/queues/{name}": queue_page,
    "/topics": topic_list,
    "/topics/{name}": topic_page,
    "/groups": group_list,
    "/groups/{name:path}": group_page,
    "/trace": trace_page,
    "/cluster": cluster,
    "/alerts": alerts,
    "/runbooks": runbook_list,
    "/runbooks/{name}": runbook_page,
    "/pipelines": pipelines,
    "/settings": settings,
    "/audit": audit,
    "/search": search,
}


SHARED = ("/", "/queues", "/groups")
"""Pages that show only readings of the watch, which all users share: see `shared.py`."""


def page_routes(broker: Broker) -> Sequence[Route]:
    """Return the routes of the dashboard."""
    shared = Shared(broker)
    return [
        *(
            _shared_route(broker, path, page, shared)
            if path in SHARED
            else Route(path, _answer(broker, page))
            for path, page in PAGES.items()
        ),
        Route("/live", Live(broker).answer),
        Route("/assets/{file}", answer_asset),
    ]


def _answer(broker: Broker, page: Page) -> Answer:
    async def answer(request: Request) -> Response:
        await prepare()
        try:
            view = await page(broker, request)
        except PenstockError as error:
            view = error_view(error)
        return render(broker, request, view)

    return answer


def _shared_route(broker: Broker, path: str, page: Page, shared: Shared) -> Route:
    make = _answer(broker, page)

    async def answer(request: Request) -> Response:
        found = shared.find(request)
        if found is None:
            found = await make(request)
            shared.keep(request, found)
        return found

    return Route(path, answer)
