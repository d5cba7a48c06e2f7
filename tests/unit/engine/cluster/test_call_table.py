"""The table of remote calls is complete, and nodes of 0.1.0 understand every call in it.

`calls_0_1_0.txt` was recorded with version 0.1.0: a request and a reply of every call, in which
every field has a value of its own. Whatever changes since then, it must be read, and what is sent
may differ only by what 0.1.0 passes over: fields at the end of an array, or new keys of a map.
"""

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.embedded.engine import EmbeddedEngine
from penstock.engine.cluster import call_table
from penstock.engine.delivery.forwarded_requests import QueueCall
from penstock.engine.delivery.requests import BrowsedMessage, Delivery, QueueCounts, Sent
from penstock.engine.peers.calls import RemoteCall, decode_body, encode_body
from penstock.engine.peers.forwarder import Envelope, unwrap, wrap
from penstock.engine.peers.frames import NAME_CHARACTERS_MAX
from penstock.machines.machine import Reply, Request

Row = tuple[str, str, str, str, str]

QUEUE_REPLIES: dict[str, Any] = {
    "send": list[Sent],
    "receive": list[Delivery],
    "count": QueueCounts,
    "browse": list[BrowsedMessage],
}


def recorded() -> list[tuple[str, bytes, bytes]]:
    """Name, request and reply of calls of 0.1.0."""
    text = Path(__file__).with_name("calls_0_1_0.txt").read_text()
    rows = [line.replace(" -", " ").split(" | ") for line in text.splitlines()]
    return [(name, bytes.fromhex(asked), bytes.fromhex(reply)) for name, asked, reply in rows]


def extends(now: Any, then: Any) -> bool:
    """Whether a reader of the older form finds in the newer one what it looks for."""
    if isinstance(then, list):
        both = isinstance(now, list) and len(now) >= len(then)
        return both and all(map(extends, now, then))
    if isinstance(then, dict):
        return isinstance(now, dict) and all(
            key in now and extends(now[key], value) for key, value in then.items()
        )
    return bool(now == then)


async def served() -> tuple[RemoteCall[Any, Any], ...]:
    engine = await EmbeddedEngine.open(None)
    try:
        return engine.node.calls.served()
    finally:
        await engine.close()


def drawn() -> list[Row]:
    """The rows of the table at the top of the module."""
    lines = (call_table.__doc__ or "").splitlines()
    found = [re.split(r"\s{2,}", line.strip()) for line in lines if line.startswith("    ")]
    assert found[0] == ["name", "request", "reply", "callers", "seconds"]
    return [
        (name, request, reply, who, seconds) for name, request, reply, who, seconds in found[1:]
    ]


def row(call: RemoteCall[Any, Any]) -> Row:
    callers = "anyone" if call.is_open else "members"
    return call.name, shown(call.request), shown(call.reply), callers, f"{call.seconds:g}"


def shown(kind: type) -> str:
    name = str(kind) if hasattr(kind, "__args__") else kind.__name__
    name = re.sub(r"[\w.]+\.(\w+)", r"\1", name).replace("NoneType", "None")
    return re.sub(r"Optional\[(\w+)\]", r"\1 | None", name)


def test_the_table_that_is_drawn_is_the_table_that_is_served() -> None:
    rows = [row(call) for call in asyncio.run(served())]
    assert drawn() == rows


def test_strangers_may_introduce_themselves_and_do_nothing_else() -> None:
    assert [name for name, _, _, callers, _ in drawn() if callers != "members"] == ["introduce"]


def test_names_are_unique_and_fit_into_a_frame() -> None:
    names = [name for name, *_ in drawn()]
    assert len(names) == len(set(names)) == 30
    assert max(map(len, names)) <= NAME_CHARACTERS_MAX


def test_the_calls_of_0_1_0_are_all_there() -> None:
    since = {"catalog_version", "cluster_key", "workers"}
    assert {name for name, *_ in recorded()} == {name for name, *_ in drawn()} - since


@pytest.fixture(scope="module")
def calls() -> dict[str, RemoteCall[Any, Any]]:
    return {call.name: call for call in asyncio.run(served())}


@pytest.mark.parametrize(("name", "request_body", "reply_body"), recorded())
def test_requests_and_replies_of_0_1_0_are_read_and_written(
    calls: dict[str, RemoteCall[Any, Any]], name: str, request_body: bytes, reply_body: bytes
) -> None:
    call = calls[name]
    request = decode_body(request_body, call.request, "a request")
    if isinstance(request, QueueCall):
        call = call.replying(QUEUE_REPLIES[str(request.there.__struct_config__.tag)])
    reply = decode_body(reply_body, call.reply, "a reply")
    if isinstance(request, Envelope):
        request = wrap(request.shard, unwrap(request, Request))
        reply = wrap(reply.shard, unwrap(reply, Reply))
    for value, kind, body in (
        (request, call.request, request_body),
        (reply, call.reply, reply_body),
    ):
        now = encode_body(value, kind)
        if kind in (bytes, str, type(None)):
            assert now == body
        else:
            assert extends(msgspec.msgpack.decode(now), msgspec.msgpack.decode(body))


def test_what_is_missing_or_in_another_place_is_found() -> None:
    assert extends([1, {"a": 2, "b": 3}, 4], [1, {"a": 2}])
    assert not extends([1], [1, 2])
    assert not extends([2, 1], [1, 2])
    assert not extends({"b": 1}, {"a": 1})
