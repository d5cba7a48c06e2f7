"""Bytes to requests and answers to bytes, for every message and version of `kafka.schema`.

A request is read into a `Message`: a struct with the fields of *all* versions, where those that the
version at hand does not have hold their defaults. So the code of an API is written once, for the
newest version. An answer is a plain mapping from field names to values, again for all versions:
what the version does not have is left out, what is not given takes its default.

    numbers, and times in milliseconds   int          string   str        array   list or tuple
    error codes                          int          bytes    bytes      struct  mapping
    uuid                                 bytes, 16    bool     bool       null    None

Every length is checked against what is left of the message before it is believed: nothing is
reserved because a client claims it. This is why requests are not read by the kio package, which is
faster, but gives the process up when a message claims an array that does not fit into memory.
Writers check what we say ourselves: a misspelt field or a missing one is a bug and fails a test.

How it works. For a message in a version, a list of steps is made once: a step is a run of fields of
fixed size, which one `struct` reads or writes, or a single field of another kind.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from penstock.core.errors import MalformedRequest
from penstock.core.limits import KAFKA_REQUEST_ROWS_MAX
from penstock.kafka.schema import REQUIRED, Direction, Field, Schema, schema_of

Answer = Mapping[str, object]

_FORMATS: Final = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "float64": "d",
    "bool": "?", "uuid": "16s", "error_code": "h", "timedelta_i32": "i", "timedelta_i64": "q",
    "datetime_i64": "q",
}  # fmt: skip
_API_VERSIONS_KEY: Final = 18
_VARINT_BYTES_MAX: Final = 5
_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">i")
_SHORT_MAX: Final = 32_767
_HEAD: Final = struct.Struct(">ii")


class Message(msgspec.Struct, frozen=True, gc=False):
    """A request, or a part of one: see `messages.txt` for its fields."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class EncodedRows(NamedTuple):
    """Stands in an answer for an array whose rows are encoded already."""

    number: int
    data: bytes


class Codec(msgspec.Struct, frozen=True):
    """How one API in one version is read and written."""

    key: int
    version: int
    read_request: Callable[[bytes, int], tuple[Message, int]]
    write_body: Callable[[Answer, bytearray], None]
    head_bytes: int
    refusal: Answer
    has_error_code: bool

    def decode(self, data: bytes, position: int) -> Message:
        """The request that starts at `position`; bytes behind it are passed over, as in Kafka."""
        try:
            return self.read_request(data, position)[0]
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise MalformedRequest(
                f"a request of API {self.key} ends too early: {error}"
            ) from error

    def head(self, correlation_id: int, body_bytes: int) -> bytes:
        """What goes before a body that is there already."""
        size = self.head_bytes - 4 + body_bytes
        return _HEAD.pack(size, correlation_id) + bytes(self.head_bytes - _HEAD.size)

    def encode(self, correlation_id: int, answer: Answer) -> bytearray:
        """The whole answer with length and header, ready to be sent."""
        out = bytearray(self.head_bytes)
        self.write_body(answer, out)
        _HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
        return out

    def refuse(self, correlation_id: int, code: int, text: str) -> bytearray:
        """An answer that only says what went wrong; for APIs with an error code of their own."""
        assert self.has_error_code, f"API {self.key} v{self.version} has no place for an error"
        return self.encode(
            correlation_id, {**self.refusal, "error_code": code, "error_message": text}
        )


@cache
def codec(key: int, version: int) -> Codec:
    """The codec of an API in a version that exists."""
    response = schema_of(key, "response")
    # The header of an ApiVersions answer never has tags: it is read before versions are agreed.
    has_tags = response.is_flexible_in(version) and key != _API_VERSIONS_KEY
    fields = [field for field in response.fields if field.exists_in(version)]
    return Codec(
        key=key,
        version=version,
        read_request=reader(key, "request", version),
        write_body=writer(key, "response", version),
        head_bytes=_HEAD.size + has_tags,
        refusal={field.name: field.neutral for field in fields if field.default is REQUIRED},
        has_error_code=any(field.name == "error_code" for field in fields),
    )


