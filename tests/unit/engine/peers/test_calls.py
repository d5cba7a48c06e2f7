"""Remote calls between linked nodes: typed at both ends, and every failure has a name."""

import asyncio
from collections.abc import Awaitable
from types import NoneType
from typing import Any

import msgspec
import pytest

from penstock.core.errors import (
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    Unavailable,
    UnknownPartition,
)
from penstock.core.types import NO_NODE, NO_TERM, NodeId, ShardId
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.peers.exchange import Caller
from penstock.engine.peers.leaders import Leader
from tests.unit.engine.linked import Node, Run, close_all, until

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
SHARD = ShardId(4)


class Sum(msgspec.Struct, frozen=True, array_like=True):
    numbers: list[int]


class Total(msgspec.Struct, frozen=True):
    node: NodeId
    total: int


ADD = RemoteCall("add", Sum, Total)
WHO = RemoteCall("who", NoneType, int)
LATE = RemoteCall("late", NoneType, int, 0.001)


class CallingNode(Node):
    """A node that adds numbers, for itself and for others."""

    def __init__(self, node: int) -> None:
        super().__init__(node, serve=self.answer)
        self.leader = NO_NODE
        self.calls = RemoteCalls(self.node, self.links, lambda _: Leader(self.leader, NO_TERM))
        self.calls.serve(ADD, self.add)
        self.calls.serve(WHO, self.who)

    def answer(self, caller: Caller, name: str, body: bytes) -> Awaitable[bytes]:
        return self.calls.answer(caller, name, body)

    async def add(self, asked: Sum) -> Total:
        if not asked.numbers:
            raise UnknownPartition(f"node {self.node} has nothing to add")
        return Total(self.node, sum(asked.numbers))

    async def who(self, _asked: None) -> int:
        return self.node


async def start(count: int) -> list[CallingNode]:
    """Nodes that are linked, each with all others."""
    nodes = [CallingNode(1 + number) for number in range(count)]
    for node in nodes:
        await node.start()
    for node in nodes:
        node.knows(*nodes)
    await until(lambda: all(len(node.links.connected()) == count - 1 for node in nodes))
    return nodes


def test_a_call_of_another_node_and_of_this_one_is_the_same(run: Run) -> None:
    async def script() -> None:
        one, two = await start(2)
        assert await one.calls.ask_node(TWO, ADD, Sum([1, 2])) == Total(TWO, 3)
        assert await one.calls.ask_node(ONE, ADD, Sum([1, 2])) == Total(ONE, 3)
        assert await two.calls.ask_node(ONE, WHO, None) == 1
        await close_all(one, two)

    run(script())


@pytest.mark.parametrize(
    ("kind", "value", "body"),
    [
        (NoneType, None, b""),
        (bytes, b"\xc1\x00", b"\xc1\x00"),
        (str, "Bücher", b"B\xc3\xbccher"),
        (int, 7, b"\x07"),
        (dict[int, list[str]], {1: ["a"]}, b"\x81\x01\x91\xa1a"),
        (Sum, Sum([1]), b"\x91\x91\x01"),
    ],
)
def test_what_travels(kind: type[Any], value: object, body: bytes) -> None:
    """The bytes of a request and of its reply, at both ends."""

    async def script() -> None:
        bodies: list[bytes] = []
        echo = RemoteCall("echo", kind, kind)
        one, two = await start(2)

        async def serve(asked: object) -> object:
            return asked

        async def overheard(caller: Caller, name: str, asked: bytes) -> bytes:
            answer = await two.calls.answer(caller, name, asked)
            bodies.extend((asked, answer))
            return answer

        two.calls.serve(echo, serve)
        three = await Node(3, serve=overheard).start()
        one.knows(two, three)
        await until(lambda: THREE in one.links.connected())
        reply = await one.calls.ask_node(THREE, echo, value)
        assert (reply, bodies) == (value, [body, body])
        await close_all(one, two, three)

    asyncio.run(script())


def test_errors_come_back_as_they_were_raised(run: Run) -> None:
    async def script() -> None:
        one, two = await start(2)
        for node in (ONE, TWO):
            with pytest.raises(UnknownPartition, match=f"node {node} has nothing to add"):
                await one.calls.ask_node(node, ADD, Sum([]))
        await close_all(one, two)

    run(script())


def test_a_name_that_is_not_known_is_refused(run: Run) -> None:
    async def script() -> None:
        one, two = await start(2)
        with pytest.raises(InvalidRequest, match="node 1 calls subtract, which is not known here"):
            await one.calls.ask_node(TWO, RemoteCall("subtract", Sum, Total), Sum([1]))
        await close_all(one, two)

    run(script())


