"""Who talks to whom: nodes that find each other over real sockets, on both event loops."""

import asyncio
import gc
import re
from functools import partial

import msgspec
import pytest

from penstock.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
)
from penstock.core.types import NodeId
from penstock.engine.peers.exchange import Caller
from penstock.engine.peers.frames import (
    FrameKind,
    Notice,
    encode_frame,
)
from penstock.engine.peers.link import LinkSettings
from penstock.engine.peers.links import parse_address
from penstock.server.reserved_ports import ReservedPorts
from tests.unit.engine.linked import (
    CLUSTER,
    QUICK,
    Node,
    RawPeer,
    Run,
    append_batch,
    close_all,
    forever,
    has_received,
    heartbeat,
    hello,
    start_pair,
    until,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def test_there_is_one_link_when_both_dial_at_once(run: Run) -> None:
    async def script() -> None:
        eager = msgspec.structs.replace(QUICK, head_start_ms=0)
        one = await Node(1, settings=eager).start()
        two = await Node(2, settings=eager).start()
        for number in range(1, 21):
            one.knows(two)
            two.knows(one)
            await until(lambda: one.links.connected() and two.links.connected())
            one.send(0, heartbeat(1, 2, number))
            two.send(0, heartbeat(2, 1, number))
            for node in (one, two):
                await until(partial(has_received, node, number))
            assert await one.links.ask(TWO, "m", b"", timeout=60) == b"1 m "
            for node in (one, two):  # The first link that worked is the one that stayed.
                assert len(node.changes) == 2 * number - 1
                node.links.set_peers({})
            await until(lambda: not one.links.connected() and not two.links.connected())
        await close_all(one, two)

    run(script())


def test_a_node_that_is_never_dialled_dials_by_itself(run: Run) -> None:
    async def script() -> None:
        one, two = await Node(1).start(), await Node(2).start()
        one.knows(two)  # Two has the higher id but does not know where one is.
        await until(lambda: one.links.connected() and two.links.connected())
        assert await two.links.ask(ONE, "m", b"", timeout=60) == b"2 m "
        await close_all(one, two)

    run(script())


def test_a_link_comes_back_when_the_other_side_does(run: Run) -> None:
    async def script() -> None:
        ports = ReservedPorts(1)
        (port,) = ports
        one, two = await start_pair(port=port)
        await close_all(one)
        await until(lambda: not two.links.connected())
        again = await Node(1).start(port)
        await until(two.links.connected)
        two.send(0, heartbeat(2, 1, 1))
        await until(lambda: again.received)
        assert two.changes == [(ONE, True), (ONE, False), (ONE, True)]
        assert two.links.statistics().links_made == 2
        assert any("lost the link with node 1" in line for line in two.lines)
        await close_all(again, two)
        ports.close()

    run(script())


def test_peers_that_are_no_longer_named_are_closed_and_those_that_moved_dialled(run: Run) -> None:
    async def script() -> None:
        one, two = await start_pair()
        one.links.set_peers({})
        moved = await Node(1).start()
        two.knows(moved)
        await until(lambda: moved.links.connected() and not one.links.connected())
        await until(two.links.connected)
        two.knows()
        await until(lambda: not two.links.connected() and not moved.links.connected())
        assert any("it is no longer a peer" in line for line in two.lines)
        visitor = await Node(3, cluster="").start()
        visitor.knows(two)
        await until(two.links.connected)
        two.knows()  # A node that was never named may stay.
        assert two.links.connected() == {THREE}
        await close_all(one, two, moved, visitor)

    run(script())


def test_a_node_that_is_forgotten_while_it_is_dialled_gets_no_link(run: Run) -> None:
    async def script() -> None:
        one, two = await Node(1).start(), await Node(2).start()
        two.knows(one)
        await until(one.links.connected)  # Its hello has yet to arrive.
        two.links.set_peers({})
        await until(lambda: not one.links.connected())
        assert two.links.connected() == frozenset()
        await close_all(one, two)

    run(script())


def test_a_joining_node_may_ask_but_its_messages_do_not_pass(run: Run) -> None:
    async def script() -> None:
        one = await Node(1, cluster="").start()
        two = await Node(2).start()
        one.knows(two)
        await until(lambda: one.links.connected() and two.links.connected())
        assert await one.links.ask(TWO, "join", b"", timeout=60) == b"1 join "
        assert two.links.identity_of(ONE) == one.identity("")
        one.send(0, heartbeat(1, 2, 1))
        two.send(0, heartbeat(2, 1, 1))
        assert one.links.statistics().messages_dropped == 1
        assert two.links.statistics().messages_dropped == 1
        # In the cluster now, and nothing under way on the link suffers by it.
        asked = asyncio.create_task(one.links.ask(TWO, "m", b"", timeout=60))
        await asyncio.sleep(0)
        one.links.set_identity(one.identity(CLUSTER))
        assert await asked == b"1 m "
        one.send(0, heartbeat(1, 2, 2))
        await until(lambda: two.received)
        two.send(0, heartbeat(2, 1, 2))
        await until(lambda: one.received)
        assert two.links.identity_of(ONE) == one.identity(CLUSTER)
        assert two.changes == [(ONE, True)]
        await close_all(one, two)

    run(script())


def test_what_a_stranger_says_about_shards_is_not_even_read(run: Run) -> None:
    async def script() -> None:
        one = await Node(1).start()
        raw = await RawPeer.dial(one)
        await raw.greet(2, cluster="")
        raw.writer.write(encode_frame(FrameKind.MESSAGES, "no messages at all"))
        raw.writer.write(encode_frame(FrameKind.NOTICE, Notice("n", b"")))
        await until(lambda: one.links.statistics().messages_foreign == 2)
        assert one.notices == []
        await raw.close()
        await close_all(one)

    run(script())


def test_founding_nodes_that_turn_out_to_be_of_two_clusters_part(run: Run) -> None:
    async def script() -> None:
        one, two = await Node(1, cluster="").start(), await Node(2, cluster="").start()
        one.knows(two)
        await until(lambda: one.links.connected() and two.links.connected())
        one.links.set_identity(one.identity("c1"))
        await until(lambda: two.links.identity_of(ONE) == one.identity("c1"))
        two.links.set_identity(two.identity("c2"))
        await until(lambda: not one.links.connected() and not two.links.connected())
        assert any("node 1 belongs to the cluster c1" in line for line in two.lines)
        await close_all(one, two)

    run(script())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (hello(2, cluster="c2"), "node 2 belongs to the cluster c2 and node 1 to c1"),
        (hello(1), "two nodes have the id 1"),
        (hello(0), "0 is no node's id"),
        (hello(2, target=3), "this is node 1 and not node 3; correct the address"),
        (hello(2, later=1), "speaks formats 2 to 2 and node 1 .* 1 to 1; upgrade"),
    ],
)
def test_who_cannot_be_talked_to_is_refused_with_a_sentence(
    run: Run, content: object, reason: str
) -> None:
    async def script() -> None:
        one = await Node(1).start()
        for _ in range(3):
            raw = await RawPeer.dial(one)
            raw.writer.write(encode_frame(FrameKind.HELLO, content))
            assert re.search(reason, await raw.refusal())
            await raw.close()
        assert len(one.lines) == 1, "the same refusal is announced once"
        assert one.changes == []
        await close_all(one)

    run(script())


