"""Requests between nodes: what a caller is told, and what it may believe."""

import asyncio

import msgspec
import pytest

from penstock.core import errors
from penstock.core.errors import (
    DamagedFile,
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    Unavailable,
    UnknownPartition,
)
from penstock.core.limits import (
    MIB,
    REQUEST_BODY_BYTES_MAX,
    REQUESTS_IN_FLIGHT_MAX,
)
from penstock.core.memory_budget import ANSWERS, MemoryBudget
from penstock.core.types import NodeId
from penstock.engine.peers.exchange import Caller, describe_error, remake_error
from penstock.engine.peers.frames import (
    Answer,
    Failure,
    FrameKind,
    Request,
    encode_frame,
)
from penstock.server.reserved_ports import ReservedPorts
from tests.idle_connection import IdleConnection
from tests.unit.engine.linked import (
    Node,
    RawPeer,
    Run,
    close_all,
    forever,
    until,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def test_requests_are_answered_in_any_order(run: Run) -> None:
    async def script() -> None:
        gates = {b"first": asyncio.Event(), b"second": asyncio.Event()}

        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            await gates[body].wait()
            return b"%d %s " % (caller.node, method.encode()) + body

        one = await Node(1, serve=serve).start()
        two = await Node(2).start()
        two.knows(one)
        await until(two.links.connected)
        first = asyncio.create_task(two.links.ask(ONE, "m", b"first", timeout=60))
        second = asyncio.create_task(two.links.ask(ONE, "m", b"second", timeout=60))
        gates[b"second"].set()
        assert await second == b"2 m second"
        assert not first.done()
        gates[b"first"].set()
        assert await first == b"2 m first"
        assert await one.links.ask(TWO, "back", b"x" * MIB, timeout=60) == b"1 back " + b"x" * MIB
        one.links.notify(TWO, "news", b"n")
        one.links.notify(THREE, "news", b"nobody hears it")
        await until(lambda: two.notices)
        assert two.notices == [(ONE, "news", b"n")]
        await close_all(one, two)

    run(script())


REFUSALS: list[PenstockError] = [
    NotLeader("node 3 leads", leader=THREE),
    Overloaded("later", retry_after_ms=700),
    UnknownPartition("no such thing"),
    DamagedFile(path="p", position=3, problem="rot", way_out="Go."),
    OutcomeUnknown("who knows"),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_errors_are_made_again_at_the_other_end(run: Run, error: PenstockError) -> None:
    async def script() -> None:
        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            raise error

        one, two = await Node(1, serve=serve).start(), await Node(2).start()
        two.knows(one)
        await until(two.links.connected)
        with pytest.raises(type(error)) as caught:
            await two.links.ask(ONE, "m", b"", timeout=60)
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        assert vars(caught.value) == vars(error)
        await close_all(one, two)

    run(script())


def test_what_goes_wrong_inside_is_told_here_and_unknown_there(run: Run) -> None:
    async def script() -> None:
        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            if method == "decode":
                msgspec.msgpack.decode(body, type=int)
            if method == "large":
                return bytes(REQUEST_BODY_BYTES_MAX + 1)
            raise KeyError("a mistake")

        one, two = await Node(1, serve=serve).start(), await Node(2).start()
        two.knows(one)
        await until(two.links.connected)
        with pytest.raises(OutcomeUnknown, match="m failed inside: KeyError"):
            await two.links.ask(ONE, "m", b"", timeout=60)
        assert [line for line in one.lines if "failed to serve m of node 2" in line]
        with pytest.raises(InvalidRequest, match="decode: Expected `int`"):
            await two.links.ask(ONE, "decode", b"\xa1x", timeout=60)
        with pytest.raises(OutcomeUnknown, match="at most 33554432 travel"):
            await two.links.ask(ONE, "large", b"", timeout=60)
        with pytest.raises(InvalidRequest, match="has at most 33554432 bytes"):
            await two.links.ask(ONE, "m", bytes(REQUEST_BODY_BYTES_MAX + 1), timeout=60)
        await close_all(one, two)

    run(script())


def test_before_it_is_sent_nothing_has_happened(run: Run) -> None:
    async def script() -> None:
        one = await Node(1).start()
        with pytest.raises(Unavailable, match="node 2 is not connected$"):
            await one.links.ask(TWO, "m", b"", timeout=60)
        with ReservedPorts(1) as (nobody,):
            one.links.set_peers({TWO: f"127.0.0.1:{nobody}"})
            await until(lambda: [line for line in one.lines if "no link with node 2 yet" in line])
            with pytest.raises(Unavailable, match="cannot be reached"):
                await one.links.ask(TWO, "m", b"", timeout=60)
            await close_all(one)

    run(script())


def test_once_it_is_sent_only_an_answer_ends_the_doubt(run: Run) -> None:
    async def script() -> None:
        one = await Node(1).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        with pytest.raises(OutcomeUnknown, match=r"did not answer m within 0.001 s"):
            await one.links.ask(TWO, "m", b"", timeout=0.001)
        asked = asyncio.create_task(one.links.ask(TWO, "n", b"", timeout=60))
        assert await raw.next()
        frame = await raw.next()
        assert frame is not None
        assert frame.kind is FrameKind.REQUEST
        # An answer that comes too late, and one that nobody asked for, do no harm.
        for number in (1, 77):
            raw.writer.write(encode_frame(FrameKind.ANSWER, Answer(number, b"late")))
        await raw.close()
        with pytest.raises(OutcomeUnknown, match="the link with node 2 was lost"):
            await asked
        assert one.changes == [(TWO, True), (TWO, False)]
        await close_all(one)

    run(script())


def test_a_request_ends_at_its_deadline_and_with_its_link(run: Run) -> None:
    async def script() -> None:
        ended: list[str] = []

        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            try:
                return await forever()
            finally:
                ended.append(method)

        one = await Node(1, serve=serve).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        raw.writer.write(encode_frame(FrameKind.REQUEST, Request(1, "brief", 1, b"")))
        raw.writer.write(encode_frame(FrameKind.REQUEST, Request(2, "long", 60_000, b"")))
        frame = await raw.next()
        assert frame is not None
        assert frame.kind is FrameKind.FAILURE
        assert ended == ["brief"]
        await raw.close()
        await until(lambda: len(ended) == 2)
        await close_all(one)

    run(script())


def test_what_nobody_waits_for_is_given_up(run: Run) -> None:
    async def script() -> None:
        begun, given_up = asyncio.Event(), asyncio.Event()

        async def serve(_caller: Caller, _method: str, _body: bytes) -> bytes:
            begun.set()
            try:
                return await forever()
            except asyncio.CancelledError:
                given_up.set()
                raise

        one = await Node(1, serve=serve).start()
        two = await Node(2).start()
        two.knows(one)
        await until(two.links.connected)
        asking = asyncio.create_task(two.links.ask(ONE, "m", b"", timeout=60))
        await begun.wait()
        asking.cancel()
        await given_up.wait()
        await close_all(one, two)

    run(script())


def test_requests_in_flight_are_bounded_on_both_sides(run: Run) -> None:
    async def script() -> None:
        gate = asyncio.Event()

        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            await gate.wait()
            return b""

        one, two = await Node(1, serve=serve).start(), await Node(2).start()
        two.knows(one)
        await until(two.links.connected)
        asked = [
            asyncio.create_task(two.links.ask(ONE, "m", b"", timeout=60))
            for _ in range(REQUESTS_IN_FLIGHT_MAX)
        ]
        served = one.links.statistics
        await until(lambda: served().requests_served == REQUESTS_IN_FLIGHT_MAX)
        with pytest.raises(Overloaded, match="1024 requests to answer"):
            await two.links.ask(ONE, "m", b"", timeout=60)
        asked[0].cancel()  # Here there is room again, there it is still being served.
        await until(asked[0].done)
        with pytest.raises(Overloaded, match="too many requests at once"):
            await two.links.ask(ONE, "m", b"", timeout=60)
        assert served().requests_refused == 1
        gate.set()
        await asyncio.gather(*asked[1:])
        await close_all(one, two)

    run(script())


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PenstockError)
]