def test_what_cannot_be_decoded_is_refused_with_the_reason(run: Run) -> None:
    async def script() -> None:
        one, two = await start(2)
        bad: RemoteCall[bytes, Any] = RemoteCall("add", bytes, object)
        nested = b"\x91" * 100_000
        for body in (b"", b"\xc1", b"\x92\x91\x01", b"\x91\xa1\xff", nested):
            with pytest.raises(InvalidRequest, match="node 1 sent a request add that cannot be"):
                await one.calls.ask_node(TWO, bad, body)
        text = RemoteCall("text", str, int)
        two.calls.serve(text, lambda asked: two.who(None))
        with pytest.raises(InvalidRequest, match="request text that cannot be decoded: .*utf-8"):
            await one.calls.ask_node(TWO, RemoteCall("text", bytes, int), b"\xff")
        with pytest.raises(InvalidRequest, match="node 2 sent a reply to who that cannot be"):
            await one.calls.ask_node(TWO, WHO.replying(list[int]), None)
        await close_all(one, two)

    run(script())


def test_the_row_says_how_long_a_caller_waits(run: Run) -> None:
    async def script() -> None:
        one, two = await start(2)
        gate = asyncio.Event()

        async def serve(_asked: None) -> int:
            await gate.wait()
            return 1

        two.calls.serve(LATE, serve)
        with pytest.raises(OutcomeUnknown, match="node 2 did not answer late within 0.001 s"):
            await one.calls.ask_node(TWO, LATE, None)
        asked = asyncio.create_task(one.calls.ask_node(TWO, LATE, None, seconds=20))
        gate.set()
        assert await asked == 1
        await close_all(one, two)

    run(script())


def test_the_leader_is_asked_wherever_it_is(run: Run) -> None:
    async def script() -> None:
        one, two = await start(2)
        for leader in (ONE, TWO):
            one.leader = leader
            assert await one.calls.ask_leader(SHARD, WHO, None) == leader
        for leader in (NO_NODE, THREE):
            one.leader = leader
            with pytest.raises(NotLeader, match="shard 4 has no leader that can") as refused:
                await one.calls.ask_leader(SHARD, WHO, None)
            assert refused.value.leader == leader
        await close_all(one, two)

    run(script())


def test_all_are_asked_and_one_that_is_dead_is_left_out(run: Run) -> None:
    async def script() -> None:
        one, two, three = await start(3)
        answers = await two.calls.ask_all(WHO, None)
        assert list(answers.replies.items()) == [(TWO, 2), (ONE, 1), (THREE, 3)], "itself first"
        assert answers.failures == {}
        await three.links.close()
        await until(lambda: THREE not in two.links.connected())
        assert (await two.calls.ask_all(WHO, None)).replies == {TWO: 2, ONE: 1}
        each = await two.calls.ask_each(WHO, {ONE: None, THREE: None})
        assert each.replies == {ONE: 1}
        assert type(each.failures[THREE]) is Unavailable
        await close_all(one, two)

    run(script())


def test_failures_of_others_are_values_and_its_own_is_raised(run: Run) -> None:
    async def script() -> None:
        one, two, three = await start(3)
        answers = await one.calls.ask_each(ADD, {ONE: Sum([1]), TWO: Sum([]), THREE: Sum([2])})
        assert answers.replies == {ONE: Total(ONE, 1), THREE: Total(THREE, 2)}
        assert type(answers.failures[TWO]) is UnknownPartition
        with pytest.raises(UnknownPartition, match="node 1 has nothing to add"):
            await one.calls.ask_each(ADD, {ONE: Sum([]), TWO: Sum([1])})
        await close_all(one, two, three)

    run(script())


def test_a_reply_that_is_kept_is_encoded_again_only_when_it_changes(run: Run) -> None:
    async def script() -> None:
        (one,) = await start(1)
        state = {"total": Total(ONE, 1)}

        async def serve(_asked: None) -> Total:
            return state["total"]

        kept = RemoteCall("kept", NoneType, Total, is_reply_kept=True)
        one.calls.serve(kept, serve)
        first = await one.calls.answer(Caller(TWO, is_member=True), "kept", b"")
        assert await one.calls.answer(Caller(TWO, is_member=True), "kept", b"") is first
        state["total"] = Total(ONE, 2)
        second = await one.calls.answer(Caller(TWO, is_member=True), "kept", b"")
        assert msgspec.msgpack.decode(second) == {"node": 1, "total": 2}
        await close_all(one)

    run(script())


def test_a_name_is_served_once(run: Run) -> None:
    async def script() -> None:
        (one,) = await start(1)
        with pytest.raises(AssertionError, match="add is served twice"):
            one.calls.serve(ADD, one.add)
        assert one.calls.served() == (ADD, WHO)
        await close_all(one)

    run(script())
