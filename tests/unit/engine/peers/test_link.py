"""One connection: messages, bad bytes, and peers that are slow or silent."""

import asyncio
import contextlib

import msgspec
import pytest

from penstock.core.errors import (
    Unavailable,
    UnknownPartition,
)
from penstock.core.limits import (
    MESSAGES_FRAME_BYTES,
    MIB,
    PEER_OUTGOING_SMALL_BYTES_MAX,
)
from penstock.core.types import NodeId, ShardId
from penstock.engine.peers.exchange import Caller
from penstock.engine.peers.frames import (
    MESSAGES_DECODER,
    PING_FRAME,
    FrameKind,
    Notice,
    Request,
    decode_payload,
    encode_frame,
)
from penstock.engine.peers.send_queue import TRANSPORT_BYTES_HIGH
from penstock.raft.messages import AppendRequest, Heartbeat
from penstock.testing.clock import ManualClock
from tests.unit.engine.linked import (
    QUICK,
    Node,
    RawPeer,
    Run,
    append,
    append_batch,
    clock_was_seen,
    close_all,
    heartbeat,
    hello,
    quiet,
    start_pair,
    until,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def test_messages_arrive_in_order_and_those_of_one_turn_together(run: Run) -> None:
    async def script() -> None:
        one, two = await start_pair()
        before = one.links.statistics()
        sent = [(ShardId(n % 5), heartbeat(1, 2, n)) for n in range(500)]
        for shard, message in sent:
            one.send(shard, message)
        two.send(0, heartbeat(2, 1, 99))
        await until(lambda: len(two.received) == 500 and one.received)
        assert two.received == sent
        assert one.received == [(0, heartbeat(2, 1, 99))]
        after = one.links.statistics()
        assert after.frames_sent - before.frames_sent == 1
        assert after.messages_sent - before.messages_sent == 500
        assert two.links.statistics().messages_received == 500
        await close_all(one, two)

    run(script())


def test_large_messages_leave_in_frames_of_their_own(run: Run) -> None:
    async def script() -> None:
        one, two = await start_pair()
        before = one.links.statistics().frames_sent
        sizes = [400_000, 400_000, 400_000, 3 * MESSAGES_FRAME_BYTES, 10]
        sent = [append_batch(1, 2, bytes((n,)) * size, n + 1) for n, size in enumerate(sizes)]
        for message in sent:
            one.send(1, message)
        await until(lambda: len(two.received) == len(sizes))
        assert two.received == [(1, message) for message in sent]
        assert one.links.statistics().frames_sent - before == 4
        await close_all(one, two)

    run(script())


def test_a_message_to_oneself_is_a_bug_and_one_to_nobody_is_dropped(run: Run) -> None:
    async def script() -> None:
        one = await Node(1).start()
        with pytest.raises(AssertionError, match="a message to oneself"):
            one.send(0, heartbeat(1, 1, 0))
        one.send(0, heartbeat(1, 2, 0))
        assert one.links.statistics().messages_dropped == 1
        await close_all(one)

    run(script())


def test_messages_of_others_or_for_others_are_thrown_away(run: Run) -> None:
    async def script() -> None:
        one = await Node(1).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        wrong = [heartbeat(3, 1, 0), heartbeat(2, 3, 0)]
        right = heartbeat(2, 1, 1)
        parcels = [(ShardId(4), message) for message in (*wrong, right)]
        raw.writer.write(encode_frame(FrameKind.MESSAGES, parcels))
        await until(lambda: one.received)
        assert one.received == [(4, right)]
        assert one.links.statistics().messages_foreign == 2
        await raw.close()
        await close_all(one)

    run(script())


# Bad bytes.

GOOD = bytes(encode_frame(FrameKind.NOTICE, Notice("n", b"body")))
FLIPPED = GOOD[:-1] + bytes((GOOD[-1] ^ 1,))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", "no frame begins with"),
        (FLIPPED, "does not match its CRC-32C"),
        (GOOD[:9] + b"\xff" + GOOD[10:], "the header of a frame does not match"),
        (bytes(encode_frame(FrameKind.REQUEST, ["no", "request"])), "that cannot be read"),
        (bytes(encode_frame(FrameKind.NOTICE, Notice("typed", b"\xc1"))), "a notice typed that"),
        (bytes(encode_frame(FrameKind.HELLO, hello(3))), "node 2 cannot become node 3"),
    ],
)
def test_bad_bytes_end_one_link_with_one_line(run: Run, data: bytes, problem: str) -> None:
    async def script() -> None:
        one = await Node(1).start()
        other = await Node(3).start()
        other.knows(one)
        await until(lambda: THREE in one.links.connected())
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        one.lines.clear()
        raw.writer.write(GOOD + data + GOOD)
        await raw.drain_to_end()
        await until(lambda: TWO not in one.links.connected())
        assert [line for line in one.lines if problem in line] == one.lines[:1]
        assert one.notices == [(TWO, "n", b"body")], "what follows is not believed"
        assert one.changes[-1] == (TWO, False)
        assert await other.links.ask(ONE, "still", b"there", timeout=60) == b"3 still there"
        await raw.close()
        await close_all(one, other)

    run(script())