def travel(failure: Failure) -> PenstockError:
    return remake_error(msgspec.msgpack.decode(msgspec.msgpack.encode(failure), type=Failure))


def test_every_error_arrives_as_what_it_was() -> None:
    for kind in KINDS:
        error = kind.__new__(kind, "a sentence")
        vars(error).update(number=7, text="t", flag=True)
        made = travel(describe_error(3, error))
        assert type(made) is kind
        assert str(made) == "a sentence"
        assert {"number": 7, "text": "t", "flag": True}.items() <= vars(made).items()


def test_an_error_of_a_later_version_arrives_as_the_nearest_known() -> None:
    failure = Failure(1, ("NotLeaderAnyMore", "NotLeader", "Unavailable"), "gone", {"leader": 3})
    made = travel(failure)
    assert type(made) is NotLeader
    assert made.leader == NodeId(3)
    assert type(travel(Failure(1, ("Strange",), "odd"))) is PenstockError
    assert type(travel(Failure(1, (), "odd"))) is PenstockError


def test_names_that_are_no_errors_and_attributes_that_are_none_mean_nothing() -> None:
    made = travel(Failure(1, ("NodeId", "NO_NODE", "Unavailable"), "x", {"__class__": 1, "a b": 2}))
    assert type(made) is Unavailable
    assert vars(made) == {"retry_after_ms": 100}


