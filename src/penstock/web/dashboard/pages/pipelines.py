"""Pipelines: the last report of each, stage by stage."""

from starlette.requests import Request

from penstock.core.errors import Unavailable
from penstock.web.broker import Broker
from penstock.web.dashboard.view import View

TONES = {
    "running": "good", "done": "", "stopped": "", "waiting": "", "silent": "warning",
    "restarting": "attention", "failed": "critical",
}  # fmt: skip


async def pipelines(broker: Broker, _request: Request) -> View:
    """The page of pipeline reports."""
    if broker.node is None:
        raise Unavailable("the broker is starting; ask again", retry_after_ms=1_000)
    reports = await broker.node.pipeline_reports.reports()
    return View(
        template="pipelines.html",
        title="Pipelines",
        data={"pipelines": reports, "tones": TONES},
        json="/v1/pipelines",
        command="penstock pipeline status",
    )