def test_a_wrong_address_is_noticed_and_announced_once(run: Run) -> None:
    async def script() -> None:
        one, three = await Node(1).start(), await Node(3).start()
        foreign = await Node(2, cluster="elsewhere").start()
        three.links.set_peers({TWO: one.address, ONE: foreign.address})
        await until(lambda: len(three.lines) >= 2)
        tried = foreign.links.statistics
        before = tried().frames_received
        await until(lambda: tried().frames_received >= before + 3)  # It goes on trying.
        first, second = sorted(three.lines)
        assert first == (
            f"no link with node 1 yet: {foreign.address} refused: node 3 belongs to the cluster"
            f" {CLUSTER} and node 2 to elsewhere; correct the addresses"
        )
        assert second == (
            f"no link with node 2 yet: {one.address} refused: this is node 1 and not node 2;"
            " correct the address"
        )
        assert one.changes == foreign.changes == []
        assert three.links.connected() == frozenset()
        three.links.set_peers({ONE: one.address})
        await until(three.links.connected)
        await close_all(one, three, foreign)

    run(script())


def test_of_two_connections_of_a_node_the_later_counts(run: Run) -> None:
    async def script() -> None:
        one = await Node(1).start()
        first = await RawPeer.dial(one)
        await first.greet(2, life=7)
        late = await RawPeer.dial(one)  # Sent before the first was made, but arrives after it.
        late.say(hello(2, life=7, attempt=1))
        assert await late.refusal() == "node 1 has a newer link with node 2"
        redialled = await RawPeer.dial(one)
        redialled.say(hello(2, life=7, attempt=2))
        await first.drain_to_end()
        assert await redialled.next()
        restarted = await RawPeer.dial(one)
        await restarted.greet(2, life=8)
        await redialled.drain_to_end()
        assert one.links.connected() == {TWO}
        assert [connected for _, connected in one.changes] == [True, False, True, False, True]
        for raw in (first, late, redialled, restarted):
            await raw.close()
        await close_all(one)

    run(script())


