"""Who is let in by the cluster key, over real sockets and on both event loops."""

import asyncio
import logging

import msgspec
import pytest

from penstock.core.errors import Unavailable
from penstock.core.limits import PEER_UNPROVEN_CONNECTIONS_PER_HOST_MAX
from penstock.core.types import NodeId, ShardId
from penstock.engine.inspection.limited_log import LimitedLog
from penstock.engine.peers.cluster_key import ClusterKeys
from penstock.engine.peers.exchange import Caller
from penstock.engine.peers.frames import (
    CHALLENGE_DECODER,
    HAS_KEY,
    PROVEN_HELLO_DECODER,
    REFUSED_DECODER,
    RESPONSE_DECODER,
    Frame,
    FrameKind,
    Notice,
    Request,
    decode_payload,
    encode_frame,
    encode_hello,
)
from penstock.engine.peers.handshake import Challenge, Initiator, ProvenHello, Responder
from penstock.engine.peers.link import PROOF_WANTED
from penstock.testing.clock import ManualClock
from tests.unit.engine.linked import (
    CLUSTER,
    QUICK,
    Node,
    RawPeer,
    Run,
    close_all,
    forever,
    heartbeat,
    hello,
    until,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
A, B = b"a" * 32, b"b" * 32
SECRETS = (b"incarnation", CLUSTER.encode(), b"1.0")
"""What the hello of a node says."""


async def keyed_pair(first: tuple[bytes, ...], second: tuple[bytes, ...]) -> tuple[Node, Node]:
    one, two = await Node(1, keys=first).start(), await Node(2, keys=second).start()
    one.knows(two)
    two.knows(one)
    return one, two


async def frame_of(raw: RawPeer, kind: FrameKind) -> Frame:
    """The next frame of a kind."""
    while (frame := await raw.next()) is not None:
        if frame.kind is kind:
            return frame
    raise AssertionError(f"no frame {kind.name} came")


async def prove(raw: RawPeer, node: int, *, cluster: str = CLUSTER, life: int = 7) -> None:
    """Get in, as a node with the key does."""
    initiator = Initiator(ClusterKeys((A,)), ONE)
    raw.send(FrameKind.CHALLENGE, initiator.challenge())
    frame = await frame_of(raw, FrameKind.RESPONSE)
    assert initiator.verify(decode_payload(RESPONSE_DECODER, frame))
    said = encode_hello(hello(node, cluster=cluster, life=life))
    raw.send(FrameKind.PROOF, initiator.proof(said))


def test_nodes_with_the_same_key_are_linked(run: Run) -> None:
    async def script() -> None:
        one, two = await keyed_pair((A,), (A,))
        await until(lambda: one.links.proven() == {TWO} and two.links.proven() == {ONE})
        assert await one.links.ask(TWO, "m", b"x", timeout=60) == b"1 m x"
        one.send(3, heartbeat(1, 2, 1))
        await until(lambda: two.received)
        await close_all(one, two)

    run(script())


def test_there_is_one_link_when_both_dial_at_once_with_a_key(run: Run) -> None:
    async def script() -> None:
        eager = msgspec.structs.replace(QUICK, head_start_ms=0)
        one = await Node(1, settings=eager, keys=(A,)).start()
        two = await Node(2, settings=eager, keys=(A,)).start()
        for number in range(1, 21):
            one.knows(two)
            two.knows(one)
            await until(lambda: one.links.proven() and two.links.proven())
            for node in (one, two):  # The first link that worked is the one that stayed.
                assert len(node.changes) == 2 * number - 1
                node.links.set_peers({})
            await until(lambda: not one.links.connected() and not two.links.connected())
        await close_all(one, two)

    run(script())


@pytest.mark.parametrize("second", [(B,), ()])
def test_nodes_with_different_keys_never_link(run: Run, second: tuple[bytes, ...]) -> None:
    async def script() -> None:
        one, two = await keyed_pair((A,), second)
        tried = one.links.statistics
        await until(lambda: tried().authentications_failed >= 10)
        assert one.changes == two.changes == []
        await until(lambda: one.lines and two.lines)
        assert not [line for line in one.lines + two.lines if "linked" in line]
        await close_all(one, two)

    run(script())


def test_a_stranger_learns_nothing_but_that_this_is_a_peer_port(run: Run) -> None:
    async def script() -> None:
        one = await Node(1, keys=(A,)).start()
        proof = ProvenHello(encode_hello(hello(2)), bytes(32))
        seen = b""
        said: tuple[tuple[FrameKind, object], ...] = (
            (FrameKind.HELLO, hello(2)),
            (FrameKind.HELLO, hello(2, cluster="")),
            (FrameKind.HELLO, hello(2, cluster="elsewhere", target=9)),
            (FrameKind.CHALLENGE, Challenge(bytes(32))),
            (FrameKind.PROOF, proof),
            (FrameKind.CONFIRM, proof),
            (FrameKind.RESPONSE, (bytes(32), ())),
            (FrameKind.REQUEST, Request(1, "introduce", 1_000, b"")),
            (FrameKind.NOTICE, Notice("leads", b"")),
        )
        for kind, content in said:
            raw = await RawPeer.dial(one)
            raw.send(kind, content)
            raw.send(FrameKind.PROOF, proof)
            while (frame := await raw.next()) is not None:
                assert frame.kind in (FrameKind.RESPONSE, FrameKind.REFUSED)
                if frame.kind is FrameKind.REFUSED:
                    assert decode_payload(REFUSED_DECODER, frame).reason == PROOF_WANTED
                seen += bytes(frame.payload)
            await raw.close()
        assert not [secret for secret in SECRETS if secret in seen]
        assert one.changes == []
        assert one.links.connected() == frozenset()
        await close_all(one)

    run(script())


def test_a_stranger_may_challenge_once(run: Run) -> None:
    async def script() -> None:
        one = await Node(1, keys=(A,)).start()
        raw = await RawPeer.dial(one)
        for number in range(3):
            raw.send(FrameKind.CHALLENGE, Challenge(bytes([number]) * 32))
        kinds: list[FrameKind] = []
        while (frame := await raw.next()) is not None:
            kinds.append(frame.kind)
        assert kinds.count(FrameKind.RESPONSE) <= 1
        await until(lambda: any("a second frame CHALLENGE" in line for line in one.lines))
        assert one.links.statistics().authentications_failed == 1
        await raw.close()
        await close_all(one)

    run(script())


def test_a_claimed_id_does_not_touch_the_link_of_the_node(run: Run) -> None:
    async def script() -> None:
        one, two = await keyed_pair((A,), (A,))
        await until(lambda: one.links.proven() and two.links.proven())
        for number in range(20):
            raw = await RawPeer.dial(one)
            raw.say(hello(2, life=100 + number, attempt=1_000))
            assert await raw.refusal() == PROOF_WANTED
            await raw.close()
        assert await two.links.ask(ONE, "m", b"", timeout=60) == b"2 m "
        assert one.changes == [(TWO, True)]
        await close_all(one, two)

    run(script())


def test_the_key_alone_does_not_make_a_member(run: Run) -> None:
    """A node with the key and another disk than the member's whose id it claims."""

    async def script() -> None:
        served: list[Caller] = []

        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            served.append(caller)
            return b""

        one = await Node(
            1, keys=(A,), serve=serve, is_member=lambda who: who.incarnation == "incarnation-2"
        ).start()
        two = await Node(2, keys=(A,)).start()
        one.knows(two)
        two.knows(one)
        await until(lambda: one.links.proven() and two.links.proven())
        wrong = Node(2, keys=(A,), settings=QUICK)
        wrong.links.set_identity(
            msgspec.structs.replace(wrong.identity(CLUSTER), incarnation="another disk")
        )
        wrong.links.set_peers({ONE: one.address})
        await until(lambda: any("is a member and linked" in line for line in wrong.lines))
        assert await two.links.ask(ONE, "m", b"", timeout=60) == b""
        await close_all(two)  # Now it may introduce itself, and nothing else.
        await until(wrong.links.connected)
        wrong.send(1, heartbeat(2, 1, 1))
        wrong.links.notify(ONE, "n", b"")
        assert await wrong.links.ask(ONE, "introduce", b"", timeout=60) == b""
        assert [(one.node, one.is_member) for one in served] == [(TWO, True), (TWO, False)]
        assert one.links.members() == frozenset()
        assert (one.received, one.notices) == ([], [])
        assert one.links.statistics().messages_foreign == 2
        await close_all(one, wrong)

    run(script())


def test_a_strangers_frames_are_small(run: Run) -> None:
    async def script() -> None:
        one = await Node(1, keys=(A,), is_member=lambda _who: False).start()
        raw = await RawPeer.dial(one)
        await prove(raw, 2)
        await until(one.links.connected)
        raw.send(FrameKind.NOTICE, Notice("n", bytes(100_000)))
        await raw.drain_to_end()
        await until(lambda: any("at most 65536 are allowed" in line for line in one.lines))
        await raw.close()
        await close_all(one)

    run(script())


def test_who_says_nothing_has_two_seconds_and_few_places(run: Run) -> None:
    async def script() -> None:
        clock = ManualClock()
        one = await Node(1, keys=(A,), clock=clock).start()
        oldest = await RawPeer.dial(one)
        raws = [await RawPeer.dial(one) for _ in range(PEER_UNPROVEN_CONNECTIONS_PER_HOST_MAX)]
        challenge = Challenge(bytes(32))
        for raw in raws:
            raw.send(FrameKind.CHALLENGE, challenge)
            assert await raw.next()
        await oldest.drain_to_end()
        assert one.links.statistics().connections_refused == 1
        clock.advance(QUICK.connect_timeout_ms)
        for raw in raws:
            await raw.drain_to_end()
        again = await RawPeer.dial(one)
        await prove(again, 2)
        await until(lambda: one.links.proven() == {TWO})
        for raw in (oldest, *raws, again):
            await raw.close()
        await close_all(one)

    run(script())


def test_lines_that_strangers_cause_are_few_and_short(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def script() -> None:
        clock = ManualClock()
        log = LimitedLog(logging.getLogger("penstock.test"), clock, "strangers")
        one = await Node(1, keys=(A,), clock=clock, complain=log.note).start()
        for _ in range(25):
            await say_nonsense(one)
        assert len(caplog.messages) == 10
        clock.advance(1_000)
        await say_nonsense(one)
        assert caplog.messages[10] == "15 more lines about strangers were left out"
        assert len(caplog.messages) == 12
        assert max(map(len, caplog.messages)) <= 300
        assert not one.lines
        await close_all(one)

    run(script())


async def say_nonsense(node: Node) -> None:
    raw = await RawPeer.dial(node)
    raw.writer.write(b"x" * 64)
    await raw.drain_to_end()
    await raw.close()


# A cluster that gets a key, and another one.


def test_a_link_goes_on_while_the_key_is_replaced(run: Run) -> None:
    async def script() -> None:
        started = asyncio.Event()
        finish = asyncio.Event()

        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            started.set()
            await finish.wait()
            return b"done"

        one, two = Node(1, keys=(A,)), Node(2, keys=(A,), serve=serve)
        await one.start()
        await two.start()
        one.knows(two)
        two.knows(one)
        await until(lambda: one.links.proven() and two.links.proven())
        asked = asyncio.create_task(one.links.ask(TWO, "m", b"", timeout=60))
        await started.wait()
        for node, keys in ((one, (B, A)), (two, (B, A)), (one, (B,))):
            node.links.set_keys(ClusterKeys(keys), required=True)
            await until(lambda: one.links.proven() and two.links.proven())
        two.links.set_keys(ClusterKeys((B,)), required=True)
        await until(lambda: one.links.proven() and two.links.proven())
        finish.set()
        assert await asked == b"done"
        assert one.changes == [(TWO, True)]
        assert two.changes == [(ONE, True)]
        await close_all(one, two)

    run(script())


def test_a_link_that_is_proven_by_an_old_key_only_is_closed(run: Run) -> None:
    async def script() -> None:
        clock = ManualClock()
        one, two = Node(1, keys=(A,), clock=clock), Node(2, keys=(A,), clock=clock)
        await one.start()
        await two.start()
        one.knows(two)
        two.knows(one)
        await until(lambda: one.links.proven() and two.links.proven())
        one.links.set_keys(ClusterKeys((B,)), required=True)
        deadline = clock.monotonic_ms() + 2 * QUICK.connect_timeout_ms
        while one.links.connected() and clock.monotonic_ms() < deadline:
            clock.advance(100)
            await until(lambda: one.links._ticked_ms == clock.monotonic_ms())
        assert any("did not prove that it holds the cluster key" in line for line in one.lines)
        await until(lambda: not one.links.connected() and not two.links.connected())
        await close_all(one, two)

    run(script())


def test_a_cluster_without_a_key_gets_one_without_losing_a_link(run: Run) -> None:
    async def script() -> None:
        one, two = await keyed_pair((), ())
        await until(lambda: one.links.members() and two.links.members())
        one.links.set_keys(ClusterKeys((A,)), required=False)
        two.links.set_keys(ClusterKeys((A,)), required=False)
        await until(lambda: one.links.proven() and two.links.proven())
        one.links.set_keys(ClusterKeys((A,)), required=True)
        await until(lambda: two.links.members_saying("cluster key required", proven=True))
        two.links.set_keys(ClusterKeys((A,)), required=True)
        assert one.changes == [(TWO, True)]
        assert await one.links.ask(TWO, "m", b"", timeout=60) == b"1 m "
        raw = await RawPeer.dial(one)
        raw.say(hello(3))
        assert await raw.refusal() == PROOF_WANTED
        await raw.close()
        await close_all(one, two)

    run(script())


def test_a_hello_before_its_proof_does_not_end_a_link_that_works(run: Run) -> None:
    """One side requires proofs a moment before the other side's has come."""

    async def script() -> None:
        one = await Node(1).start()
        raw = await RawPeer.dial(one)
        raw.say(hello(2))
        await until(one.links.members)
        one.links.set_keys(ClusterKeys((A,)), required=True)
        raw.say(hello(2))
        await prove(raw, 2)
        await until(one.links.proven)
        assert one.changes == [(TWO, True)]
        await raw.close()
        await close_all(one)

    run(script())


def test_answers_to_a_challenge_that_was_given_up_do_not_end_a_link(run: Run) -> None:
    """The other side was slow, and is asked again before its first answer comes."""

    async def script() -> None:
        one = await Node(1).start()
        raw = await RawPeer.dial(one)
        raw.say(hello(2))
        await until(one.links.members)
        one.links.set_keys(ClusterKeys((A,)), required=False)
        raw.say(msgspec.structs.replace(hello(2), capabilities=(HAS_KEY,)))
        first = decode_payload(CHALLENGE_DECODER, await frame_of(raw, FrameKind.CHALLENGE))
        link = one.links._links[TWO]
        link._initiator = None  # As after `ping_ms`.
        link.prove_anew()
        second = decode_payload(CHALLENGE_DECODER, await frame_of(raw, FrameKind.CHALLENGE))
        late, said = Responder(ClusterKeys((A,)), TWO, first), encode_hello(hello(2))
        raw.send(FrameKind.RESPONSE, late.response())
        raw.send(FrameKind.CONFIRM, ProvenHello(said, b"m" * 32))
        answer = Responder(ClusterKeys((A,)), TWO, second)
        raw.send(FrameKind.RESPONSE, answer.response())
        frame = await frame_of(raw, FrameKind.PROOF)
        assert answer.verify(decode_payload(PROVEN_HELLO_DECODER, frame))
        raw.send(FrameKind.CONFIRM, answer.confirm(said))
        await until(one.links.proven)
        raw.send(FrameKind.RESPONSE, late.response())
        raw.send(FrameKind.CONFIRM, ProvenHello(said, b"m" * 32))
        await prove(raw, 2)
        assert one.changes == [(TWO, True)]
        await raw.close()
        await close_all(one)

    run(script())


@pytest.mark.parametrize("higher_requires", [True, False])
def test_who_does_not_require_a_proof_yet_finds_who_does(run: Run, higher_requires: bool) -> None:
    async def script() -> None:
        one = await Node(1, keys=(A,), required=not higher_requires).start()
        two = await Node(2, keys=(A,), required=higher_requires).start()
        one.knows(two)
        two.knows(one)
        await until(lambda: one.links.proven() and two.links.proven())
        await close_all(one, two)

    run(script())


def test_a_node_of_release_0_1_is_linked_as_long_as_no_proof_is_required(run: Run) -> None:
    """It knows no frame of an authentication, and says a hello without capabilities."""

    async def script() -> None:
        one = await Node(1, keys=(A,), required=False).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2)
        await until(lambda: one.links.members() == {TWO})
        raw.writer.write(encode_frame(FrameKind.NOTICE, Notice("n", b"")))
        await until(lambda: one.notices)
        one.send(1, heartbeat(1, 2, 1))
        frame = await raw.next()
        assert frame is not None
        assert frame.kind is FrameKind.MESSAGES, "and no challenge"
        one.links.set_keys(ClusterKeys((A,)), required=True)
        await raw.drain_to_end()
        await raw.close()
        await close_all(one)

    run(script())


def test_members_are_reviewed(run: Run) -> None:
    async def script() -> None:
        members = {"incarnation-2"}
        one = await Node(1, keys=(A,), is_member=lambda who: who.incarnation in members).start()
        two = await Node(2, keys=(A,)).start()
        two.knows(one)
        await until(lambda: one.links.members() == {TWO} and two.links.members())
        members.clear()
        one.links.review_members()
        assert one.links.members() == frozenset()
        two.send(1, heartbeat(2, 1, 1))
        await until(lambda: one.links.statistics().messages_foreign == 1)
        members.add("incarnation-2")
        one.links.review_members()
        two.send(1, heartbeat(2, 1, 2))
        await until(lambda: one.received)
        assert one.received == [(ShardId(1), heartbeat(2, 1, 2))]
        await close_all(one, two)

    run(script())


def test_a_challenge_that_is_never_answered_ends(run: Run) -> None:
    async def script() -> None:
        async def deaf(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await forever()
            finally:
                writer.close()

        server = await asyncio.start_server(deaf, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        quick = msgspec.structs.replace(QUICK, connect_timeout_ms=20)
        one = Node(1, keys=(A,), settings=quick)
        one.links.set_peers({TWO: f"{host}:{port}"})
        await until(lambda: one.lines)
        assert "does not answer" in one.lines[0]
        with pytest.raises(Unavailable, match="node 2 is not connected"):
            await one.links.ask(TWO, "m", b"", timeout=60)
        await close_all(one)
        server.close()

    run(script())
