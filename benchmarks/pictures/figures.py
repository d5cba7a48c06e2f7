"""Which pictures there are, and which numbers of a document go into each.

A picture whose numbers are not in the document is not drawn; a system that was not found on the
machine is not in it. What the numbers are called is agreed with the benchmarks by name only, so
that any record can be drawn, also one that was made elsewhere.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.pictures.bars import Bar, Block, Row, draw_bars
from benchmarks.pictures.dots import Section, Span, draw_dots
from benchmarks.pictures.lines import Line, Plot, draw_lines
from benchmarks.pictures.scales import short
from benchmarks.record import Document
from benchmarks.report import KIB, MIB, Measured, number

OURS = "Penstock"
SIZES = {100: "100 B", KIB: "1 KiB"}
LIMIT = "client's limit"
SYNCED = "synced"
PALE = "; pale: does not sync"


def draw(document: Document, directory: Path) -> list[Path]:
    """Every picture there are numbers for."""
    drawn = []
    for name, figure in FIGURES.items():
        text = figure(document)
        if text is not None:
            path = directory / f"{name}.svg"
            path.write_text(text, "utf-8")
            drawn.append(path)
    return drawn


def queues(document: Document) -> str | None:
    """Send, receive and ack, by system."""
    blocks = []
    for size, label in SIZES.items():
        rows = [one for one in _rows(document, "native-throughput") if _size(one) == size]
        ways = (("send", "Send"), ("receive, ack", "Receive and acknowledge"))
        columns = [f"{title}, {label}" for _, title in ways]
        block = _block(rows, [way for way, _ in ways], columns)
        if block.rows:
            blocks.append(block)
    if not blocks:
        return None
    return draw_bars(
        "Queues: throughput",
        "messages a second through each system's Python client, one process, in batches; longer"
        " is better" + PALE,
        blocks,
        _foot(document, "native-throughput"),
    )


def logs(document: Document) -> str | None:
    """Produce and consume through Kafka's protocol, by system."""
    every = [
        row
        for row in _rows(document, "broker-throughput")
        if not str(row["system"]).startswith(LIMIT)
    ]
    blocks = []
    for label in SIZES.values():
        rows = [row for row in every if row["message"] == label]
        columns = [f"{way}, {label}" for way in ("Produce", "Consume")]
        block = _block(rows, ["produce", "consume"], columns)
        if block.rows:
            blocks.append(block)
    if not blocks:
        return None
    return draw_bars(
        "Kafka's protocol: throughput",
        "messages a second through one confluent-kafka client with acks=all; longer is better"
        + PALE,
        blocks,
        _foot(document, "broker-throughput"),
    )


def sqs(document: Document) -> str | None:
    """The SQS API, by system."""
    rows = [{**row, "way": row["load"]} for row in _rows(document, "sqs")]
    if not rows:
        return None
    ways = list(dict.fromkeys(str(row["way"]) for row in rows))
    columns = [way.replace("batches of 10", "by 10").capitalize() for way in ways]
    return draw_bars(
        "SQS API: throughput",
        "messages a second of 100 B, one client process; longer is better" + PALE,
        [_block(rows, ways, columns)],
        _foot(document, "sqs"),
    )


def latency(document: Document) -> str | None:
    """From sending to receiving, by system."""
    found = (
        ("Queues, each by its Python client", "native-latency"),
        ("Kafka's protocol, by confluent-kafka", "broker-latency"),
    )
    sections = []
    for heading, name in found:
        spans = [
            Span(
                name=str(row["system"]),
                under=_durable(row),
                ours=_is_ours(row),
                synced=_is_synced(row),
                p50_ms=number(row, "p50_ms"),
                p99_ms=number(row, "p99_ms"),
            )
            for row in _rows(document, name)
        ]
        if spans:
            ordered = sorted(spans, key=lambda one: (not one.ours, one.p50_ms))
            sections.append(Section(heading=heading, spans=ordered))
    if not sections:
        return None
    return draw_dots(
        "From sending to receiving",
        "milliseconds at 500 messages a second, from when each was due; further left is better"
        + PALE,
        sections,
        _foot(document, "native-latency", "broker-latency"),
    )


def memory(document: Document) -> str | None:
    """Memory of the servers, idle and under load."""
    blocks = []
    under_load = _largest(_rows(document, "native-throughput"), "broker_memory_bytes")
    idle = _largest(_rows(document, "native-start"), "memory_bytes")
    rows = _pairs(under_load, idle, MIB)
    if rows:
        blocks.append(Block(columns=["Queues, under load, MiB", "Just started, MiB"], rows=rows))
    logged = [one for one in _rows(document, "broker-memory") if "system" in one]
    started = [
        one
        for one in _rows(document, "broker-start")
        if _is_fresh(one) and str(one["system"]).endswith("1 node")
    ]
    rows = _pairs(_largest(logged, "memory_bytes"), _largest(started, "memory_bytes"), MIB)
    if rows:
        heads = ["Kafka's protocol, under load, MiB", "Just started, MiB"]
        blocks.append(Block(columns=heads, rows=rows))
    if not blocks:
        return None
    return draw_bars(
        "Memory",
        "resident memory of the server, the largest seen; shorter is better",
        blocks,
        _foot(document, "native-start", "broker-memory"),
    )