def test_an_address_that_is_none_harms_nobody_else(run: Run) -> None:
    async def script() -> None:
        one, two = await Node(1).start(), await Node(2).start()
        wrong = {THREE: "nowhere", NodeId(4): f"{'x' * 64}.example:1"}
        two.links.set_peers({ONE: one.address, **wrong})
        await until(two.links.connected)
        await until(lambda: len(two.lines) == 3)
        assert any("'nowhere' is no address of a node" in line for line in two.lines)
        assert any("no link with node 4 yet: xxx" in line for line in two.lines)
        await close_all(one, two)
        two.links.set_peers({ONE: one.address})  # After the end it means nothing.
        assert len(asyncio.all_tasks()) == 1

    run(script())


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a.example:1", ("a.example", 1)), ("[::1]:65535", ("::1", 65535)), ("::1:1", None),
     ("a", None), (":1", None), ("a:", None), ("a:x", None), ("a:65536", None), ("a:-1", None)],
)  # fmt: skip
def test_an_address_is_a_host_and_a_port(text: str, parts: tuple[str, int] | None) -> None:
    if parts is not None:
        assert parse_address(text) == parts
    else:
        with pytest.raises(InvalidRequest, match="is no address of a node; write host:port"):
            parse_address(text)


# The end.


def test_what_was_sent_before_the_end_arrives(run: Run) -> None:
    async def script() -> None:
        one, two = await start_pair()
        for number in range(20):
            one.send(0, append_batch(1, 2, bytes(100_000), number + 1))
        one.links.notify(TWO, "bye", b"")
        changes = list(one.changes)
        await close_all(one)
        await until(lambda: two.notices and len(two.received) == 20)
        assert one.changes == changes, "nobody is told after the end"
        await close_all(two)
        assert len(asyncio.all_tasks()) == 1

    run(script())
    gc.collect()


def test_closing_ends_what_is_being_served_and_dialled(run: Run) -> None:
    async def script() -> None:
        started = asyncio.Event()

        async def serve(caller: Caller, method: str, body: bytes) -> bytes:
            started.set()
            return await forever()

        one, two = await Node(1, serve=serve).start(), await Node(2).start()
        two.links.set_peers({ONE: one.address, THREE: "127.0.0.1:1"})
        await until(two.links.connected)
        asked = asyncio.create_task(two.links.ask(ONE, "m", b"", timeout=60))
        await started.wait()
        await close_all(one)
        with pytest.raises(OutcomeUnknown):
            await asked
        await close_all(two)
        assert len(asyncio.all_tasks()) == 1

    run(script())


def test_a_port_that_is_taken_is_refused_with_a_sentence(run: Run) -> None:
    async def script() -> None:
        one, two = await Node(1).start(), Node(2)
        with pytest.raises(InvalidRequest, match="cannot listen for other nodes at 127.0.0.1:"):
            await two.start(int(one.address.rpartition(":")[2]))
        await close_all(one, two)

    run(script())


def test_settings_that_cannot_work_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="cannot tell"):
        LinkSettings(ping_ms=1_000, silence_ms_max=1_000)
