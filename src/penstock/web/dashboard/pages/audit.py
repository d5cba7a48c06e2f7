"""The page of operators' actions, newest first."""

from starlette.requests import Request

from penstock.web.broker import Broker, node_of
from penstock.web.dashboard.view import View
from penstock.web.requests import whole_number

LINES_SHOWN = 200
LINES_MAX = 1_000


async def audit(broker: Broker, request: Request) -> View:
    """The last orders, or those that have a text in them."""
    limit = whole_number(request, "limit", LINES_SHOWN, least=1, most=LINES_MAX)
    wanted = request.query_params.get("q", "").strip().lower()
    lines = [
        line
        for line in await node_of(broker).audit.recent(LINES_MAX if wanted else limit)
        if wanted in f"{line.who} {line.action} {line.target} {line.detail}".lower()
    ]
    return View(
        template="audit.html",
        title="Audit",
        data={"lines": lines[:limit], "q": wanted},
        json="/v1/audit",
        command="penstock consume __audit -o start",
    )