# Reading.

Reader = Callable[[bytes, int], tuple[Any, int]]
_ReadStep = Callable[[bytes, int, list[object]], int]


def reader(
    key: int, direction: Direction, version: int
) -> Callable[[bytes, int], tuple[Message, int]]:
    """Reads a message from a position; gives it and the position after it."""
    schema = schema_of(key, direction)
    title = schema.name.title().replace("_", "") + direction.title()
    read, _ = _struct_reader(schema, title, schema.fields, version)
    return read


def _struct_reader(
    schema: Schema, title: str, fields: tuple[Field, ...], version: int
) -> tuple[Reader, int]:
    """A reader of structs, and the fewest bytes one can take."""
    kind = _message_class(title, fields)
    defaults = [kind.__struct_defaults__[at] for at in range(len(fields))]
    flexible = schema.is_flexible_in(version)
    steps: list[_ReadStep] = []
    bytes_min = int(flexible)
    run: list[tuple[int, str]] = []
    tags: dict[int, tuple[int, Reader]] = {}
    for at, field in enumerate(fields):
        if not field.exists_in(version):
            continue
        if field.tag is not None and flexible:
            tags[field.tag] = (at, _field_reader(schema, title, field, version)[0])
        elif field.kind in _FORMATS and not field.is_array:
            run.append((at, _FORMATS[field.kind]))
            bytes_min += struct.calcsize(">" + _FORMATS[field.kind])
        else:
            steps += _read_run(run)
            run = []
            read_field, least = _field_reader(schema, title, field, version)
            steps.append(_read_one(at, read_field))
            bytes_min += least
    steps += _read_run(run)
    if flexible:
        steps.append(_read_tags(tags))

    def read(data: bytes, position: int) -> tuple[Message, int]:
        values = defaults[:]
        for step in steps:
            position = step(data, position, values)
        return kind(*values), position

    return read, bytes_min


@cache
def _message_class(title: str, fields: tuple[Field, ...]) -> type[Message]:
    """One class for all versions of a struct; a struct inside it defaults to its own defaults."""
    rows: list[tuple[str, type, object]] = []
    for field in fields:
        default = field.neutral
        if field.kind == "struct" and not field.is_array and field.null is None:
            default = _message_class(_inner_title(title, field), field.children)()
        rows.append((field.name, object, default))
    made = msgspec.defstruct(title, rows, bases=(Message,), frozen=True, gc=False)
    assert issubclass(made, Message)
    return made


def _inner_title(title: str, field: Field) -> str:
    return title + field.name.title().replace("_", "")


def _field_reader(schema: Schema, title: str, field: Field, version: int) -> tuple[Reader, int]:
    flexible = schema.is_flexible_in(version)
    nullable = field.may_be_null_in(version)
    if field.kind == "struct":
        read, least = _struct_reader(schema, _inner_title(title, field), field.children, version)
        if not field.is_array:
            return (_read_maybe(read), 1) if nullable else (read, least)
    elif field.kind in _FORMATS:
        layout = struct.Struct(">" + _FORMATS[field.kind])
        if field.is_array:
            return _numbers_reader(layout.format[1:], layout.size, flexible, nullable)
        return _read_number(layout), layout.size
    else:
        read, least = _text_reader(field.kind, flexible, nullable and not field.is_array)
        if not field.is_array:
            return read, least
    return _rows_reader(read, least, flexible, nullable)


def _read_one(at: int, read: Reader) -> _ReadStep:
    def step(data: bytes, position: int, values: list[object]) -> int:
        values[at], position = read(data, position)
        return position

    return step


def _read_run(run: list[tuple[int, str]]) -> list[_ReadStep]:
    if not run:
        return []
    layout = struct.Struct(">" + "".join(letter for _, letter in run))
    places = [at for at, _ in run]
    first, size, unpack_from = places[0], layout.size, layout.unpack_from
    end = first + len(places)

    def step_side_by_side(data: bytes, position: int, values: list[object]) -> int:
        values[first:end] = unpack_from(data, position)
        return position + size

    def step(data: bytes, position: int, values: list[object]) -> int:
        for at, value in zip(places, unpack_from(data, position), strict=True):
            values[at] = value
        return position + size

    return [step_side_by_side if places == list(range(first, end)) else step]