def starts(document: Document) -> str | None:
    """Cold starts."""
    blocks = []
    kept = _largest(_rows(document, "native-start"), "ready_seconds")
    answered = _largest(_rows(document, "native-start"), "first_answer_seconds")
    if rows := _pairs(kept, answered, 1, smallest_first=True):
        heads = ["Queues, until it answers, s", "Until a client has made a queue, s"]
        blocks.append(Block(columns=heads, rows=rows))
    fresh = [one for one in _rows(document, "broker-start") if _is_fresh(one)]
    again = [one for one in _rows(document, "broker-start") if not _is_fresh(one)]
    if rows := _pairs(
        _largest(fresh, "ready_seconds"),
        _largest(again, "ready_seconds"),
        1,
        smallest_first=True,
    ):
        heads = ["Kafka's protocol, empty, until ready, s", "After kill -9, with data, s"]
        blocks.append(Block(columns=heads, rows=rows))
    if not blocks:
        return None
    return draw_bars(
        "Cold start",
        "seconds from the start of the process until it serves; shorter is better",
        blocks,
        _foot(document, "native-start", "broker-start"),
        write=lambda value: f"{value:.2f}",
    )


def scaling(
    name: str,
    axis: str,
    title: str,
    label: str,
    aim: float | None = None,
    aim_at: int | None = None,
) -> Callable[[Document], str | None]:
    """A picture of lines over one axis; `aim_at` is the size at which the aim is meant."""

    def figure(document: Document) -> str | None:
        rows = _rows(document, name)
        if not rows:
            return None
        sizes = sorted({int(number(row, axis)) for row in rows})
        lines = []
        for way in dict.fromkeys(str(row["way"]) for row in rows):
            found = {int(number(row, axis)): row for row in rows if row["way"] == way}
            rates = [number(found[size], "messages_per_second") for size in sizes]
            lines.append(
                Line(
                    name=way,
                    ratios=[number(found[size], "ratio_to_first") for size in sizes],
                    first_rate=rates[0],
                    last_rate=rates[-1],
                )
            )
        plot = Plot(
            points=[_count(size) for size in sizes],
            under=[f"{_memory_at(rows, axis, size) / MIB:.0f} MiB" for size in sizes],
            axis=label,
            lines=lines,
            aim=aim,
            aim_at=sizes.index(aim_at) if aim_at in sizes else None,
        )
        subtitle = "throughput, as a share of that at the first point; flat is good, up is better"
        return draw_lines(title, subtitle, plot, _foot(document, name))

    return figure


def _memory_at(rows: Iterable[Measured], axis: str, size: int) -> float:
    return max(number(row, "memory_bytes") for row in rows if row[axis] == size)


def _count(size: int) -> str:
    return short(size).replace(".00", "").replace(".0", "")


FIGURES: dict[str, Callable[[Document], str | None]] = {
    "throughput-queues": queues,
    "throughput-kafka": logs,
    "throughput-sqs": sqs,
    "latency": latency,
    "memory": memory,
    "start": starts,
    "scaling-backlog": scaling(
        "scaling-backlog",
        "backlog_messages",
        "As the backlog grows",
        "messages that wait already; below them the broker's memory",
        0.8,
    ),
    "scaling-partitions": scaling(
        "scaling-partitions",
        "partitions",
        "As partitions grow",
        "partitions of one topic; below them the broker's memory",
        0.7,
        1_000,
    ),
    "scaling-consumers": scaling(
        "scaling-consumers",
        "consumers",
        "As consumers grow",
        "consumers, all in two client processes; below them the broker's memory",
    ),
    "scaling-replicas": scaling(
        "scaling-replicas",
        "nodes",
        "Three replicas beside one",
        "nodes, all on the same cores and the same disk; below them their memory",
        0.4,
    ),
}


# What the figures share.


def _rows(document: Document, name: str) -> Sequence[Measured]:
    return document.findings.get(name, ())


def _size(row: Measured) -> int:
    return int(number(row, "message_bytes"))


def _is_ours(row: Measured) -> bool:
    return str(row["system"]).startswith(OURS)


def _is_fresh(row: Measured) -> bool:
    return row.get("start") == "fresh"


def _is_synced(row: Measured) -> bool:
    """What does not say is not called worse than the others."""
    return str(row.get("durability", SYNCED)).startswith(SYNCED)


