"""Validation of a declaration, without a broker and without Spark.

Each rule says where, what and what to do. Whether an expression is SQL and names columns that are
there is found by Spark (see `frames`), when a pipeline is checked or run.
"""

import re
from collections.abc import Iterator

from penstock.core.errors import InvalidRequest
from penstock.spark.pipelines.declaration import (
    Column,
    Declaration,
    Source,
    Stage,
    Table,
    Target,
)

FORMATS = ("parquet", "csv", "json")
STARTS = ("earliest", "latest")

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_TRIGGER = re.compile(r"(\d{1,9})(ms|s|m|h)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_WATERMARK = re.compile(r"(\w+)\s+(\d+\s+(?:milli)?(?:second|minute|hour|day)s?)")
_NAME = re.compile(r"[A-Za-z]\w*")


def check(declaration: Declaration) -> None:
    """Raise `InvalidRequest` for the first thing that is wrong."""
    for problem in problems(declaration):
        raise InvalidRequest(problem)


def problems(declaration: Declaration) -> Iterator[str]:
    """Yield all problems of a declaration."""
    if not declaration.stages:
        yield "stages: a pipeline has at least one"
    names: list[str] = []
    for number, stage in enumerate(declaration.stages):
        path = f"stages[{number}]"
        if stage.name in names:
            yield f"{path}.name: there are two stages called {stage.name}"
        yield from _source_problems(declaration, stage.source, names, f"{path}.from")
        yield from _target_problems(stage.to, f"{path}.to")
        yield from _stage_problems(stage, path)
        names.append(stage.name)
    yield from _cycles(declaration)


def trigger_ms(written: str) -> int:
    """Parse the interval between micro-batches, in milliseconds; raise `ValueError` if it is
    malformed."""
    matched = _TRIGGER.fullmatch(written)
    if matched is None:
        raise ValueError(f'"{written}" must be a duration with its unit, such as "500ms" or "1m"')
    return int(matched[1]) * _UNITS_MS[matched[2]]


def watermark_of(written: str) -> tuple[str, str]:
    """The column and the delay; `ValueError` if it is none."""
    matched = _WATERMARK.fullmatch(written.strip())
    if matched is None:
        raise ValueError(f'"{written}" must be a column and a delay, such as "at 10 minutes"')
    return matched[1], matched[2]


def _source_problems(
    declaration: Declaration, source: Source, before: list[str], path: str
) -> Iterator[str]:
    said = [name for name in ("topic", "queue", "stage") if getattr(source, name) is not None]
    if len(said) != 1:
        yield f"{path}: say one of topic, queue and stage, not {' and '.join(said) or 'none'}"
    elif source.stage is not None:
        if source.stage not in before:
            known = ", ".join(before) or "none"
            yield f"{path}.stage: there is no earlier stage {source.stage}; there are: {known}"
        elif declaration.stage(source.stage).to.lake is not None:
            yield f"{path}.stage: {source.stage} writes a lake, and nothing can follow it"
    else:
        yield from _topic_problems(source.topic or source.queue or "", path)
    if source.start not in STARTS:
        yield f"{path}.start: {source.start} must be {' or '.join(STARTS)}"
    if source.group is not None and not _TOPIC.fullmatch(source.group):
        yield f"{path}.group: {source.group!r} is no name of a group"


def _target_problems(to: Target, path: str) -> Iterator[str]:
    said = [name for name in ("topic", "queue", "lake") if getattr(to, name) is not None]
    if len(said) != 1:
        yield f"{path}: say one of topic, queue and lake, not {' and '.join(said) or 'none'}"
    elif to.lake is None:
        yield from _topic_problems(to.topic or to.queue or "", path)
    if to.partition_by and to.lake is None:
        yield f"{path}.partition_by: only a lake has directories"


def _topic_problems(name: str, path: str) -> Iterator[str]:
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        yield f"{path}: {name!r} is no name of a topic: letters, digits, dots, - and _ are"


def _stage_problems(stage: Stage, path: str) -> Iterator[str]:
    yield from _topic_problems(stage.dead_letters, f"{path}.dead_letters")
    seen: dict[str, str] = {}
    for name, column in stage.schema.items():
        here = f"{path}.schema.{name}"
        if not _NAME.fullmatch(name):
            yield f"{here}: a column begins with a letter and has letters, digits and _"
        if (other := seen.setdefault(name.lower(), name)) != name:
            yield f"{here}: SQL cannot tell it from {other}"
        yield from _column_problems(column, here)
    for number, table in enumerate(stage.enrich):
        yield from _table_problems(table, f"{path}.enrich[{number}]")
    for key in ("each", "python"):
        place = getattr(stage, key)
        if place is not None and not _PLACE.fullmatch(place):
            yield f"{path}.{key}: {place!r} must be module:function"
    if stage.gives and stage.each is None:
        yield f"{path}.gives: it says what `each` returns, and there is no each"
    try:
        if trigger_ms(stage.trigger) < 1:
            yield f"{path}.trigger: it must be at least 1ms"
    except ValueError as error:
        yield f"{path}.trigger: {error}"
    if stage.watermark is not None:
        try:
            watermark_of(stage.watermark)
        except ValueError as error:
            yield f"{path}.watermark: {error}"


def _column_problems(column: Column, path: str) -> Iterator[str]:
    if not column.type:
        yield f"{path}: it has no type; say string, bigint, double, timestamp or another of SQL"
    low, high = column.min, column.max
    if low is not None and high is not None:
        if isinstance(low, str) != isinstance(high, str):
            yield f"{path}: min and max must be both numbers or both texts"
        elif low > high:  # type: ignore[operator]
            yield f"{path}: min = {low} is more than max = {high}"
    if column.pattern is not None:
        try:
            re.compile(column.pattern)
        except re.error as error:
            yield f"{path}.pattern: {column.pattern!r} is no regular expression: {error}"


def _table_problems(table: Table, path: str) -> Iterator[str]:
    if (table.path is None) == (table.sql is None):
        yield f"{path}: say either path or sql"
    if not table.keys:
        yield f"{path}.keys: say by which columns a row finds its match"
    chosen = table.format or (table.path or "").rpartition(".")[2]
    if table.path is not None and chosen not in FORMATS:
        yield f"{path}.format: say one of {', '.join(FORMATS)}: {table.path} does not tell"


def _cycles(declaration: Declaration) -> Iterator[str]:
    """A stage that reads what it, or a later stage, writes would never come to an end."""
    for number, stage in enumerate(declaration.stages):
        if stage.source.stage is not None:
            continue
        read = stage.source.topic or stage.source.queue
        for later in declaration.stages[number:]:
            if read is not None and read in (later.to.topic, later.to.queue, later.dead_letters):
                yield (
                    f"stages[{number}].from: {read} is written by stage {later.name}, which does"
                    " not come before: the pipeline would feed itself"
                )
