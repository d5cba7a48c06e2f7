"""Why a row is refused, as one SQL expression: the first rule it breaks, or null.

    CASE WHEN _value IS NULL THEN 'the message is empty'
         WHEN _row IS NULL OR _row._corrupt_record IS NOT NULL THEN …
         WHEN `id` IS NULL THEN 'id is missing'
         WHEN `amount` < CAST(0 AS double) THEN 'amount is less than 0'
         …
    END

Rows are judged by the JVM, without Python. A reason does not quote the value it is about: dead
letters are counted by their reasons, and the value is in the letter. A rule about a column that is
null is met, as in SQL's CHECK; `required` is the rule against null.
"""

from collections.abc import Iterator, Mapping

from penstock.spark.pipelines.declaration import Column, Literalised

ROW = "_row"
VALUE = "_value"
CORRUPT = "_corrupt_record"
EMPTY = "the message is empty"
NOT_JSON = "it is not a JSON object"
NOT_FITTING = "it does not fit the schema"


def row_type(schema: Mapping[str, Column]) -> str:
    """The type that `from_json` is given: the columns, and where it says that a text is none."""
    columns = [f"{quoted(name)} {column.type}" for name, column in schema.items()]
    return ", ".join([*columns, f"{CORRUPT} string"])


def parsed_row(schema: Mapping[str, Column], text: str) -> str:
    """The SQL that reads a text as these columns; what does not fit is null and reported."""
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
    return f"from_json({text}, {literal(row_type(schema))}, {options})"


def first_reason(schema: Mapping[str, Column]) -> str:
    """The SQL that gives the first reason against a row, given
    `_value`, `_row` and its columns."""
    lines = [f"WHEN {condition} THEN {reason}" for condition, reason in _rules(schema)]
    return "CASE " + " ".join(lines) + " END"


def unfitting(schema: Mapping[str, Column], text: str) -> str:
    """The SQL that tells which column a text does not fit; only asked of a text that does not."""
    fields = f"from_json({text}, 'map<string, string>')"
    lines = [f"WHEN {fields} IS NULL THEN {literal(NOT_JSON)}"]
    for name, column in schema.items():
        there = f"element_at({fields}, {literal(name)}) IS NOT NULL"
        reason = literal(f"{name} is not of type {column.type}")
        lines.append(f"WHEN {there} AND {quoted(name)} IS NULL THEN {reason}")
    return "CASE " + " ".join(lines) + f" ELSE {literal(NOT_FITTING)} END"


def expectation(expect: Mapping[str, str]) -> str:
    """The SQL that gives the first expectation which a row does not meet. One that cannot be
    evaluated, being null, is not met: what comes out is promised."""
    lines = [
        f"WHEN NOT coalesce(({condition}), false) THEN {literal(reason)}"
        for reason, condition in expect.items()
    ]
    return "CASE " + " ".join(lines) + " END"


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: Literalised) -> str:
    """Format a value as a SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}D"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _rules(schema: Mapping[str, Column]) -> Iterator[tuple[str, str]]:
    text = f"CAST({VALUE} AS STRING)"
    yield f"{VALUE} IS NULL", literal(EMPTY)
    yield f"{ROW} IS NULL OR {ROW}.{CORRUPT} IS NOT NULL", unfitting(schema, text)
    for name, column in schema.items():
        if column.required:
            yield f"{quoted(name)} IS NULL", literal(f"{name} is missing")
    for name, column in schema.items():
        for condition, reason in _column_rules(name, column):
            yield condition, literal(reason)


def _column_rules(name: str, column: Column) -> Iterator[tuple[str, str]]:
    here = quoted(name)
    if column.min is not None:
        least = f"CAST({literal(column.min)} AS {column.type})"
        yield f"{here} < {least}", f"{name} is less than {column.min}"
    if column.max is not None:
        most = f"CAST({literal(column.max)} AS {column.type})"
        yield f"{here} > {most}", f"{name} is more than {column.max}"
    if column.pattern is not None:
        yield f"NOT {here} RLIKE {literal(column.pattern)}", f"{name} does not match the pattern"
    if column.allowed:
        choices = ", ".join(literal(one) for one in column.allowed)
        yield f"{here} NOT IN ({choices})", f"{name} has a value that is not allowed"
    if column.check is not None:
        yield f"NOT ({column.check})", f"{name} fails its check"
