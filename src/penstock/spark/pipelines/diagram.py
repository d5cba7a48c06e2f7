"""A pipeline as a picture of characters: what each stage reads, does and writes."""

from collections.abc import Iterator

from penstock.spark.pipelines.declaration import Column, Declaration, Stage, Table


def draw(declaration: Declaration) -> str:
    """All stages, one below the other."""
    lines = [f"pipeline {declaration.name}"]
    for stage in declaration.stages:
        source = declaration.input_of(stage)
        kind = "queue" if stage.source.queue else "topic"
        lines += ["", f"  {kind} {source}    group {declaration.group_of(stage)}", "    │"]
        steps = list(_steps(stage))
        lines.append(f"    ├─ {stage.name}")
        lines += [f"    │    {step}" for step in steps]
        lines += [f"    ├──✗ dead letters {stage.dead_letters}", "    ▼", f"  {_target(stage)}"]
    return "\n".join(lines)


def _target(stage: Stage) -> str:
    to = stage.to
    if to.lake is not None:
        by = f", by {', '.join(to.partition_by)}" if to.partition_by else ""
        return f"lake {to.lake}{by}"
    return f"queue {to.queue}" if to.queue else f"topic {to.topic}"


def _steps(stage: Stage) -> Iterator[str]:
    for name, column in stage.schema.items():
        yield f"{name}: {_column(column)}"
    for table in stage.enrich:
        yield f"enrich by {', '.join(table.keys)} with {_table(table)}; missing: {table.missing}"
    for word in ("where", "each", "python", "sql"):
        said = getattr(stage, word)
        if said is not None:
            yield f"{word} {' '.join(said.split())}"
    if stage.select:
        yield f"select {', '.join(stage.select)}"
    for reason, condition in stage.expect.items():
        yield f'expect {condition}, or "{reason}"'
    if stage.key is not None:
        yield f"key {stage.key}"


def _column(column: Column) -> str:
    parts = [column.type]
    if column.required:
        parts.append("required")
    if column.min is not None:
        parts.append(f"at least {column.min}")
    if column.max is not None:
        parts.append(f"at most {column.max}")
    if column.pattern is not None:
        parts.append(f"matching {column.pattern}")
    if column.allowed:
        parts.append(f"one of {', '.join(map(str, column.allowed))}")
    if column.check is not None:
        parts.append(f"with {column.check}")
    return ", ".join(parts)


def _table(table: Table) -> str:
    return table.path or f"({' '.join((table.sql or '').split())})"