def test_a_stranger_must_say_hello_first_briefly_and_soon(run: Run) -> None:
    async def script() -> None:
        clock = ManualClock()
        one = await Node(1, clock=clock).start()
        for data, problem in (
            (GOOD, "a frame NOTICE before a hello"),
            (PING_FRAME, "a frame PING before a hello"),
            (bytes(encode_frame(FrameKind.HELLO, "x" * 20_000)), "at most 4096 are allowed"),
        ):
            raw = await RawPeer.dial(one)
            raw.writer.write(data)
            await raw.drain_to_end()
            await raw.close()
            assert [problem in line for line in one.lines] == [True]
            one.lines.clear()
        silent = await RawPeer.dial(one)
        half = await RawPeer.dial(one)
        before = one.links.statistics().bytes_received
        half.writer.write(PING_FRAME[:10])
        await until(lambda: one.links.statistics().bytes_received == before + 10)
        clock.advance(QUICK.connect_timeout_ms)
        await silent.drain_to_end()
        await half.drain_to_end()
        assert one.links.statistics().links_made == 0
        await silent.close()
        await half.close()
        await close_all(one)

    run(script())


# Slow and silent peers.


def test_a_peer_that_reads_nothing_costs_bounded_memory(run: Run) -> None:
    async def script() -> None:
        bound = 4 * MIB
        settings = msgspec.structs.replace(QUICK, outgoing_bytes_max=bound)
        one = await Node(1, settings=settings, clock=ManualClock()).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        most = bound + PEER_OUTGOING_SMALL_BYTES_MAX + TRANSPORT_BYTES_HIGH
        for number in range(300):
            one.send(0, append(1, 2, bytes(256 * 1024), number + 1))
            await asyncio.sleep(0)
            assert one.links.statistics().waiting_bytes <= most
        dropped = one.links.statistics().messages_dropped
        assert dropped > 100
        with pytest.raises(Unavailable, match="too much waits to leave for node 2"):
            await one.links.ask(TWO, "m", b"x" * MIB, timeout=60)
        one.links.notify(TWO, "n", bytes(MIB))
        one.send(0, heartbeat(1, 2, 1))  # There is room for the small ones, ahead of the rest.
        assert one.links.statistics().messages_dropped == dropped
        order: list[type] = []
        while Heartbeat not in order:
            frame = await raw.next()
            assert frame is not None
            order += [type(message) for _, message in decode_payload(MESSAGES_DECODER, frame)]
        while len(order) < 301 - dropped:
            frame = await raw.next()
            assert frame is not None
            order += [type(message) for _, message in decode_payload(MESSAGES_DECODER, frame)]
        assert order.count(AppendRequest) == 300 - dropped
        assert order.index(Heartbeat) < len(order) - 1
        await raw.close()
        await close_all(one)

    run(script())


def test_a_peer_that_asks_and_takes_no_answer_is_ended(run: Run) -> None:
    async def script() -> None:
        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            raise UnknownPartition("x" * 4_000)

        settings = msgspec.structs.replace(QUICK, outgoing_bytes_max=64 * 1024)
        one = await Node(1, settings=settings, clock=ManualClock(), serve=serve).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        questions = encode_frame(FrameKind.REQUEST, Request(1, "m", 60_000, b"")) * 100
        with contextlib.suppress(ConnectionError):
            while one.links.connected():
                raw.writer.write(questions)
                await raw.writer.drain()
                await asyncio.sleep(0)
        await until(lambda: not one.links.connected())
        assert any("takes nothing of what it asks for" in line for line in one.lines)
        await raw.close()
        await close_all(one)

    run(script())


def test_silence_is_answered_with_a_ping_and_then_with_the_end(run: Run) -> None:
    async def script() -> None:
        clock = ManualClock()
        one = await Node(1, clock=clock).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        clock.advance(1)
        await until(lambda: clock_was_seen(one, clock))  # The hello was heard by now.
        pings = 0
        while one.links.connected():
            clock.advance(500)
            await until(lambda: clock_was_seen(one, clock))
        while (frame := await raw.next()) is not None:
            assert frame.kind is FrameKind.PING
            pings += 1
        assert clock.monotonic_ms() == QUICK.silence_ms_max + 1
        assert pings == 4
        assert any("nothing was heard for 500" in line for line in one.lines)
        await raw.close()
        await close_all(one)

    run(script())


def test_a_quiet_pair_stays_together_and_a_pause_of_ones_own_is_no_silence(run: Run) -> None:
    async def script() -> None:
        clock = ManualClock()
        one, two = await start_pair(clock=clock)
        for _ in range(12):
            clock.advance(500)
            await until(lambda: clock_was_seen(one, clock) and clock_was_seen(two, clock))
            await until(lambda: quiet(one, two))
        assert one.links.statistics().frames_received >= 4
        clock.advance(60_000)  # Both were stopped, or the machine was.
        await until(lambda: clock_was_seen(one, clock) and clock_was_seen(two, clock))
        assert await one.links.ask(TWO, "m", b"", timeout=60) == b"1 m "
        assert one.changes == [(TWO, True)]
        assert two.changes == [(ONE, True)]
        await close_all(one, two)

    run(script())
