"""From what a person wrote to a declaration: short forms are written out, defaults filled in.

from = "orders"            the stage before of that name, or else the topic
(nothing)                  the stage before
to = "orders.clean"        a topic; nothing: pipeline.stage
schema: id = "string not null"
dead_letters               those of the pipeline; nothing: pipeline.dead
"""

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from penstock.core.errors import InvalidRequest
from penstock.spark.pipelines.declaration import (
    Column,
    Declaration,
    Source,
    Stage,
    Table,
    Target,
    Written,
    WrittenStage,
)

_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)


def write_out(written: Written, directory: Path | None = None) -> Declaration:
    """The declaration in full. Paths that are not absolute are seen from `directory`."""
    stages: list[Stage] = []
    for number, one in enumerate(written.stages):
        stages.append(_stage(written, one, stages, f"stages[{number}]", directory))
    return Declaration(
        name=written.name,
        broker=written.broker,
        state=_placed(written.state, directory),
        partitions=written.partitions,
        restarts=written.restarts,
        settings=dict(written.settings),
        stages=tuple(stages),
    )


def _stage(
    written: Written,
    one: WrittenStage,
    before: Sequence[Stage],
    path: str,
    directory: Path | None,
) -> Stage:
    tables = [one.enrich] if isinstance(one.enrich, Table) else one.enrich
    to = _target(one.to, f"{written.name}.{one.name}")
    return Stage(
        name=one.name,
        source=_source(one.source, before, path),
        to=structs.replace(to, lake=_placed(to.lake, directory)),
        schema={name: _column(column) for name, column in one.schema.items()},
        enrich=tuple(structs.replace(t, path=_placed(t.path, directory)) for t in tables),
        where=one.where,
        each=one.each,
        gives=dict(one.gives),
        python=one.python,
        sql=one.sql,
        watermark=one.watermark,
        select=(one.select,) if isinstance(one.select, str) else tuple(one.select),
        expect=dict(one.expect),
        key=one.key,
        dead_letters=one.dead_letters or written.dead_letters or f"{written.name}.dead",
        trigger=one.trigger or written.trigger,
        max_per_trigger=one.max_per_trigger or written.max_per_trigger,
    )


def _source(said: str | Source | None, before: Sequence[Stage], path: str) -> Source:
    if isinstance(said, Source):
        return said
    if said is None:
        if not before:
            raise InvalidRequest(
                f"{path}: the first stage says nothing about where its rows come from; add"
                ' from = "TOPIC"'
            )
        return Source(stage=before[-1].name)
    names = {stage.name for stage in before}
    return Source(stage=said) if said in names else Source(topic=said)


def _target(said: str | Target | None, default: str) -> Target:
    if isinstance(said, Target):
        return said
    return Target(topic=said or default)


def _placed(path: str | None, directory: Path | None) -> str | None:
    if path is None or directory is None or "://" in path or Path(path).is_absolute():
        return path
    return str(directory / path)


def _column(said: str | Column) -> Column:
    if isinstance(said, str):
        bare = _NOT_NULL.sub("", said)
        return Column(type=bare.strip(), required=bare != said)
    bare = _NOT_NULL.sub("", said.type)
    required = said.required or bare != said.type
    return structs.replace(said, type=bare.strip(), required=required)
