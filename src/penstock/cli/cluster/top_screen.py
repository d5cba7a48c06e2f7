"""The screen of `penstock top`: a line about the cluster, then tables, worst first, cut to fit.

Rules: what is printed comes from a `Frame` and nothing else, and control characters in names do
not reach the terminal.
"""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.cluster.rates import Frame, GroupRow, Level, NodeRow, QueueRow, Totals
from penstock.cli.table import format_age

STYLES = {
    Level.FINE: "",
    Level.ATTENTION: "yellow",
    Level.WARNING: "bold yellow",
    Level.CRITICAL: "bold red",
}
OVERHEAD_LINES = 6
"""The number of fixed lines: two about the cluster, heads, and the number of rows left out."""
WIDE_COLUMNS = 100
"""On a narrower screen, colours alone say how a queue is."""
SMALL_ROWS = 5
"""The minimal number of groups shown, however small the screen is."""


def draw(
    frame: Frame, *, lines: int | None = None, columns: int = WIDE_COLUMNS, note: str = ""
) -> RenderableType:
    """The whole screen; `lines` is its height, if that is limited."""
    groups_shown, queues_shown = _shares(frame, lines)
    parts: list[RenderableType] = [_first_line(frame, note), _second_line(frame.totals), Text()]
    parts.append(_queue_table(frame.queues[:queues_shown], wide=columns >= WIDE_COLUMNS))
    parts += _left_out("queue", len(frame.queues) - queues_shown, more=frame.more_queues)
    if frame.groups:
        parts += [Text(), _group_table(frame.groups[:groups_shown])]
        parts += _left_out("group", len(frame.groups) - groups_shown)
    return Group(*parts)


def _shares(frame: Frame, lines: int | None) -> tuple[int, int]:
    """The numbers of groups and of queues that fit on the screen."""
    if lines is None:
        return len(frame.groups), len(frame.queues)
    room = max(1, lines - OVERHEAD_LINES)
    if not frame.groups:
        return 0, room
    room = max(2, room - 3)
    groups = min(len(frame.groups), max(SMALL_ROWS, room - len(frame.queues)), room - 1)
    return groups, max(1, room - groups)


def _first_line(frame: Frame, note: str) -> Text:
    text = Text(frame.health or "cluster", style="bold")
    for node in frame.nodes:
        text.append("  ")
        text.append(_node(node), style="" if node.alive else "bold red")
    if note:
        text.append(f"  {note}", style="bold red")
    return text


def _node(node: NodeRow) -> str:
    if not node.alive:
        return f"node {node.node} is gone"
    return f"node {node.node} leads {node.leads}"


def _second_line(totals: Totals) -> Text:
    return Text(
        f"ready {totals.ready:,}  leased {totals.leased:,}  delayed {totals.delayed:,}"
        f"  dead {totals.dead:,}  in {_rate(totals.in_rate)}/s  out {_rate(totals.out_rate)}/s"
        f"  ack {_rate(totals.ack_rate)}/s"
    )


def _queue_table(rows: Sequence[QueueRow], *, wide: bool) -> RenderableType:
    if not rows:
        return Text("there are no queues; make one: penstock queue create NAME")
    table = _table(
        ("QUEUE", "GROUP", "STATE") if wide else ("QUEUE",),
        ("READY", "LEASED", "DELAYED", "DEAD", "OLDEST", "IN/S", "OUT/S", "ACK/S"),
    )
    for row in rows:
        state = "paused" if row.paused else row.level.name.lower()
        age = "-" if row.oldest_age_ms is None else format_age(row.oldest_age_ms)
        counts = (row.ready, row.leased, row.delayed, row.dead)
        rates = (row.in_rate, row.out_rate, row.ack_rate)
        table.add_row(
            Text(_plain(row.queue)),
            *((Text(_plain(row.group)), state) if wide else ()),
            *(f"{one:,}" for one in counts),
            age,
            *(_rate(one) for one in rates),
            style=STYLES[row.level],
        )
    return table


def _group_table(rows: Sequence[GroupRow]) -> Table:
    table = _table(("READERS", "STATE"), ("MEMBERS", "LAG", "IN/S", "OUT/S"))
    for row in rows:
        table.add_row(
            Text(_plain(row.group)),
            _plain(row.state),
            f"{row.members:,}",
            f"{row.lag:,}",
            _rate(row.in_rate),
            _rate(row.out_rate),
            style=STYLES[row.level],
        )
    return table


def _table(words: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for head in words:
        table.add_column(head, no_wrap=True, overflow="ellipsis")
    for head in numbers:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _left_out(what: str, count: int, *, more: bool = False) -> list[RenderableType]:
    if count <= 0 and not more:
        return []
    number = f"{'at least ' if more else ''}{count:,} " if count > 0 else ""
    return [Text(f"… and {number}more {what}{'' if count == 1 and not more else 's'}", style="dim")]


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _plain(name: str) -> str:
    """Escape characters of a name that are not printable."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in name)
