"""`penstock generate grafana`: a board for Grafana, made from one list of panels.

A panel names metrics of `watch.metric_table` and nothing else; a test holds every expression
against that table, so that a metric that is renamed takes its panels along. Numbers of several
nodes are put together as the table says. The board asks for the source of its data when it is
imported, and has a choice of queues and of nodes on top.
"""

import sys

import msgspec

from penstock.cli.admin import Json
from penstock.core.version import __version__

WIDTH = 24
"""Grafana's grid."""
HEIGHT = 8
BOARD_ID = "penstock"
SCHEMA = 39
"""Of Grafana 10 and later."""
_BY = "$__rate_interval"


class Panel(msgspec.Struct, frozen=True):
    """A chart, or a number."""

    title: str
    queries: tuple[tuple[str, str], ...]
    """An expression, and the legend of what it gives."""
    unit: str = "short"
    width: int = 8
    single: bool = False
    """One number instead of a chart."""
    stacked: bool = False
    limits: tuple[float, float] | None = None
    """From where on it is yellow, and red."""
    about: str = ""


def _rate(metric: str, by: str, filters: str = "") -> str:
    return f"sum by ({by}) (rate({metric}{filters}[{_BY}]))"


def _quantile(quantile: float, metric: str, by: str = "", filters: str = "") -> str:
    grouped = f"le, {by}" if by else "le"
    inner = f"sum by ({grouped}) (rate({metric}_bucket{filters}[{_BY}]))"
    return f"histogram_quantile({quantile}, {inner})"


_QUEUE = '{queue=~"$queue"}'
_STATES = '{queue=~"$queue",state!="in_flight"}'  # `in_flight` is a deprecated alias.
_DESTINATION = '{destination=~"$queue"}'
_NODE = '{instance=~"$node"}'
_RESIDENT = '{instance=~"$node",what="resident"}'


