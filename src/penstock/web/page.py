"""The page at `/`: that a broker is running, and what is in it. No scripts, nothing from elsewhere.

Everything that came from outside, down to the name of a topic, goes through `escape`.
"""

from collections.abc import Iterable, Sequence
from html import escape

from penstock.core.errors import PenstockError
from penstock.core.pipeline_report import PipelineReport
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.core.version import __version__
from penstock.web.broker import Broker, Engine, Phase

ROWS_MAX = 200
"""Of each table; what is beyond is counted, not shown."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5d6b7c; --line: #d8dee6;
  --paper: #fbfcfd; --good: #1a7f4b; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --soft: #93a1b3; --line: #2c3644;
  --paper: #12171e; --good: #5fd39a; --bad: #ff8a80 } }
body { margin: 2.5rem auto; max-width: 60rem; padding: 0 1.25rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1rem; margin: 2rem 0 .5rem }
p { margin: .25rem 0 } .soft { color: var(--soft) }
.good { color: var(--good) } .bad { color: var(--bad) }
table { border-collapse: collapse; width: 100% }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .85rem }
th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line) }
td.number, th.number { text-align: right } code { font-size: .9em }
"""

_PATHS = ("/readyz", "/v1/cluster", "/v1/queues", "/v1/groups", "/v1/pipelines", "/v1/config")

Row = Sequence[object]


def render_page(broker: Broker, pipelines: Sequence[PipelineReport] = ()) -> str:
    """The page as it is now."""
    engine = None if broker.node is None else broker.node.engine
    parts = [_headline(broker)]
    if engine is not None:
        try:
            parts += [_nodes(engine), _topics(engine), _groups(engine)]
        except PenstockError as error:
            parts.append(f'<p class="bad">{escape(str(error))}</p>')
    if pipelines:
        parts.append(_pipelines(pipelines))
    parts.append(
        '<h2>For programs</h2><p class="soft">'
        + " · ".join(f'<a href="{path}">{path}</a>' for path in _PATHS)
        + "</p>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="refresh" content="5">'
        f"<title>Penstock</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _headline(broker: Broker) -> str:
    problems = broker.problems()
    engine = None if broker.node is None else broker.node.engine
    whole = broker.phase is Phase.SERVING and not problems
    sentence = "It is running." if whole else f"It is {broker.phase.value}."
    lines = [
        f"<h1>Penstock <span class='soft'>{escape(__version__)}</span></h1>",
        f'<p class="{"good" if whole else "bad"}">{sentence}</p>',
        *(f'<p class="bad">{escape(problem)}</p>' for problem in problems),
    ]
    if engine is not None:
        lines.append(
            f'<p class="soft">Node {engine.node_id} of cluster'
            f" <code>{escape(engine.cluster_id)}</code></p>"
        )
    return "".join(lines)


def _nodes(engine: Engine) -> str:
    alive = set(engine.alive())
    led: dict[NodeId, int] = {}
    for number in engine.shards():
        leader = engine.leader(ShardId(number)).node
        if leader != NO_NODE:
            led[leader] = led.get(leader, 0) + 1
    rows = [
        (node, record.kafka, record.http, "yes" if node in alive else "no", led.get(node, 0))
        for node, record in sorted(engine.catalog.nodes.items())
    ]
    return _table("Nodes", ("Node", "Kafka", "HTTP", "In touch", "Shards led"), rows)


def _topics(engine: Engine) -> str:
    rows = [(name, len(topic.partitions)) for name, topic in sorted(engine.catalog.topics.items())]
    return _table("Topics", ("Topic", "Partitions"), rows)


def _groups(engine: Engine) -> str:
    rows = sorted(
        (row.group, row.state) for keeper in engine.led_coordinators() for row in keeper.groups()
    )
    return _table("Consumer groups that this node looks after", ("Group", "State"), rows)


def _pipelines(reports: Sequence[PipelineReport]) -> str:
    heads = ("Pipeline", "Stage", "State", "Rows in", "Out", "Dead", "Rows/s", "Lag", "Batch ms",
             "Last error")  # fmt: skip
    rows = [
        (
            report.pipeline,
            stage.stage,
            stage.state if report.state == "running" else report.state,
            stage.rows_in,
            stage.rows_out,
            stage.rows_dead,
            f"{stage.rate:,.0f}",
            "-" if stage.lag is None else stage.lag,
            stage.batch_ms,
            stage.error,
        )
        for report in reports
        for stage in report.stages
    ]
    return _table("Pipelines", heads, rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Row]) -> str:
    if not rows:
        return f'<h2>{title}</h2><p class="soft">None.</p>'
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in rows[:ROWS_MAX])
    more = len(rows) - ROWS_MAX
    rest = f'<p class="soft">and {more} more</p>' if more > 0 else ""
    return f"<h2>{title}</h2><table><tr>{_cells('th', heads)}</tr>{body}</table>{rest}"


def _cells(tag: str, values: Iterable[object]) -> str:
    return "".join(f"<{tag}>{escape(str(value))}</{tag}>" for value in values)