def _read_number(layout: struct.Struct) -> Reader:
    def read(data: bytes, position: int) -> tuple[object, int]:
        return layout.unpack_from(data, position)[0], position + layout.size

    return read


def _read_maybe(read: Reader) -> Reader:
    """A struct that may be null has a byte before it (KIP-893): negative for null."""

    def read_maybe(data: bytes, position: int) -> tuple[object, int]:
        if data[position] >= 128:
            return None, position + 1
        return read(data, position + 1)

    return read_maybe


def _text_reader(kind: str, flexible: bool, nullable: bool) -> tuple[Reader, int]:
    length = _LENGTHS[flexible, kind == "string"]
    is_string = kind == "string"

    def read(data: bytes, position: int) -> tuple[object, int]:
        size, position = length(data, position)
        if size < 0:
            if size < -1 or not nullable:
                raise MalformedRequest(f"a {kind} of length {size}")
            return None, position
        end = position + size
        if end > len(data):
            raise MalformedRequest(
                f"a {kind} of {size} bytes where {len(data) - position} are left"
            )
        value = data[position:end]
        return (value.decode() if is_string else value), end

    return read, 1 if flexible else (2 if is_string else 4)


def _rows_reader(read: Reader, least: int, flexible: bool, nullable: bool) -> tuple[Reader, int]:
    def read_rows(data: bytes, position: int) -> tuple[object, int]:
        count, position = _count(data, position, least, flexible, nullable)
        if count < 0:
            return None, position
        rows = []
        for _ in range(count):
            row, position = read(data, position)
            rows.append(row)
        return tuple(rows), position

    return read_rows, 1 if flexible else 4


def _numbers_reader(letter: str, size: int, flexible: bool, nullable: bool) -> tuple[Reader, int]:
    def read_numbers(data: bytes, position: int) -> tuple[object, int]:
        count, position = _count(data, position, size, flexible, nullable)
        if count < 0:
            return None, position
        return struct.unpack_from(f">{letter * count}", data, position), position + count * size

    return read_numbers, 1 if flexible else 4


def _count(
    data: bytes, position: int, least: int, flexible: bool, nullable: bool
) -> tuple[int, int]:
    """How many rows follow: as many as can be there, and -1 for null."""
    count, position = _compact_length(data, position) if flexible else _long_length(data, position)
    if count < 0 and (count < -1 or not nullable):
        raise MalformedRequest(f"an array of {count} rows")
    if count > KAFKA_REQUEST_ROWS_MAX or count * least > len(data) - position:
        raise MalformedRequest(f"an array of {count} rows in {len(data) - position} bytes")
    return count, position


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """An unsigned number of seven bits a byte, the lowest first; Kafka's are at most five long."""
    value = data[position]
    if value < 128:
        return value, position + 1
    value &= 127
    for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
        position += 1
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
    raise MalformedRequest("a length that does not end")


def _compact_length(data: bytes, position: int) -> tuple[int, int]:
    value, position = read_varint(data, position)
    return value - 1, position


def _short_length(data: bytes, position: int) -> tuple[int, int]:
    return _SHORT.unpack_from(data, position)[0], position + 2


def _long_length(data: bytes, position: int) -> tuple[int, int]:
    return _LONG.unpack_from(data, position)[0], position + 4


_LENGTHS: Final = {
    (True, True): _compact_length,
    (True, False): _compact_length,
    (False, True): _short_length,
    (False, False): _long_length,
}