def _share(part: str, whole: str) -> str:
    by = "destination"
    return f"{_rate(part, by, _DESTINATION)} / {_rate(whole, by, _DESTINATION)}"


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Now",
        (
            Panel("Nodes", (("count(penstock_node_info)", ""),), width=4, single=True),
            Panel(
                "Shards with a leader",
                (("sum(penstock_raft_leader)", ""),),
                width=4,
                single=True,
                about="Of all shards, the catalog's included.",
            ),
            Panel(
                "Sent",
                ((f"sum(rate(penstock_messages_produced_total[{_BY}]))", ""),),
                unit="cps",
                width=4,
                single=True,
            ),
            Panel(
                "Oldest message",
                (("max(penstock_queue_oldest_message_age_seconds)", ""),),
                unit="s",
                width=4,
                single=True,
                limits=(60, 600),
            ),
            Panel(
                "Dead letters",
                (("sum(penstock_queue_dead_letters)", ""),),
                width=4,
                single=True,
                limits=(100, 1_000),
            ),
            Panel(
                "Fullest disk",
                (("max(1 - penstock_disk_free_bytes / penstock_disk_size_bytes)", ""),),
                unit="percentunit",
                width=4,
                single=True,
                limits=(0.7, 0.8),
            ),
        ),
    ),
    (
        "Queues",
        (
            Panel(
                "Messages by state",
                ((f"sum by (state) (penstock_queue_messages{_STATES})", "{{state}}"),),
                stacked=True,
            ),
            Panel(
                "Ready, by queue",
                (
                    (
                        'sum by (queue) (penstock_queue_messages{queue=~"$queue",state="ready"})',
                        "{{queue}}",
                    ),
                ),
                limits=(10_000, 50_000),
            ),
            Panel(
                "Age of the oldest",
                (
                    (
                        f"max by (queue) (penstock_queue_oldest_message_age_seconds{_QUEUE})",
                        "{{queue}}",
                    ),
                ),
                unit="s",
            ),
            Panel(
                "Delivered, done, delivered again",
                (
                    (
                        _rate("penstock_messages_delivered_total", "destination", _DESTINATION),
                        "delivered {{destination}}",
                    ),
                    (
                        _rate("penstock_messages_acked_total", "destination", _DESTINATION),
                        "done {{destination}}",
                    ),
                    (
                        _rate("penstock_messages_redelivered_total", "destination", _DESTINATION),
                        "again {{destination}}",
                    ),
                ),
                unit="cps",
            ),
            Panel(
                "Failed and dead",
                (
                    (
                        _rate("penstock_messages_failed_total", "error_type", _DESTINATION),
                        "failed: {{error_type}}",
                    ),
                    (
                        _rate("penstock_messages_dead_lettered_total", "reason", _DESTINATION),
                        "dead: {{reason}}",
                    ),
                ),
                unit="cps",
            ),
            Panel(
                "Time to process, p95",
                (
                    (
                        _quantile(
                            0.95,
                            "penstock_message_processing_duration_seconds",
                            "destination",
                            _DESTINATION,
                        ),
                        "{{destination}}",
                    ),
                ),
                unit="s",
                about="From lease to acknowledgement, at the first delivery.",
            ),
            Panel(
                "Share that fails, by consumer",
                (
                    (
                        f"max by (queue, group, consumer) (penstock_consumer_error_ratio{_QUEUE})",
                        "{{consumer}} of {{queue}} {{group}}",
                    ),
                ),
                unit="percentunit",
                limits=(0.001, 0.01),
            ),
            Panel(
                "Depth, p50 and p99",
                tuple(
                    (
                        _quantile(share, "penstock_queue_depth_messages", "queue", _QUEUE),
                        f"p{share:.0%} {{{{queue}}}}".replace("%", ""),
                    )
                    for share in (0.5, 0.99)
                ),
                about="How many messages were ready, of the observations of the time shown.",
            ),
            Panel(
                "Messages of a batch",
                ((f"max by (queue) (batch_size_avg{_QUEUE})", "{{queue}}"),),
            ),
            Panel(
                "Consumers",
                ((f"max by (queue, group) (penstock_queue_consumers{_QUEUE})", "{{queue}}"),),
            ),
            Panel(
                "Dead letters by queue",
                ((f"sum by (queue) (penstock_queue_dead_letters{_QUEUE})", "{{queue}}"),),
                limits=(100, 1_000),
            ),
            Panel(
                "Share that fails",
                (
                    (
                        _share(
                            "penstock_messages_failed_total", "penstock_messages_delivered_total"
                        ),
                        "{{destination}}",
                    ),
                ),
                unit="percentunit",
                limits=(0.001, 0.01),
            ),
        ),
    ),
    (
        "Topics and groups",
        (
            Panel(
                "Sent, by topic",
                ((_rate("penstock_messages_produced_total", "destination"), "{{destination}}"),),
                unit="cps",
            ),
            Panel(
                "Bytes sent, by protocol",
                ((_rate("penstock_bytes_produced_total", "protocol"), "{{protocol}}"),),
                unit="Bps",
            ),
            Panel(
                "Lag of groups",
                (
                    (
                        "sum by (group, topic) (penstock_consumer_group_lag_messages)",
                        "{{group}} {{topic}}",
                    ),
                ),
                limits=(1_000, 10_000),
            ),
        ),
    ),
    (
        "Requests",
        (
            Panel(
                "Requests, by protocol",
                (
                    (
                        _rate("penstock_request_duration_seconds_count", "protocol", _NODE),
                        "{{protocol}}",
                    ),
                ),
                unit="reqps",
            ),
            Panel(
                "Duration, p99",
                (
                    (
                        _quantile(
                            0.99, "penstock_request_duration_seconds", "protocol, api", _NODE
                        ),
                        "{{protocol}} {{api}}",
                    ),
                ),
                unit="s",
            ),
            Panel(
                "Errors",
                (
                    (
                        _rate("penstock_request_errors_total", "protocol, api, code", _NODE),
                        "{{protocol}} {{api}} {{code}}",
                    ),
                ),
                unit="cps",
            ),
            Panel(
                "Connections",
                ((f"sum by (protocol) (penstock_connections{_NODE})", "{{protocol}}"),),
            ),
            Panel(
                "Memory held for clients",
                (
                    (f"sum by (instance) (penstock_held_bytes{_NODE})", "{{instance}}"),
                    (f"max(penstock_memory_budget_bytes{_NODE})", "budget"),
                ),
                unit="bytes",
            ),
            Panel(
                "Clients refused or disconnected for want of memory",
                (
                    (
                        _rate("penstock_memory_refused_total", "instance", _NODE),
                        "refused {{instance}}",
                    ),
                    (
                        _rate("penstock_memory_disconnected_total", "instance", _NODE),
                        "disconnected {{instance}}",
                    ),
                ),
                unit="cps",
            ),
            Panel(
                "Slow and held back",
                (
                    (_rate("penstock_slow_requests_total", "instance", _NODE), "slow {{instance}}"),
                    (_rate("penstock_loop_stalls_total", "instance", _NODE), "held {{instance}}"),
                    (_rate("penstock_throttled_total", "instance", _NODE), "held {{instance}}"),
                ),
                unit="cps",
            ),
        ),
    ),
    (
        "Agreement",
        (
            Panel(
                "Availability, last hour",
                ((f"penstock_availability_ratio{_NODE}", "{{instance}}"),),
                unit="percentunit",
                about="Every shard had a leader, and none of the node's a lost majority.",
            ),
            Panel(
                "Leaders, by node",
                ((f"sum by (instance) (penstock_raft_leader{_NODE})", "{{instance}}"),),
                stacked=True,
            ),
            Panel(
                "Elections",
                (
                    (
                        f"sum by (group) (increase(penstock_raft_elections_total[{_BY}]))",
                        "{{group}}",
                    ),
                ),
                about="A quiet cluster has none.",
            ),
            Panel(
                "Followers behind",
                (("max by (group) (penstock_raft_follower_lag_entries)", "shard {{group}}"),),
            ),
            Panel(
                "Time to commit",
                (
                    (_quantile(0.5, "penstock_raft_commit_duration_seconds"), "p50"),
                    (_quantile(0.99, "penstock_raft_commit_duration_seconds"), "p99"),
                ),
                unit="s",
            ),
            Panel(
                "Time to sync",
                (
                    (
                        _quantile(
                            0.99, "penstock_storage_fsync_duration_seconds", "instance", _NODE
                        ),
                        "p99 {{instance}}",
                    ),
                ),
                unit="s",
                about="Of a write to the disk; above 20 ms the disk sets the pace.",
            ),
            Panel(
                "Requests that wait for a commit",
                ((f"sum by (instance) (penstock_raft_waiting_requests{_NODE})", "{{instance}}"),),
            ),
        ),
    ),
    (
        "Disk and memory",
        (
            Panel(
                "Disk used",
                (
                    (
                        f"1 - penstock_disk_free_bytes{_NODE} / penstock_disk_size_bytes{_NODE}",
                        "{{instance}}",
                    ),
                ),
                unit="percentunit",
                limits=(0.7, 0.8),
            ),
            Panel(
                "Stored, by topic",
                (("sum by (topic) (penstock_storage_bytes)", "{{topic}}"),),
                unit="bytes",
                stacked=True,
            ),
            Panel(
                "Memory",
                (
                    (
                        f"sum by (instance) (penstock_memory_bytes{_RESIDENT})",
                        "{{instance}}",
                    ),
                ),
                unit="bytes",
            ),
        ),
    ),
)


