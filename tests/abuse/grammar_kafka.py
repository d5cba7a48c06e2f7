"""Kafka requests of every API in every version, with hostile values.

The grammar is the project's own schema table. Lengths and counts mostly fit what follows, so that a
request gets past the decoder; now and then one does not.
"""

import random
import struct
from functools import cache

from penstock.kafka.schema import Field, schema_of
from penstock.kafka.table import TABLE
from tests.abuse.hostile_batches import PAST_MS, batch, honest, records
from tests.abuse.kafka_wire import raw_frame, varint

_FORMATS = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "float64": "d",
    "bool": "?", "error_code": "h", "timedelta_i32": "i", "timedelta_i64": "q", "datetime_i64": "q",
}  # fmt: skip
_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
_NAMES = ("fuzz-a", "fuzz-b", "fuzz-c", "fuzz-group", "default", "range", "consumer", "m-1")
_TEXTS = ("", "a", "ä", "x" * 300, "__audit", "a\nb", "0", "-1", "retention.ms", "queue.order")
_COUNTED = {"num_partitions", "count"}
"""Fields that cost as much as they say: they are small here, and have cases of their own."""
_WAITS = {"max_wait", "timeout", "rebalance_timeout"}


@cache
def apis() -> tuple[tuple[int, int], ...]:
    """Every API with each of its versions."""
    return tuple(
        (api.key, version)
        for api in TABLE.values()
        for version in range(api.served[0], api.served[1] + 1)
    )


def kafka_request(rng: random.Random, topics: tuple[bytes, ...] = ()) -> bytes:
    """One request; `topics` are ids that exist."""
    key, version = rng.choice(apis())
    schema = schema_of(key, "request")
    out = bytearray()
    writer = _Writer(rng, version, schema.is_flexible_in(version), topics)
    writer.struct(out, schema.fields)
    if rng.random() < 0.03 and out:
        del out[rng.randrange(len(out)) :]
    return raw_frame(key, version, bytes(out[:60_000]), rng.randrange(1 << 31))


class _Writer:
    """Writes the fields of one request."""

    def __init__(
        self, rng: random.Random, version: int, flexible: bool, topics: tuple[bytes, ...]
    ) -> None:
        self._rng = rng
        self._version = version
        self._flexible = flexible
        self._topics = topics

    def struct(self, out: bytearray, fields: tuple[Field, ...], depth: int = 0) -> None:
        """All fields that the version has, then the tags."""
        tagged = []
        for field in fields:
            if not field.exists_in(self._version):
                continue
            if field.tag is not None and self._flexible:
                tagged.append(field)
            else:
                self._field(out, field, depth)
        if self._flexible:
            self._tags(out, tagged, depth)

    def _tags(self, out: bytearray, tagged: list[Field], depth: int) -> None:
        chosen = [field for field in tagged if self._rng.random() < 0.3]
        out += varint(len(chosen))
        for field in chosen:
            body = bytearray()
            self._field(body, field, depth + 1)
            out += varint(field.tag or 0) + varint(len(body)) + body

    def _field(self, out: bytearray, field: Field, depth: int) -> None:
        if not field.is_array:
            self._value(out, field, depth)
            return
        if field.may_be_null_in(self._version) and self._rng.random() < 0.1:
            out += b"\0" if self._flexible else b"\xff\xff\xff\xff"
            return
        many = self._rng.choice((0, 1, 1, 1, 2, 3, 9)) if depth < 4 else 1
        claimed = many if self._rng.random() > 0.01 else self._rng.choice((250_001, 7, 1 << 30))
        out += varint(claimed + 1) if self._flexible else struct.pack(">i", claimed)
        for _ in range(many):
            self._value(out, field, depth + 1)

    def _value(self, out: bytearray, field: Field, depth: int) -> None:
        rng = self._rng
        if field.kind == "struct":
            if not field.is_array and field.may_be_null_in(self._version):
                out.append(1)
            self.struct(out, field.children, depth + 1)
        elif field.kind == "uuid":
            known = self._topics and rng.random() < 0.7
            out += rng.choice(self._topics) if known else rng.randbytes(16)
        elif field.kind == "string":
            name = rng.choice(_NAMES if rng.random() < 0.7 else _TEXTS).encode()
            self._text(out, field, name, ">h")
        elif field.kind in ("bytes", "records"):
            self._text(out, field, self._data(field.kind), ">i")
        else:
            out += self._number(field)

    def _text(self, out: bytearray, field: Field, value: bytes, layout: str) -> None:
        rng = self._rng
        if field.may_be_null_in(self._version) and rng.random() < 0.15:
            out += b"\0" if self._flexible else struct.pack(layout, -1)
            return
        size = len(value) if rng.random() > 0.005 else rng.choice((0, 1, 32_767))
        out += varint(size + 1) if self._flexible else struct.pack(layout, size)
        out += value

    def _data(self, kind: str) -> bytes:
        rng = self._rng
        if kind == "bytes" or rng.random() < 0.2:
            return rng.randbytes(rng.choice((0, 1, 20, 300)))
        if rng.random() < 0.5:
            return honest([rng.randbytes(rng.choice((0, 3, 200)))], PAST_MS)
        body = records([b"x"]) if rng.random() < 0.5 else rng.randbytes(40)
        count = rng.choice((0, 1, 2, 100, -1, 1 << 24))
        attributes = rng.choice((0, 0x10, 0x20))
        return batch(body, count, codec=rng.randrange(6), attributes=attributes, time_ms=PAST_MS)

    def _number(self, field: Field) -> bytes:
        rng = self._rng
        letter = _FORMATS[field.kind]
        if letter in "?dH":
            return struct.pack(f">{letter}", rng.choice((0, 1)))
        bits = _BITS[letter]
        if field.name in _COUNTED:
            value = rng.choice((1, 2, 3, 0, -1, (1 << bits - 1) - 1))
        elif field.name in _WAITS:
            value = rng.choice((0, 1, 50, -1))
        elif rng.random() < 0.6:
            value = rng.randrange(3)
        else:
            value = rng.choice((-1, -2, (1 << bits - 1) - 1, -(1 << bits - 1), 100))
        return struct.pack(f">{letter}", value)
