"""Answers to bytes, for every message and version of `kafka.schema`; see `kafka.codec`.

Writers check what we say ourselves: a misspelt field or a missing one is a bug and fails a test.
As in `kafka.decoder`, what may be long has a second form, which yields after a portion of rows.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from penstock.kafka.decoder import FORMATS, ROWS_PER_PORTION
from penstock.kafka.schema import REQUIRED, Direction, Field, Schema, schema_of

Answer = Mapping[str, object]

_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">i")
_SHORT_MAX: Final = 32_767


class EncodedRows(NamedTuple):
    """Stands in an answer for an array whose rows are encoded already."""

    number: int
    data: bytes | bytearray


_Writer = Callable[[Any, bytearray], None]
_PortionWriter = Callable[[Any, bytearray], Iterator[None]]


class _Writing(NamedTuple):
    """How something is written: at once, and in portions if it may be long."""

    write: _Writer
    in_portions: _PortionWriter | None = None


def writer(key: int, direction: Direction, version: int) -> Callable[[Answer, bytearray], None]:
    """Writes a message behind what is there."""
    return _writing(key, direction, version).write


def portion_writer(
    key: int, direction: Direction, version: int
) -> Callable[[Answer, bytearray], Iterator[None]] | None:
    """The same in portions; None for a message without arrays."""
    return _writing(key, direction, version).in_portions


@cache
def _writing(key: int, direction: Direction, version: int) -> _Writing:
    schema = schema_of(key, direction)
    return _struct_writing(schema, f"{schema.name} {direction}", schema.fields, version)


@cache
def row_writer(
    key: int, version: int, path: tuple[str, ...]
) -> Callable[[Answer, bytearray], None]:
    """Writes one row of an array that is somewhere in an answer: see `EncodedRows`."""
    schema = schema_of(key, "response")
    fields = schema.fields
    for name in path:
        (found,) = [field for field in fields if field.name == name and field.exists_in(version)]
        fields = found.children
    return _struct_writing(schema, " ".join((schema.name, *path)), fields, version).write


def _struct_writing(
    schema: Schema, title: str, fields: tuple[Field, ...], version: int
) -> _Writing:
    flexible = schema.is_flexible_in(version)
    steps: list[tuple[_Writer, _PortionWriter | None]] = []
    run: list[Field] = []
    tags: list[tuple[int, Field, _Writer]] = []
    for field in fields:
        if not field.exists_in(version):
            continue
        if field.tag is not None and flexible:
            tags.append((field.tag, field, _field_writing(schema, title, field, version).write))
        elif field.kind in FORMATS and not field.is_array:
            run.append(field)
        else:
            steps += _write_run(title, run)
            run = []
            steps.append(_write_one(title, field, _field_writing(schema, title, field, version)))
    steps += _write_run(title, run)
    if flexible:
        steps.append((_write_tags(sorted(tags, key=lambda row: row[0])), None))
    known = {field.name for field in fields} | {"error_message"}
    at_once = [step for step, _ in steps]

    def write(row: Answer, out: bytearray) -> None:
        assert row.keys() <= known, f"{title} has no field {sorted(row.keys() - known)}"
        for step in at_once:
            step(row, out)

    def write_in_portions(row: Answer, out: bytearray) -> Iterator[None]:
        assert row.keys() <= known, f"{title} has no field {sorted(row.keys() - known)}"
        for step, in_portions in steps:
            if in_portions is None:
                step(row, out)
            else:
                yield from in_portions(row, out)

    is_long = any(in_portions is not None for _, in_portions in steps)
    return _Writing(write, write_in_portions if is_long else None)


def _field_writing(schema: Schema, title: str, field: Field, version: int) -> _Writing:
    flexible = schema.is_flexible_in(version)
    nullable = field.may_be_null_in(version)
    found: _Writing
    if field.kind == "struct":
        found = _struct_writing(schema, f"{title} {field.name}", field.children, version)
        if nullable and not field.is_array:
            return _Writing(_write_maybe(found.write))
    elif field.kind in FORMATS:
        found = _Writing(_write_number(struct.Struct(">" + FORMATS[field.kind])))
    else:
        found = _Writing(_text_writer(field.kind, flexible, nullable and not field.is_array))
    return _rows_writing(found, flexible, nullable) if field.is_array else found


def _default_of(field: Field) -> object:
    """Answers without an error and without throttling need not say so."""
    if field.default is REQUIRED and field.name in ("error_code", "throttle_time"):
        return 0
    return field.default


def _write_one(
    title: str, field: Field, writing: _Writing
) -> tuple[_Writer, _PortionWriter | None]:
    name, default = field.name, _default_of(field)
    write, write_in_portions = writing

    def step(row: Answer, out: bytearray) -> None:
        value = row.get(name, default)
        assert value is not REQUIRED, f"{title} needs {name}"
        write(value, out)

    def step_in_portions(row: Answer, out: bytearray) -> Iterator[None]:
        value = row.get(name, default)
        assert value is not REQUIRED, f"{title} needs {name}"
        assert write_in_portions is not None
        return write_in_portions(value, out)

    return step, None if write_in_portions is None else step_in_portions


def _write_run(title: str, run: list[Field]) -> list[tuple[_Writer, None]]:
    if not run:
        return []
    layout = struct.Struct(">" + "".join(FORMATS[field.kind] for field in run))
    pairs = [(field.name, _default_of(field)) for field in run]
    pack = layout.pack

    def step(row: Answer, out: bytearray) -> None:
        get = row.get
        values = [get(name, default) for name, default in pairs]
        try:
            out += pack(*values)
        except struct.error as error:
            named = dict(zip((name for name, _ in pairs), values, strict=True))
            raise AssertionError(f"{title} cannot be written with {named}: {error}") from error

    return [(step, None)]


def _write_number(layout: struct.Struct) -> _Writer:
    def write(value: object, out: bytearray) -> None:
        out += layout.pack(value)

    return write


def _write_maybe(write: _Writer) -> _Writer:
    def write_maybe(value: Answer | None, out: bytearray) -> None:
        out.append(255 if value is None else 1)
        if value is not None:
            write(value, out)

    return write_maybe


def _text_writer(kind: str, flexible: bool, nullable: bool) -> _Writer:
    is_string = kind == "string"

    def write(value: str | bytes | None, out: bytearray) -> None:
        if value is None:
            assert nullable, f"a {kind} that may not be null"
            out += b"\x00" if flexible else (b"\xff\xff" if is_string else b"\xff\xff\xff\xff")
            return
        data = value.encode() if isinstance(value, str) else value
        if flexible:
            write_varint(len(data) + 1, out)
        else:
            assert not is_string or len(data) <= _SHORT_MAX, f"a string of {len(data)} bytes"
            out += (_SHORT if is_string else _LONG).pack(len(data))
        out += data

    return write


_Rows = list[object] | tuple[object, ...] | EncodedRows | None


def _rows_writing(row: _Writing, flexible: bool, nullable: bool) -> _Writing:
    write, write_row_in_portions = row

    def rows_to_write(rows: _Rows, out: bytearray) -> list[object] | tuple[object, ...]:
        """Write how many rows there are, and all of them if they are encoded already."""
        if type(rows) is EncodedRows:
            write_count(rows.number, out, flexible)
            out += rows.data
            return ()
        if rows is None:
            assert nullable, "an array that may not be null"
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return ()
        write_count(len(rows), out, flexible)
        return rows

    def write_rows(rows: _Rows, out: bytearray) -> None:
        for one in rows_to_write(rows, out):
            write(one, out)

    def write_in_portions(rows: _Rows, out: bytearray) -> Iterator[None]:
        for number, one in enumerate(rows_to_write(rows, out), 1):
            if write_row_in_portions is None:
                write(one, out)
            else:
                yield from write_row_in_portions(one, out)
            if number % ROWS_PER_PORTION == 0:
                yield

    return _Writing(write_rows, write_in_portions)


def write_count(count: int, out: bytearray, flexible: bool) -> None:
    """How many rows follow."""
    if flexible:
        write_varint(count + 1, out)
    else:
        out += _LONG.pack(count)


def write_varint(value: int, out: bytearray) -> None:
    """An unsigned number, seven bits a byte."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_tags(tags: list[tuple[int, Field, _Writer]]) -> _Writer:
    """Tagged fields are written only if they say something else than their default."""

    def step(row: Answer, out: bytearray) -> None:
        said = [
            (tag, write, row[field.name])
            for tag, field, write in tags
            if field.name in row and row[field.name] not in (field.neutral, [])
        ]
        write_varint(len(said), out)
        for tag, write, value in said:
            body = bytearray()
            write(value, body)
            write_varint(tag, out)
            write_varint(len(body), out)
            out += body

    return step