def test_a_long_sentence_is_cut() -> None:
    assert len(str(travel(describe_error(1, PenstockError("x" * 100_000))))) == 4096


def test_requests_of_nodes_draw_on_the_memory_budget(run: Run) -> None:
    async def script() -> None:
        gate = asyncio.Event()

        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            await gate.wait()
            return b""

        memory = MemoryBudget(64 * MIB)
        members = {TWO}
        one = await Node(
            1, serve=serve, memory=memory, is_member=lambda other: other.node in members
        ).start()
        two, three = await Node(2).start(), await Node(3).start()
        two.knows(one)
        three.knows(one)
        await until(lambda: len(one.links.connected()) == 2)
        await until(lambda: two.links.connected() and three.links.connected())
        clients = memory.open("kafka", "host-1", IdleConnection())
        clients.take(ANSWERS, memory.bytes_max)
        with pytest.raises(Overloaded, match="memory is short"):
            await three.links.ask(ONE, "m", b"", timeout=60)
        asked = asyncio.create_task(two.links.ask(ONE, "m", bytes(MIB), timeout=60))
        await until(lambda: one.links.statistics().requests_served == 1)
        requests = memory.held_by("peer")["requests"]
        assert requests >= 2 * MIB, "the frame that was read, and the request that is served"
        gate.set()
        assert await asked == b""
        clients.close()
        await close_all(two, three)
        await until(lambda: memory.held == 0)
        await close_all(one)

    run(script())


def test_the_requests_of_a_link_that_is_lost_are_given_back(run: Run) -> None:
    async def script() -> None:
        memory = MemoryBudget(64 * MIB)
        one = await Node(1, serve=lambda *_: forever(), memory=memory).start()
        two = await Node(2).start()
        two.knows(one)
        await until(two.links.connected)
        asked = asyncio.create_task(two.links.ask(ONE, "m", bytes(MIB), timeout=60))
        await until(lambda: memory.held_by("peer")["requests"] >= 2 * MIB)
        await close_all(two)
        await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: memory.held == 0)
        await close_all(one)

    run(script())