def _row(name: str, first: Measured, bars: Sequence[Bar | None]) -> Row:
    return Row(
        name=name,
        under=_durable(first),
        ours=_is_ours(first),
        synced=_is_synced(first),
        bars=bars,
    )


def _durable(row: Measured) -> str:
    """What an acknowledgement is worth, in words."""
    found = str(row.get("durability", ""))
    if found == "each second":
        return "synced every second"
    kind, _, share = found.partition(" ")
    words = {"synced": "synced to disk", "cached": "in the page cache", "memory": "in memory only"}
    where = f", {share.replace('/', ' of ')} nodes" if share and not share.endswith("/1") else ""
    return f"{words.get(kind, found)}{where}" if kind in words else found


def _block(rows: Sequence[Measured], ways: Sequence[str], columns: Sequence[str]) -> Block:
    """A row for each system; beside the others' bars, how many times as fast ours is."""
    by_system: dict[str, dict[str, Measured]] = {}
    for row in rows:
        by_system.setdefault(str(row["system"]), {})[str(row["way"])] = row
    found = []
    for name, by_way in by_system.items():
        first = next(iter(by_way.values()))
        bars: list[Bar | None] = []
        for way in ways:
            if (one := by_way.get(way)) is None:
                bars.append(None)
                continue
            rate = number(one, "messages_per_second")
            bars.append(Bar(value=rate, note=_times(one, by_system, way)))
        found.append(_row(name, first, bars))
    return Block(columns=columns, rows=sorted(found, key=_fastest_first))


def _times(row: Measured, by_system: dict[str, dict[str, Measured]], way: str) -> str:
    """`ours 7.8×`, taken per round where the benchmark did so."""
    if _is_ours(row):
        return ""
    if "penstock_ratio" in row:
        return _written(number(row, "penstock_ratio"))
    ours = next((ways for name, ways in by_system.items() if _pair(name, str(row["system"]))), {})
    if way not in ours:
        return ""
    rate = max(number(row, "messages_per_second"), 1e-9)
    return _written(number(ours[way], "messages_per_second") / rate)


def _pair(ours: str, other: str) -> bool:
    """A system of ours with as many nodes as the other has."""
    nodes = other.rpartition(", ")[2]
    nodes = nodes if nodes.endswith(("node", "nodes")) else "1 node"
    return ours == f"{OURS}, {nodes}"


def _written(ratio: float) -> str:
    return f"ours {ratio:.0f}×" if ratio >= 10 else f"ours {ratio:.1f}×"


def _fastest_first(row: Row) -> tuple[bool, float]:
    return not row.ours, -next((bar.value for bar in row.bars if bar is not None), 0.0)


def _largest(rows: Iterable[Measured], name: str) -> dict[str, tuple[Measured, float]]:
    """By system, the row with the largest of these numbers."""
    found: dict[str, tuple[Measured, float]] = {}
    for row in rows:
        value = float(number(row, name)) if name in row else 0.0
        system = str(row["system"])
        if value and (system not in found or value > found[system][1]):
            found[system] = row, value
    return found


def _pairs(
    left: dict[str, tuple[Measured, float]],
    right: dict[str, tuple[Measured, float]],
    unit: float,
    *,
    smallest_first: bool = True,
) -> list[Row]:
    """Systems with one number of each kind, or of one of them."""
    found = []
    for name in dict.fromkeys([*left, *right]):
        row = (left.get(name) or right[name])[0]
        bars = [Bar(value=one[name][1] / unit) if name in one else None for one in (left, right)]
        found.append(_row(name, row, bars))
    sign = 1 if smallest_first else -1

    def order(row: Row) -> tuple[bool, float]:
        value = next((bar.value for bar in row.bars if bar is not None), 0.0)
        return not row.ours, sign * value

    return sorted(found, key=order)


def _foot(document: Document, *names: str) -> list[str]:
    """Machine and versions, then what the benchmarks say of versions themselves."""
    machine = document.machine
    packages = machine.get("versions", "").split()
    versions = dict(zip(packages[::2], packages[1::2], strict=False))
    disk = machine.get("file system", "?").partition(" ")[0]
    rough = " · quick and rough" if document.quick else ""
    first = [
        f"{machine.get('processor', '?')}, {machine.get('cores', '?')} cores, {disk}",
        f"Linux {machine.get('kernel', '?')}",
        machine.get("python", ""),
        f"Penstock {versions.get('penstock', '?')} ({machine.get('commit', '?')})",
        f"{document.when[:10]}{rough}",
    ]
    found = [
        note
        for name in names
        if name in document.tables
        for note in document.tables[name].notes
        if note.startswith("versions:")
    ]
    return [" · ".join(part for part in first if part), *dict.fromkeys(found)]
