"""Hostile frames at the peer port of a cluster of three.

Three kinds of attackers: a *stranger* without the cluster key, which must not get past the
handshake; an *outsider*, which has the key and is no member, and may introduce itself and nothing
else; and a *member*, which says what no sound node says. Raft believes its members, so a member may
make the others elect and may take the place of a link for a moment; it may not end a process, write
what cannot be read, or leave a cluster that does not recover. The rows of unsound frames are in
`cases_peer_frames`.

Long because the three kinds of attackers share what they send.
"""

import asyncio
import random
import re
import secrets
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.entries import Entry, EntryKind
from penstock.core.limits import FRAME_BYTES_MAX, STRANGER_FRAME_BYTES_MAX, TERM_JUMP_MAX
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.engine.peers import frames
from penstock.engine.peers.cluster_key import ClusterKeys
from penstock.engine.peers.forwarder import wrap
from penstock.engine.peers.frames import FrameKind, encode_frame
from penstock.engine.peers.handshake import Challenge, Initiator, ProvenHello
from penstock.machines.catalog_commands import RegisterNode
from penstock.raft.messages import (
    AnyMessage,
    AppendRequest,
    Heartbeat,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tests.abuse.grammar_structs import CALLS, hostile_message
from tests.abuse.kafka_wire import KafkaConnection
from tests.abuse.peer_wire import (
    OUTSIDER,
    PeerConnection,
    cluster_id_of,
    identity_of,
    open_member,
    open_outsider,
    stranger,
)
from tests.abuse.registry import Broken, case
from tests.abuse.streams import pour, silent
from tests.abuse.target import MIB, Target

_SHARDS = (0, 1, 2)
_REFUSED = "penstock_peer_authentication_failures_total"
_FOREIGN = 'penstock_peer_messages_dropped_total{reason="stranger"}'
RELINKED_SECONDS = 0.15
"""Until a member whose place was taken has dialled again, for the first time."""
LINK_SECONDS = 4.0
"""The bar of the stall where the link between two members is replaced again and again: the pause
before the next dial grows to three seconds, and requests that one forwards to the other wait."""
ELECTION_SECONDS = 5.0
"""The bar of the stall where a member may make the others elect: an election timeout of one to two
seconds, one more for a split vote, and the machine."""
_UNREADABLE = re.compile(
    r"lost the link with node \d+ \([^)]*\): .*"
    r"(cannot be|too far ahead|has no place|below zero|cannot be read)"
)


def bare_header(kind: FrameKind, length: int) -> bytes:
    """The header of a frame of which nothing follows."""
    head = bytearray(encode_frame(kind, b""))[: frames.FRAME_HEADER_BYTES]
    struct.pack_into("<I", head, 8, length)
    struct.pack_into("<I", head, 16, crc32c(bytes(head[:16])))
    return bytes(head)


def _pairs(target: Target) -> Iterator[tuple[int, int]]:
    """Nodes to claim, and the node that is talked to. The one with the higher id dials, so it is
    back at once."""
    for number in target.all_peers:
        for claimed in target.all_peers:
            if claimed > number:
                yield claimed, number


# Strangers: no key.


@case("peer", "F4", nodes=3)
async def p01_a_stranger_learns_the_cluster_id(target: Target) -> None:
    """A hello without a cluster id, to every node: the answer must not name the cluster."""
    for number, address in target.all_peers.items():
        if await cluster_id_of(address, number):
            raise Broken(f"node {number} told a stranger the cluster's id")


@case("peer", "F4", nodes=3)
async def p01c_a_challenge_tells_nothing(target: Target) -> None:
    """A challenge, as every id there may be: the answer holds a nonce and proofs, and never the
    same ones."""
    answers = set()
    for number, address in target.all_peers.items():
        known = await identity_of(address, number)
        for _ in range(3):
            async with await PeerConnection.open(address) as connection:
                connection.say(FrameKind.CHALLENGE, Challenge(bytes(32)))
                data = await connection.reader.read(1 << 16)
                answers.add(data)
                if known.cluster_id.encode() in data or known.incarnation.encode() in data:
                    raise Broken(f"node {number} told a stranger who it is")
    if len(answers) != 3 * len(target.all_peers):
        raise Broken("a proof was given twice: it can be replayed")


@case("peer", "F4", nodes=3)
async def p02_a_stranger_calls(target: Target) -> None:
    """Every call of the table by a stranger, before and behind a bare hello."""
    answered = []
    for call in CALLS:
        for claims in (0, 2, 99):
            async with await PeerConnection.open(target.peer) as connection:
                if claims:
                    await connection.greet(claims=claims, target=1)
                if await connection.ask(call.name, b"") is not None:
                    answered.append(call.name)
                if not await connection.wait_ended():
                    raise Broken(f"a stranger that calls {call.name} stays connected")
    if answered:
        raise Broken(f"a stranger was answered {', '.join(answered)}")


@case("peer", "F4", nodes=3, seconds=40)
async def kick_links_are_not_replaced_by_strangers(target: Target) -> None:
    """A stranger claims the ids of the nodes, at each of them, again and again for 10 seconds: no
    link may be lost."""
    await _kick(target, _stranger_claims)


@case("peer", "F4", nodes=3, seconds=40)
async def kick_links_are_not_replaced_by_outsiders(target: Target) -> None:
    """The same by a process that has the cluster key and not the incarnations of the members."""
    await _kick(target, _outsider_claims)


async def _kick(target: Target, claim: Callable[[Target, int, int], Awaitable[None]]) -> None:
    positions = target.log_positions()
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        for number in target.all_peers:
            for claimed in target.all_peers:
                if claimed != number:
                    await claim(target, claimed, number)
        await asyncio.sleep(0.1)
    if lost := re.findall("lost the link with node [123] .*", target.log_since(positions)):
        raise Broken(f"links between the members were lost: {lost[0]}")


async def _stranger_claims(target: Target, claimed: int, number: int) -> None:
    async with await PeerConnection.open(target.all_peers[number]) as connection:
        if await connection.greet(claims=claimed, target=number, attempt=1 << 40) is not None:
            raise Broken(f"node {number} has said hello to a stranger")


async def _outsider_claims(target: Target, claimed: int, number: int) -> None:
    known = await identity_of(target.all_peers[number], number)
    async with await PeerConnection.open(target.all_peers[number]) as connection:
        try:
            await connection.prove(stranger(claimed, known.cluster_id), number)
        except ConnectionRefusedError:
            return
        raise Broken(f"node {number} has taken an outsider for node {claimed}")


@case("peer", "F4", nodes=3)
async def p05_proofs_without_the_key(target: Target) -> None:
    """Proofs by another key, of zeros, without a challenge, replayed, and sent back to their
    maker: each must end the connection and count as a failure."""
    before = await target.count(_REFUSED)
    identity = stranger(2, "x")
    hello = frames.encode_hello(frames.Hello(1, 1, identity, NodeId(1), 1 << 60, 1))
    others = Initiator(ClusterKeys((secrets.token_bytes(32),)), NodeId(1))
    proofs = [
        ProvenHello(hello, bytes(32)),
        ProvenHello(hello, secrets.token_bytes(32)),
        ProvenHello(b"", bytes(32)),
    ]
    for challenge in (True, False):
        for proof in proofs:
            async with await PeerConnection.open(target.peer) as connection:
                if challenge:
                    connection.say(FrameKind.CHALLENGE, others.challenge())
                connection.say(FrameKind.PROOF, proof)
                if not await connection.wait_ended():
                    raise Broken("a proof without the key did not end the connection")
    recorded = await _recorded_proof(target)
    for data in (recorded[1], recorded[0] + recorded[1]):
        async with await PeerConnection.open(target.peer) as connection:
            connection.writer.write(data)
            if not await connection.wait_ended():
                raise Broken("a replayed proof was taken")
    async with await PeerConnection.open(target.peer) as connection:
        connection.say(FrameKind.CHALLENGE, Challenge(bytes(32)))
        connection.writer.write(await connection.reader.read(1 << 16))
        if not await connection.wait_ended():
            raise Broken("a proof that was sent back to its maker was taken")
    if not await target.wait_counted(_REFUSED, before + 9):
        raise Broken("proofs without the key are not counted")


async def _recorded_proof(target: Target) -> tuple[bytes, bytes]:
    """The two frames of a handshake that has succeeded."""
    said: list[bytes] = []
    async with await PeerConnection.open(target.peer) as connection:
        write = connection.writer.write

        def record(data: bytes) -> None:
            said.append(data)
            write(data)

        connection.writer.write = record  # type: ignore[method-assign, assignment]
        await connection.prove(stranger(int(OUTSIDER)), 1)
    challenge, proof = said
    return challenge, proof


@case("peer", "F4", nodes=3)
async def p06_challenges_without_end(target: Target) -> None:
    """10 strangers challenge a node again and again, thousands of times in a packet, and never
    prove anything: they have two seconds, and no more."""

    async def challenge() -> None:
        async with await PeerConnection.open(target.peer) as connection:
            data = bytes(encode_frame(FrameKind.CHALLENGE, Challenge(bytes(32)))) * 4_000
            began = time.monotonic()
            try:
                while time.monotonic() - began < 6.0:
                    connection.writer.write(data)
                    await connection.writer.drain()
                    await connection.reader.read(1 << 18)
                    await asyncio.sleep(0.02)
            except OSError:
                return
            if not await connection.wait_ended(1.0):
                raise Broken("a stranger may challenge for as long as it likes")

    await asyncio.gather(*(challenge() for _ in range(10)))


@case("peer", "F7", nodes=3, seconds=40)
async def p25_strangers_with_large_frames(target: Target) -> None:
    """30 strangers send 60 MiB of a frame of 64 MiB each, behind a bare hello."""
    data = bare_header(FrameKind.REQUEST, 64 * MIB) + bytes(60 * MIB)
    for claims in range(50, 80):
        async with await PeerConnection.open(target.peer) as connection:
            await connection.greet(claims=claims, target=1)
            connection.writer.write(data)
            if not await connection.wait_ended():
                raise Broken("a stranger may send a frame of 64 MiB")


@case("peer", "F7", nodes=3)
async def p26_strangers_that_only_announce(target: Target) -> None:
    """200 strangers announce a frame of 64 MiB, of which nothing comes."""
    async with silent(target.peer, bare_header(FrameKind.CHALLENGE, 64 * MIB), 200) as sockets:
        await asyncio.sleep(3.0)
        if open_count := sum(not _is_closed(one) for one in sockets):
            raise Broken(f"{open_count} strangers are still connected after 3 s")


def _is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@case("peer", "F13", nodes=3, seconds=20)
async def p28_garbage_on_3000_connections(target: Target) -> None:
    """3,000 connections, each ended by a frame that is none: how many lines does it log?"""
    before = await target.count(_REFUSED)
    for _ in range(30):
        await asyncio.gather(
            *(pour(target.peer, b"\xff" * 64, seconds=2.0, quiet_seconds=0.2) for _ in range(100))
        )
    if not await target.wait_counted(_REFUSED, before + 1):
        raise Broken("connections with garbage are not counted")


@case("peer", "F13", nodes=3, seconds=20)
async def p29_hellos_that_are_refused(target: Target) -> None:
    """2,000 hellos of another cluster, with long names: how many lines does it log?"""
    identity = frames.LinkIdentity("x" * 256, NodeId(2), "\n" * 256, "\x1b[2J" * 60)
    hello = bytes(
        encode_frame(FrameKind.HELLO, frames.Hello(1, 1, identity, NodeId(1), 1 << 60, 1))
    )
    for _ in range(20):
        await asyncio.gather(
            *(pour(target.peer, hello, seconds=2.0, quiet_seconds=0.2) for _ in range(100))
        )


@case("peer", "", nodes=3)
async def p30_connections_that_say_nothing(target: Target) -> None:
    """2,500 connections to the peer port that never say hello: members must get in beside them."""
    async with silent(target.peer, b"", 2_500):
        async with open_outsider(target.peer, 1) as connection:
            assert connection.hello is not None
        await asyncio.sleep(3.0)


# Outsiders: they have the key and are no members.


@case("peer", "F4", nodes=3)
async def p02b_an_outsider_calls(target: Target) -> None:
    """Every call of the table by an outsider: only the open ones may be answered."""
    for number, address in target.all_peers.items():
        async with open_outsider(address, number) as connection:
            for at, call in enumerate(CALLS, 1):
                body = b"" if not call.is_open else msgspec.msgpack.encode(_introduction(number))
                answer = await connection.ask(call.name, body, at)
                if (answer is not None) != call.is_open:
                    raise Broken(f"{call.name}: answered {answer is not None} to an outsider")


def _introduction(node: int) -> object:
    return {"node": 99, "incarnation": "stranger-99", "shards": 2, "cluster": [node, 99]}


@case("peer", "F4", nodes=3)
async def p07_messages_of_an_outsider(target: Target) -> None:
    """3,000 messages of Raft by an outsider, in the name of every node: all are dropped."""
    rng = random.Random(5)
    for number, address in target.all_peers.items():
        before = await target.count(_FOREIGN, number)
        async with open_outsider(address, number) as connection:
            for _ in range(1_000):
                claimed = rng.choice((1, 2, 3, 99))
                message = hostile_message(rng, claimed, number)
                connection.tell([(rng.choice(_SHARDS), message)])
            # What is answered behind them has been read behind them.
            answer = await connection.ask("introduce", _introduction(number))
            if answer is None:
                raise Broken("messages that are dropped have ended a link")
        if not await target.wait_counted(_FOREIGN, before + 1_000, number):
            raise Broken(f"node {number} does not count messages of outsiders")


@case("peer", "F4", nodes=3)
async def p08_an_outsider_does_not_leave(target: Target) -> None:
    """An outsider pings 50,000 times, challenges 20,000 times and withdraws 20,000 requests."""
    async with open_outsider(target.peer, 1) as connection:
        challenge = bytes(encode_frame(FrameKind.CHALLENGE, Challenge(bytes(32))))
        withdrawal = bytes(encode_frame(FrameKind.WITHDRAWAL, frames.Withdrawal(7)))
        reading = asyncio.create_task(_read_all(connection))
        for data in (bytes(frames.PING_FRAME) * 500, challenge * 200, withdrawal * 200):
            for _ in range(100):
                connection.writer.write(data)
                await connection.writer.drain()
        await asyncio.sleep(1.0)
        reading.cancel()


async def _read_all(connection: PeerConnection) -> None:
    while await connection.reader.read(1 << 18):
        pass


@case("peer", "F7", nodes=3)
async def p09_an_outsider_takes_no_answers(target: Target) -> None:
    """An outsider introduces itself 200,000 times, pings as often, and reads nothing: what waits
    for it is bounded."""
    async with open_outsider(target.peer, 1) as connection:
        ask = frames.Request(1, "introduce", 1_000, msgspec.msgpack.encode(_introduction(1)))
        data = (bytes(encode_frame(FrameKind.REQUEST, ask)) + bytes(frames.PING_FRAME)) * 1_000
        try:
            async with asyncio.timeout(8.0):
                for _ in range(200):
                    connection.writer.write(data)
                    await connection.writer.drain()
        except (TimeoutError, OSError):
            return


@case("peer", "F7", nodes=3)
async def p25b_outsiders_with_large_frames(target: Target) -> None:
    """30 outsiders announce frames that only members may send, and send what they can."""
    for claims in range(50, 80):
        async with open_outsider(target.peer, 1, stranger(claims)) as connection:
            length = STRANGER_FRAME_BYTES_MAX + 1
            connection.writer.write(bare_header(FrameKind.REQUEST, length) + bytes(length // 2))
            if not await connection.wait_ended():
                raise Broken(f"an outsider may send a frame of {length} bytes")


@case("peer", "F4", nodes=3)
async def redirect_of_all_kafka_clients(target: Target) -> None:
    """A stranger and an outsider register the nodes anew, with an address for Kafka clients that is
    their own."""
    for number, address in target.all_peers.items():
        known = await identity_of(address, number)
        request = RegisterNode(
            node=NodeId(number),
            peer="evil.example:1",
            kafka="evil.example:6666",
            http="evil.example:1",
            # A node that names another one is refused, so the node's own is repeated.
            incarnation=known.incarnation,
        )
        async with await PeerConnection.open(address) as connection:
            await connection.greet(claims=99, target=number, cluster_id=known.cluster_id)
            await connection.ask("change", wrap(ShardId(0), request))
        async with open_outsider(address, number, stranger(99, known.cluster_id)) as connection:
            await connection.ask("change", wrap(ShardId(0), request))
    await asyncio.sleep(0.5)
    async with await KafkaConnection.open(target.kafka) as kafka:
        answer = await kafka.call(3, 9, {"topics": []})
        if any("evil" in node.host for node in answer.brokers):
            raise Broken("clients are sent to evil.example")


# Members that say what no sound node says: refused before it has an effect.


@case("peer", "F14", nodes=3, stall_seconds=LINK_SECONDS)
async def p03_requests_that_cannot_be_read(target: Target) -> None:
    """A member calls by every name with bodies that are not what they should be: it is answered
    with failures."""
    bodies = (b"", b"\xc0", b"\xff", b"\x93\1\2\3", b"\x91" * 3_000, msgspec.msgpack.encode(-1))
    names = [*(call.name for call in CALLS), "no such call", "", "x" * 256]
    replies = 0
    for name in names:
        async with open_member(target.all_peers, claims=2, target=1) as connection:
            for number, body in enumerate(bodies, 1):
                request = frames.Request(number, name, 1_000, body)
                connection.say(FrameKind.REQUEST, request)
            replies += await _count_replies(connection, len(bodies))
        await asyncio.sleep(RELINKED_SECONDS)
    # The member whose place was taken dials again meanwhile, so a few are lost.
    if replies < len(names) * len(bodies) // 2:
        raise Broken(f"{replies} of {len(names) * len(bodies)} requests have a reply")


async def _count_replies(connection: PeerConnection, most: int) -> int:
    count = 0
    try:
        async with asyncio.timeout(1.0):
            while count < most:
                found = await connection.receive()
                count += sum(one.kind in (FrameKind.ANSWER, FrameKind.FAILURE) for one in found)
    except (TimeoutError, OSError, EOFError):
        pass
    return count


@case("peer", "F14", nodes=3, stall_seconds=LINK_SECONDS)
async def p04_a_change_named_after_a_family(target: Target) -> None:
    """`change` whose request is the name of a base class, of a reply, and of nothing."""
    for name in ("Command", "Stamped", "Request", "Reply", "Refused", "object", "NoSuch"):
        async with open_member(target.all_peers, claims=2, target=1) as connection:
            if await connection.ask("change", [1, name, {}]) is not None:
                raise Broken(f"a change named {name} was answered")
        await asyncio.sleep(RELINKED_SECONDS)


@case("peer", "F4", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def term_of_2_to_the_31(target: Target) -> None:
    """The first term that does not fit into an epoch of Kafka's, by members."""
    await _refuse_term(target, Term(1 << 31))


@case("peer", "F4", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def term_of_2_to_the_40(target: Target) -> None:
    """A term of 2^40, which was persisted once."""
    await _refuse_term(target, Term(1 << 40))


@case("peer", "F4", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def term_of_2_to_the_63(target: Target) -> None:
    """The greatest number there is."""
    await _refuse_term(target, Term((1 << 63) - 1))


@case("peer", "F4", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def term_that_jumps(target: Target) -> None:
    """A term that fits, and that elections cannot have brought about."""
    await _refuse_term(target, Term(TERM_JUMP_MAX + 1_000))


async def _refuse_term(target: Target, term: Term) -> None:
    """A heartbeat, a request for a vote and an order to campaign, of this term."""
    for claimed, number in _pairs(target):
        for shard in _SHARDS:
            ends: dict[str, Any] = {
                "source": NodeId(claimed),
                "target": NodeId(number),
                "term": term,
            }
            vote = VoteRequest(
                **ends, pre=False, last_index=Index(1 << 40), last_term=term, forced=True
            )
            beat = Heartbeat(**ends, session=1, commit=Index(0), round=1)
            for message in (beat, vote, TimeoutNow(**ends)):
                await _be_refused(target, claimed, number, shard, message)
    await _expect_terms(target)


async def _be_refused(
    target: Target, claimed: int, number: int, shard: int, message: AnyMessage
) -> None:
    """A message that ends the link of the member it came from, and says why in the log."""
    positions = target.log_positions()
    async with open_member(target.all_peers, claims=claimed, target=number) as connection:
        connection.tell([(shard, message)])
        if not await connection.wait_ended():
            raise Broken(f"{message.describe()} did not end the link")
    await asyncio.sleep(RELINKED_SECONDS)
    if _UNREADABLE.search(target.log_since(positions)) is None:
        raise Broken(f"{message.describe()} was not refused")


async def _expect_terms(target: Target) -> None:
    for number in target.all_peers:
        for shard in target.cluster.status(number)["shards"]:
            if int(shard["term"]) > 1_000:
                raise Broken(f"shard {shard['shard']} is in term {shard['term']}")


@case("peer", "F4", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def forge_an_append_of_7_bytes(target: Target) -> None:
    """A member forges an AppendRequest with an APPEND entry of seven bytes, where the log ends and
    elsewhere: an entry that no node can read must not be stored."""
    await _forge(target, EntryKind.APPEND, b"garbage")


@case("peer", "F4", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def forge_a_command(target: Target) -> None:
    """The same with a command that no machine knows."""
    await _forge(target, EntryKind.COMMAND, b"\xc1\xff garbage")


@case("peer", "F4", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def forge_a_membership(target: Target) -> None:
    """The same with a membership of nobody."""
    await _forge(target, EntryKind.MEMBERSHIP, msgspec.msgpack.encode(((), ())))


async def _forge(target: Target, kind: EntryKind, payload: bytes) -> None:
    for shard in target.cluster.status(1)["shards"]:
        term, last = Term(int(shard["term"]) + 1), int(shard["commit"])
        for claimed, number in _pairs(target):
            for previous in (0, last, last + 3):
                message = AppendRequest(
                    source=NodeId(claimed),
                    target=NodeId(number),
                    term=term,
                    session=1,
                    previous_index=Index(previous),
                    previous_term=Term(int(term) - 1),
                    entries=(Entry(Index(previous + 1), term, kind, payload),),
                    commit=Index(previous + 1),
                )
                await _be_refused(target, claimed, number, int(shard["shard"]), message)
    await _expect_terms(target)


@case("peer", "F4", nodes=3, stall_seconds=LINK_SECONDS)
async def p10_a_member_speaks_for_others(target: Target) -> None:
    """A member sends messages of other members, of nodes that there are not, and for others: they
    are dropped and counted."""
    before = await target.count(_FOREIGN)
    rng = random.Random(6)
    for source, receiver in ((3, 1), (99, 1), (2, 3), (0, 1), (1, 1)):
        async with open_member(target.all_peers, claims=2, target=1) as connection:
            for _ in range(100):
                message = hostile_message(rng, source, receiver)
                connection.tell([(rng.choice(_SHARDS), message)])
            await connection.wait_ended()
        await asyncio.sleep(RELINKED_SECONDS)
    if not await target.wait_counted(_FOREIGN, before + 400):
        raise Broken("messages of other members are not dropped")


@case("peer", "F7", nodes=3, alone=True, seconds=60, stall_seconds=LINK_SECONDS)
async def p25c_members_with_large_frames(target: Target) -> None:
    """A member sends nearly all of the largest frame there may be, ten times, and announces one
    that is larger."""
    for _ in range(10):
        async with open_member(target.all_peers, claims=2, target=1) as connection:
            head = bare_header(FrameKind.MESSAGES, FRAME_BYTES_MAX)
            try:
                connection.writer.write(head + bytes(60 * MIB))
                await connection.writer.drain()
            except OSError:
                continue
    async with open_member(target.all_peers, claims=2, target=1) as connection:
        connection.writer.write(bare_header(FrameKind.MESSAGES, FRAME_BYTES_MAX + 1))
        if not await connection.wait_ended():
            raise Broken("a frame above the largest did not end the link")


# Members that are believed: nodes may elect, and must recover.


@case("peer", "F4", nodes=3, alone=True, seconds=40, elects=True, stall_seconds=ELECTION_SECONDS)
async def kick_links_are_replaced_by_members(target: Target) -> None:
    """A process with the key and the incarnations takes the places of the links for 10 seconds:
    messages must go on being acknowledged."""
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        for claimed, number in _pairs(target):
            async with open_member(target.all_peers, claims=claimed, target=number):
                pass
        await asyncio.sleep(RELINKED_SECONDS)


@case("peer", "F4", nodes=3, alone=True, seconds=40, elects=True, stall_seconds=ELECTION_SECONDS)
async def votes_that_nobody_asked_for(target: Target) -> None:
    """Votes in the next terms, in the name of every member, to every node."""
    for claimed, number in _pairs(target):
        async with open_member(target.all_peers, claims=claimed, target=number) as connection:
            for term in range(1, 40):
                vote = VoteResponse(
                    source=NodeId(claimed),
                    target=NodeId(number),
                    term=Term(term),
                    pre=False,
                    granted=True,
                )
                connection.tell([(shard, vote) for shard in _SHARDS])
            await connection.wait_ended()
        await asyncio.sleep(RELINKED_SECONDS)


@case("peer", "F4", nodes=3, alone=True, seconds=60, elects=True, stall_seconds=ELECTION_SECONDS)
async def raftfuzz_of_a_member(target: Target) -> None:
    """A thousand random messages of Raft from a member to a minority of the nodes: what it does to
    that node, the others keep everything."""
    rng = random.Random(5)
    for _ in range(50):
        async with open_member(target.all_peers, claims=2, target=1) as connection:
            for _ in range(20):
                connection.tell([(rng.choice(_SHARDS), hostile_message(rng, 2, 1))])
            await connection.wait_ended()
        await asyncio.sleep(RELINKED_SECONDS)