def _read_tags(tags: Mapping[int, tuple[int, Reader]]) -> _ReadStep:
    def step(data: bytes, position: int, values: list[object]) -> int:
        count = data[position]
        if count == 0:
            return position + 1
        count, position = read_varint(data, position)
        for _ in range(count):
            tag, position = read_varint(data, position)
            size, position = read_varint(data, position)
            end = position + size
            if end > len(data):
                raise MalformedRequest(f"a tagged field of {size} bytes")
            if tag in tags:
                at, read = tags[tag]
                values[at], _ = read(data[:end], position)
            position = end
        return position

    return step


def skip_tags(data: bytes | bytearray | memoryview, position: int) -> int:
    """The position after a list of tagged fields that are skipped."""
    count, position = read_varint(data, position)
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
        if position > len(data):
            raise MalformedRequest(f"a tagged field of {size} bytes")
    return position


# Writing.

_Writer = Callable[[Any, bytearray], None]


def writer(key: int, direction: Direction, version: int) -> Callable[[Answer, bytearray], None]:
    """Writes a message behind what is there."""
    schema = schema_of(key, direction)
    return _struct_writer(schema, f"{schema.name} {direction}", schema.fields, version)


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
    return _struct_writer(schema, " ".join((schema.name, *path)), fields, version)


def _struct_writer(schema: Schema, title: str, fields: tuple[Field, ...], version: int) -> _Writer:
    flexible = schema.is_flexible_in(version)
    steps: list[_Writer] = []
    run: list[Field] = []
    tags: list[tuple[int, Field, _Writer]] = []
    for field in fields:
        if not field.exists_in(version):
            continue
        if field.tag is not None and flexible:
            tags.append((field.tag, field, _field_writer(schema, title, field, version)))
        elif field.kind in _FORMATS and not field.is_array:
            run.append(field)
        else:
            steps += _write_run(title, run)
            run = []
            steps.append(_write_one(title, field, _field_writer(schema, title, field, version)))
    steps += _write_run(title, run)
    if flexible:
        steps.append(_write_tags(sorted(tags, key=lambda row: row[0])))
    known = {field.name for field in fields} | {"error_message"}

    def write(row: Answer, out: bytearray) -> None:
        assert row.keys() <= known, f"{title} has no field {sorted(row.keys() - known)}"
        for step in steps:
            step(row, out)

    return write


def _field_writer(schema: Schema, title: str, field: Field, version: int) -> _Writer:
    flexible = schema.is_flexible_in(version)
    nullable = field.may_be_null_in(version)
    write: _Writer
    if field.kind == "struct":
        write = _struct_writer(schema, f"{title} {field.name}", field.children, version)
        if nullable and not field.is_array:
            return _write_maybe(write)
    elif field.kind in _FORMATS:
        write = _write_number(struct.Struct(">" + _FORMATS[field.kind]))
    else:
        write = _text_writer(field.kind, flexible, nullable and not field.is_array)
    return _rows_writer(write, flexible, nullable) if field.is_array else write


def _default_of(field: Field) -> object:
    """Answers without an error and without throttling need not say so."""
    if field.default is REQUIRED and field.name in ("error_code", "throttle_time"):
        return 0
    return field.default


def _write_one(title: str, field: Field, write: _Writer) -> _Writer:
    name, default = field.name, _default_of(field)

    def step(row: Answer, out: bytearray) -> None:
        value = row.get(name, default)
        assert value is not REQUIRED, f"{title} needs {name}"
        write(value, out)

    return step


def _write_run(title: str, run: list[Field]) -> list[_Writer]:
    if not run:
        return []
    layout = struct.Struct(">" + "".join(_FORMATS[field.kind] for field in run))
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

    return [step]


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


def _rows_writer(write: _Writer, flexible: bool, nullable: bool) -> _Writer:
    def write_rows(
        rows: list[object] | tuple[object, ...] | EncodedRows | None, out: bytearray
    ) -> None:
        if type(rows) is EncodedRows:
            write_count(rows.number, out, flexible)
            out += rows.data
            return
        if rows is None:
            assert nullable, "an array that may not be null"
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return
        write_count(len(rows), out, flexible)
        for row in rows:
            write(row, out)

    return write_rows


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
