"""Messages as lines of JSON, in both directions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import pytest

from penstock.cli.message.json_lines import json_line, outgoing_of
from penstock.client.producer.outgoing_message import Outgoing
from penstock.core.errors import LocalError


@dataclass
class Shown:
    partition: int = 3
    offset: int = 17
    key: bytes | None = b"k"
    raw: bytes = b"hello"
    headers: Mapping[str, bytes | None] = field(default_factory=lambda: {"a": b"1", "b": None})
    timestamp_ms: int = 1_000
    id: str = "0000-1"
    is_tombstone: bool = False


@dataclass
class Leased(Shown):
    deliveries: int = 2


def test_everything_a_line_may_say() -> None:
    line = (
        b'{"body": "grob", "key": "k", "headers": {"a": "1", "b": null}, "priority": 9,'
        b' "delay": "5m", "ttl": 1.5, "message_group": "g", "dedup_id": "d",'
        b' "at": "2030-01-31T09:30:00"}'
    )
    assert outgoing_of(line, 1) == Outgoing(
        b"grob",
        key=b"k",
        headers={"a": b"1", "b": None},
        priority=9,
        delay=300.0,
        ttl=1.5,
        message_group="g",
        dedup_id="d",
        deliver_at=datetime(2030, 1, 31, 9, 30, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("written", "body", "kind"),
    [
        (b'"text"', b"text", None),
        (b'{"base64": "/w=="}', b"\xff", None),
        (b"null", None, None),
        (b'{"id": 7, "x": [1, null]}', b'{"id":7,"x":[1,null]}', b"application/json"),
        (b"17", b"17", b"application/json"),
        (b"[]", b"[]", b"application/json"),
    ],
)
def test_bodies(written: bytes, body: bytes | None, kind: bytes | None) -> None:
    made = outgoing_of(b'{"body": %b}' % written, 1)
    assert made.body == body
    assert dict(made.headers or {}).get("content-type") == kind


def test_what_is_printed_can_be_sent_again() -> None:
    for shown in (Shown(), Shown(key=b"\xff", raw=b"\x00\xfe"), Shown(key=None), Leased()):
        again = outgoing_of(json_line(shown, {"topic": "orders"}), 1)
        assert (again.key, again.body, again.headers) == (shown.key, shown.raw, shown.headers)
        assert again.partition is None
        assert again.timestamp is None
    assert outgoing_of(json_line(Shown(is_tombstone=True, raw=b""), {"queue": "q"}), 1).body is None


def test_a_line_of_output() -> None:
    line = json_line(Leased(raw=b"\xff"), {"queue": "jobs"})
    assert line.endswith(b"\n")
    assert msgspec.json.decode(line) == {
        "queue": "jobs",
        "partition": 3,
        "offset": 17,
        "id": "0000-1",
        "timestamp_ms": 1_000,
        "key": "k",
        "body": {"base64": "/w=="},
        "headers": {"a": "1", "b": None},
        "deliveries": 2,
    }


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"[]",
        b'{"body": "x", "dealy": "5m"}',
        b'{"body": "x", "delay": "soon"}',
        b'{"body": "x", "at": "soon"}',
        b'{"body": "x", "headers": {"a": 1}}',
        b'{"body": "\xff"}',
        b'{"key": {"base64": "?"}}',
    ],
)
def test_what_is_no_message(line: bytes) -> None:
    with pytest.raises(LocalError, match="line 7 is not a message in JSON: "):
        outgoing_of(line, 7)
