"""Messages as lines of JSON: what `penstock consume --json` prints and `produce --json` takes.

    {"key": "k", "body": "hello", "headers": {"trace": "7"}, "priority": 9, "delay": "5m"}

A text is a text; bytes that are none are `{"base64": "…"}`, as everywhere in Penstock's JSON. A
body that is any other JSON value is sent as that JSON, with a header that says so. What `consume`
prints can be handed to `produce`: where a message was (topic, partition, offset, …) is in the
one and ignored by the other, so that a topic can be copied by a pipe. A name that neither knows is
an error, because a misspelt "dealy" would otherwise deliver at once.
"""

import datetime as dt
from collections.abc import Mapping

import msgspec

from penstock.cli.message.formats import Printable, is_tombstone
from penstock.client.codecs import CONTENT_TYPE, JSON_TYPE
from penstock.client.producer.outgoing_message import Outgoing
from penstock.core.decoders import json_decoder
from penstock.core.errors import LocalError
from penstock.server.notation import parse_duration_ms
from penstock.web.queue_messages import Encoded, Text, data, text

Duration = str | float
"""With its unit as in flags, or a number of seconds."""


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of input. Fields of type `object` are ignored: they hold the place of the message."""

    body: object = None
    key: Text = None
    headers: dict[str, Text] = {}
    priority: int | None = None
    delay: Duration | None = None
    at: str | None = None
    ttl: Duration | None = None
    message_group: str | None = None
    dedup_id: str | None = None
    id: object = None
    topic: object = None
    queue: object = None
    partition: object = None
    offset: object = None
    timestamp_ms: object = None
    deliveries: object = None


_DECODER = json_decoder(_Line)
_ENCODER = msgspec.json.Encoder()


def outgoing_of(line: bytes, number: int) -> Outgoing[bytes | None]:
    """The message that a line describes; an error names the line by its number."""
    try:
        said = _DECODER.decode(line)
        body, own = _body(said.body)
        return Outgoing(
            body,
            key=data(said.key),
            headers={**own, **{name: data(value) for name, value in said.headers.items()}},
            priority=said.priority,
            delay=_seconds(said.delay),
            deliver_at=None if said.at is None else _time(said.at),
            ttl=_seconds(said.ttl),
            message_group=said.message_group,
            dedup_id=said.dedup_id,
        )
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise LocalError(f"line {number} is not a message in JSON: {error}") from error


def json_line(message: Printable, place: Mapping[str, object]) -> bytes:
    """Return a message as one line of JSON; the fields of `place` come first."""
    said: dict[str, object] = {
        **place,
        "partition": message.partition,
        "offset": message.offset,
        "id": message.id,
        "timestamp_ms": message.timestamp_ms,
        "key": text(message.key),
        "body": None if is_tombstone(message) else text(message.raw),
        "headers": {name: text(value) for name, value in message.headers.items()},
    }
    deliveries = getattr(message, "deliveries", None)
    if deliveries is not None:
        said["deliveries"] = deliveries
    return _ENCODER.encode(said) + b"\n"


def _body(value: object) -> tuple[bytes | None, dict[str, bytes]]:
    if value is None or isinstance(value, str):
        return data(value), {}
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return msgspec.convert(value, Encoded).base64, {}
    return _ENCODER.encode(value), {CONTENT_TYPE: JSON_TYPE}


def _seconds(duration: Duration | None) -> float | None:
    if isinstance(duration, str):
        try:
            return parse_duration_ms(duration) / 1_000
        except ValueError as error:
            raise ValueError(f'"{duration}" is not a duration such as "30s"') from error
    return duration


def _time(written: str) -> dt.datetime:
    time = dt.datetime.fromisoformat(written)
    return time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