def grafana(*, json: Json = False) -> None:
    """Print a board for Grafana: queues, lag, requests, agreement, disks.

    Import it in Grafana under Dashboards, New, Import, or put it where Grafana looks for boards.
    It reads the metrics that Prometheus collects with `penstock generate prometheus --scrape`.

    Examples
    --------
    penstock generate grafana > penstock-board.json
    """
    _ = json  # A board is a document anyway.
    sys.stdout.write(board_text())


def board_text() -> str:
    """The board, as JSON for people and for Grafana."""
    return msgspec.json.format(msgspec.json.encode(board()), indent=2).decode() + "\n"


def board() -> dict[str, object]:
    """The board."""
    return {
        "uid": BOARD_ID,
        "title": "Penstock",
        "description": f"Written by `penstock generate grafana` {__version__}.",
        "tags": ["penstock"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "graphTooltip": 1,
        "templating": {"list": _choices()},
        "panels": _panels(),
    }


def _choices() -> list[dict[str, object]]:
    source = {"type": "prometheus", "uid": "${source}"}
    every: dict[str, object] = {"text": "All", "value": "$__all"}
    common = {
        "type": "query",
        "datasource": source,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "refresh": 2,
        "sort": 1,
        "current": every,
    }
    return [
        {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"},
        common
        | {
            "name": "queue",
            "label": "Queue",
            "query": "label_values(penstock_queue_messages, queue)",
        },
        common
        | {
            "name": "node",
            "label": "Node",
            "query": "label_values(penstock_node_info, instance)",
        },
    ]


def _panels() -> list[dict[str, object]]:
    """All panels, row by row, each in its place on the grid."""
    made: list[dict[str, object]] = []
    top = 0
    for title, panels in ROWS:
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        made.append(
            {"id": len(made) + 1, "type": "row", "title": title, "gridPos": place, "panels": []}
        )
        top, left = top + 1, 0
        height = HEIGHT
        for panel in panels:
            height = HEIGHT // 2 if panel.single else HEIGHT
            if left + panel.width > WIDTH:
                top, left = top + height, 0
            place = {"x": left, "y": top, "w": panel.width, "h": height}
            made.append({"id": len(made) + 1, "gridPos": place, **_panel(panel)})
            left += panel.width
        top += height
    return made


def _panel(panel: Panel) -> dict[str, object]:
    source = {"type": "prometheus", "uid": "${source}"}
    colours: list[dict[str, object]] = [{"color": "green", "value": None}]
    if panel.limits is not None:
        yellow, red = panel.limits
        colours += [{"color": "yellow", "value": yellow}, {"color": "red", "value": red}]
    custom: dict[str, object] = {"fillOpacity": 10, "lineWidth": 1, "showPoints": "never"}
    if panel.stacked:
        custom |= {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 30}
    if panel.limits is not None and not panel.single:
        custom |= {"thresholdsStyle": {"mode": "dashed"}}
    defaults: dict[str, object] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": colours},
    }
    if not panel.single:
        defaults |= {"custom": custom, "color": {"mode": "palette-classic"}}
    options: dict[str, object] = (
        {"colorMode": "value", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}}
        if panel.single
        else {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    )
    return {
        "type": "stat" if panel.single else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "targets": [
            {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
    }
