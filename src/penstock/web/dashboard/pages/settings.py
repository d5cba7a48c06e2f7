"""The settings in force, each with where it was set. There are no secrets among them."""

from itertools import groupby

from starlette.requests import Request

from penstock.web.broker import Broker, SettingRow
from penstock.web.dashboard.view import View

BARE = "broker"


async def settings(broker: Broker, request: Request) -> View:
    """All of them, or those that were changed, section by section."""
    wanted = request.query_params.get("q", "").strip().lower()
    changed = request.query_params.get("only") == "changed"
    rows = [
        row
        for row in broker.settings()
        if wanted in f"{row.name} {row.value}".lower() and (not changed or _is_changed(row))
    ]
    return View(
        template="settings.html",
        title="Settings",
        data={
            "sections": [
                {"name": name, "rows": list(some)} for name, some in groupby(rows, key=_section)
            ],
            "q": wanted,
            "only": "changed" if changed else "",
            "changed": sum(map(_is_changed, broker.settings())),
        },
        json="/v1/config",
        command="penstock config show",
    )


def _section(row: SettingRow) -> str:
    section, dot, _ = row.name.partition(".")
    return section if dot else BARE


def _is_changed(row: SettingRow) -> bool:
    return row.source != "default"
