"""Hostile frames at the peer port: by a stranger, by one that knows the cluster's id, and messages
of Raft that no node would send.

Where a cluster of one does not listen for peers, or a stranger is not answered, nothing is left to
attack: that is how it should be.
"""

import asyncio
import contextlib
import random
import struct
from typing import Any

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, NodeId, ShardId, Term
from penstock.engine.peers import frames
from penstock.engine.peers.forwarder import wrap
from penstock.engine.peers.frames import FrameKind, Notice, encode_frame
from penstock.machines.catalog_commands import RegisterNode
from penstock.raft.messages import AppendRequest, Heartbeat, TimeoutNow, VoteRequest, VoteResponse
from tests.abuse.grammar_structs import hostile_message
from tests.abuse.kafka_wire import KafkaConnection
from tests.abuse.peer_wire import PeerStranger, cluster_id_of
from tests.abuse.registry import Attack, Broken, Case, add_case, case
from tests.abuse.streams import pour, silent
from tests.abuse.target import MIB, Target

_NOT_LISTENING = (OSError, EOFError)
_SHARDS = (0, 1, 2)


@case("peer", "F4")
async def p01_a_stranger_learns_the_cluster_id(target: Target) -> None:
    """A hello without a cluster id: the answer must not name the cluster."""
    if await cluster_id_of(target.peer):
        raise Broken("a stranger was told the cluster's id")


@case("peer", "F4", nodes=3, alone=True)
async def p01b_a_stranger_learns_the_id_of_three(target: Target) -> None:
    """The same of three nodes, as every id there may be."""
    for number, address in target.all_peers.items():
        if await cluster_id_of(address, number):
            raise Broken(f"node {number} told a stranger the cluster's id")


@case("peer", "F4")
async def p02_a_stranger_calls(target: Target) -> None:
    """Requests of a stranger: samples, events, the audit, groups, a hold of all shards."""
    answered = []
    for method, body in (
        ("sample", b""),
        ("events", b""),
        ("audit", msgspec.msgpack.encode(10)),
        ("groups", b""),
        ("catalog_version", b""),
    ):
        with contextlib.suppress(*_NOT_LISTENING):
            async with await PeerStranger.open(target.peer) as stranger:
                await stranger.greet(claims=99, target=1)
                if await stranger.ask(method, body) is not None:
                    answered.append(method)
    if answered:
        raise Broken(f"a stranger was answered {', '.join(answered)}")


@case("peer", "F14")
async def p03_requests_that_cannot_be_read(target: Target) -> None:
    """Requests with names and bodies that are not what they should be."""
    bodies = (b"", b"\xc0", b"\xff", b"\x93\1\2\3", b"\x91" * 3_000, msgspec.msgpack.encode(-1))
    names = (
        "audit",
        "change",
        "queue",
        "look",
        "ends",
        "trace_place",
        "no such call",
        "",
        "x" * 256,
    )
    with contextlib.suppress(*_NOT_LISTENING):
        async with await PeerStranger.open(target.peer) as stranger:
            await stranger.greet(claims=99, target=1)
            number = 0
            for name in names:
                for body in bodies:
                    number += 1
                    stranger.say(FrameKind.REQUEST, frames.Request(number, name, 1_000, body))
            await asyncio.sleep(1.0)


@case("peer", "F14")
async def p04_a_change_named_after_a_family(target: Target) -> None:
    """`change` whose request is the name of a base class, of a reply, and of nothing."""
    with contextlib.suppress(*_NOT_LISTENING):
        async with await PeerStranger.open(target.peer) as stranger:
            await stranger.greet(claims=99, target=1)
            for name in ("Command", "Stamped", "Request", "Reply", "Refused", "object", "NoSuch"):
                await stranger.ask("change", [1, name, {}])


@case("peer", "F4", nodes=3, alone=True, seconds=40)
async def kick_links_are_replaced(target: Target) -> None:
    """A stranger claims the ids of the nodes, at each of them, again and again for 10 seconds:
    messages must go on being acknowledged."""
    known = await cluster_id_of(target.peer)
    attempt = 1 << 40
    for _ in range(40):
        for number, address in target.all_peers.items():
            for claimed in target.all_peers:
                if claimed == number:
                    continue
                attempt += 1
                with contextlib.suppress(*_NOT_LISTENING):
                    stranger = await PeerStranger.open(address)
                    await asyncio.wait_for(
                        _hello_only(stranger, claimed, number, known, attempt), 1.0
                    )
        await asyncio.sleep(0.1)


async def _hello_only(
    stranger: PeerStranger, claimed: int, target: int, cluster_id: str, attempt: int
) -> None:
    identity = frames.LinkIdentity(cluster_id, NodeId(claimed), f"stranger-{claimed}", "0.2.0")
    hello = frames.Hello(1, 1, identity, NodeId(target), 1 << 60, attempt)
    stranger.say(FrameKind.HELLO, hello)
    with contextlib.suppress(*_NOT_LISTENING):
        await stranger.writer.drain()
        await stranger.reader.read(1_000)
    stranger.close()


@case("peer", "F4", nodes=3, alone=True, seconds=40)
async def term_of_2_to_the_40(target: Target) -> None:
    """Two frames with a term of 2^40, which is persisted, and which no epoch of Kafka's can
    hold."""
    await _tell_all(target, Term(1 << 40))


@case("peer", "F4", alone=True)
async def term_of_2_to_the_63_at_a_cluster_of_one(target: Target) -> None:
    """The same with 2^63-1 at a cluster of one."""
    await _tell_all(target, Term((1 << 63) - 1))


@case("peer", "F4", nodes=3, alone=True)
async def term_of_2_to_the_31(target: Target) -> None:
    """The first term that does not fit into an epoch of Kafka's."""
    await _tell_all(target, Term(1 << 31))


async def _tell_all(target: Target, term: Term) -> None:
    """A heartbeat and a request for a vote of this term, to every shard of every node."""
    known = await cluster_id_of(target.peer)
    for number, address in target.all_peers.items():
        claimed = number % len(target.all_peers) + 1 if len(target.all_peers) > 1 else 2
        with contextlib.suppress(*_NOT_LISTENING):
            async with await PeerStranger.open(address) as stranger:
                await stranger.greet(claims=claimed, target=number, cluster_id=known)
                for shard in _SHARDS:
                    ends: dict[str, Any] = {
                        "source": NodeId(claimed),
                        "target": NodeId(number),
                        "term": term,
                    }
                    stranger.tell(
                        [
                            (shard, Heartbeat(**ends, session=1, commit=Index(0), round=1)),
                            (
                                shard,
                                VoteRequest(
                                    **ends,
                                    pre=False,
                                    last_index=Index(1 << 40),
                                    last_term=term,
                                    forced=True,
                                ),
                            ),
                            (shard, TimeoutNow(**ends)),
                        ]
                    )
                await asyncio.sleep(0.5)


@case("peer", "F4", nodes=3, alone=True, seconds=40)
async def forge_one_append_of_7_bytes(target: Target) -> None:
    """A forged AppendRequest with an APPEND entry of seven bytes, in a term above the present one,
    to every shard of every node: an entry that no node can read must not be stored."""
    await _forge(target, EntryKind.APPEND, b"garbage")


@case("peer", "F4", nodes=3, alone=True, seconds=40)
async def forge_one_command(target: Target) -> None:
    """The same with a command that no machine knows."""
    await _forge(target, EntryKind.COMMAND, b"\xc1\xff garbage")


@case("peer", "F4", nodes=3, alone=True, seconds=40)
async def forge_one_membership(target: Target) -> None:
    """The same with a membership of nobody."""
    await _forge(target, EntryKind.MEMBERSHIP, msgspec.msgpack.encode(((), ())))


async def _forge(target: Target, kind: EntryKind, payload: bytes) -> None:
    known = await cluster_id_of(target.peer)
    status = target.cluster.status(1)
    for shard in status["shards"]:
        term = Term(int(shard.get("term", 1)) + 1)
        last = int(shard.get("last_index", shard.get("commit_index", shard.get("commit", 1))))
        for number, address in target.all_peers.items():
            claimed = number % 3 + 1
            with contextlib.suppress(*_NOT_LISTENING):
                async with await PeerStranger.open(address) as stranger:
                    await stranger.greet(claims=claimed, target=number, cluster_id=known)
                    for previous in range(max(0, last - 2), last + 40):
                        stranger.tell(
                            [
                                (
                                    int(shard["shard"]),
                                    AppendRequest(
                                        source=NodeId(claimed),
                                        target=NodeId(number),
                                        term=term,
                                        session=1,
                                        previous_index=Index(previous),
                                        previous_term=Term(int(term) - 1),
                                        entries=(Entry(Index(previous + 1), term, kind, payload),),
                                        commit=Index(previous + 1),
                                    ),
                                )
                            ]
                        )
                    await asyncio.sleep(0.1)


@case("peer", "F4", nodes=3, alone=True)
async def redirect_of_all_kafka_clients(target: Target) -> None:
    """A stranger registers the nodes anew, with an address for Kafka clients that is its own."""
    known = await cluster_id_of(target.peer)
    for number, address in target.all_peers.items():
        with contextlib.suppress(*_NOT_LISTENING):
            async with await PeerStranger.open(address) as stranger:
                hello = await stranger.greet(claims=99, target=number, cluster_id=known)
                request = RegisterNode(
                    node=NodeId(number),
                    peer="evil.example:1",
                    kafka="evil.example:6666",
                    http="evil.example:1",
                    # A node that names another one is refused, so the hello's is repeated.
                    incarnation=hello.identity.incarnation if hello is not None else "stranger",
                )
                await stranger.ask("change", wrap(ShardId(0), request))
    await asyncio.sleep(0.5)
    async with await KafkaConnection.open(target.kafka) as connection:
        answer = await connection.call(3, 9, {"topics": []})
        if any("evil" in node.host for node in answer.brokers):
            raise Broken("clients are sent to evil.example")


@case("peer", "F4", alone=True, seconds=40)
async def raftfuzz_at_a_cluster_of_one(target: Target) -> None:
    """A thousand random messages of Raft, from every node there could be, to every shard."""
    await _fuzz_raft(target, 1_000)


@case("peer", "F4", nodes=3, alone=True, seconds=40)
async def raftfuzz_at_a_cluster_of_three(target: Target) -> None:
    """The same with three nodes."""
    await _fuzz_raft(target, 1_000)


async def _fuzz_raft(target: Target, count: int) -> None:
    known = await cluster_id_of(target.peer)
    rng = random.Random(5)
    for number, address in target.all_peers.items():
        claimed = number % 3 + 1
        with contextlib.suppress(*_NOT_LISTENING):
            async with await PeerStranger.open(address) as stranger:
                await stranger.greet(claims=claimed, target=number, cluster_id=known)
                for _ in range(count):
                    stranger.tell([(rng.choice(_SHARDS), hostile_message(rng, claimed, number))])
                await asyncio.sleep(0.5)


@case("peer", "F4", nodes=3, alone=True)
async def votes_of_strangers_count_for_nobody(target: Target) -> None:
    """Votes that nobody asked for, in the next terms, in the name of every node."""
    known = await cluster_id_of(target.peer)
    for number, address in target.all_peers.items():
        for claimed in target.all_peers:
            if claimed == number:
                continue
            with contextlib.suppress(*_NOT_LISTENING):
                async with await PeerStranger.open(address) as stranger:
                    await stranger.greet(claims=claimed, target=number, cluster_id=known)
                    for term in range(1, 40):
                        vote = VoteResponse(
                            source=NodeId(claimed),
                            target=NodeId(number),
                            term=Term(term),
                            pre=False,
                            granted=True,
                        )
                        stranger.tell([(shard, vote) for shard in _SHARDS])


@case("peer", "F7", alone=True, seconds=40)
async def p25_thirty_strangers_with_large_frames(target: Target) -> None:
    """30 strangers say hello and send 60 MiB of a frame of 64 MiB each."""
    await _large_frames(target, 30, 60 * MIB)


@case("peer", "F7", alone=True)
async def p26_strangers_that_only_announce(target: Target) -> None:
    """200 strangers say hello and announce a frame of 64 MiB, of which nothing comes."""
    await _large_frames(target, 200, 0)


async def _large_frames(target: Target, count: int, size: int) -> None:
    identity = frames.LinkIdentity("", NodeId(50), "stranger", "0.2.0")
    strangers = []
    head = bytearray(encode_frame(FrameKind.REQUEST, b""))[: frames.FRAME_HEADER_BYTES]
    struct.pack_into("<I", head, 8, 64 * MIB)
    struct.pack_into("<I", head, 16, crc32c(bytes(head[:16])))
    for number in range(count):
        with contextlib.suppress(*_NOT_LISTENING):
            stranger = await PeerStranger.open(target.peer)
            strangers.append(stranger)
            named = msgspec.structs.replace(identity, node=NodeId(50 + number))
            stranger.say(FrameKind.HELLO, frames.Hello(1, 1, named, NodeId(1), 1 << 60, number + 1))
            stranger.writer.write(bytes(head) + bytes(size))
    await asyncio.sleep(3.0)
    for stranger in strangers:
        stranger.close()


@case("peer", "F13", seconds=20)
async def p28_garbage_on_3000_connections(target: Target) -> None:
    """3,000 connections, each ended by a frame that is none: how many lines does it log?"""
    for _ in range(30):
        await asyncio.gather(
            *(pour(target.peer, b"\xff" * 64, seconds=2.0, quiet_seconds=0.2) for _ in range(100))
        )


@case("peer", "F13", seconds=20)
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


@case("peer", "")
async def p30_connections_that_say_nothing(target: Target) -> None:
    """2,500 connections to the peer port that never say hello."""
    async with silent(target.peer, b"", 2_500):
        await asyncio.sleep(3.0)


def _header(**changes: int) -> bytes:
    values = {
        "magic": 0xB57E,
        "version": 1,
        "kind": 1,
        "flags": 0,
        "length": 0,
        "sum": 0,
        **changes,
    }
    head = struct.pack(
        "<HBBIII",
        values["magic"],
        values["version"],
        values["kind"],
        values["flags"],
        values["length"],
        values["sum"],
    )
    return head + struct.pack("<I", crc32c(head))


def _hello(content: object) -> bytes:
    return bytes(encode_frame(FrameKind.HELLO, content))


_SOUND = frames.Hello(1, 1, frames.LinkIdentity("", NodeId(99), "s", "0"), NodeId(1), 1, 1)

# Unsound frames: the bytes, and what they are.
_ROWS: tuple[tuple[str, bytes], ...] = (
    ("magic-wrong", _header(magic=1)),
    ("version-wrong", _header(version=9)),
    ("kind-unknown", _header(kind=77)),
    ("flags-set", _header(flags=1)),
    ("length-greatest", _header(length=(1 << 32) - 1)),
    ("length-above-hello", _header(length=17_000) + bytes(17_000)),
    ("sum-wrong", _header(length=4, sum=5) + b"abcd"),
    ("header-sum-wrong", _header()[:-4] + b"\0\0\0\0"),
    ("header-half", _header()[:10]),
    ("ping-before-hello", bytes(frames.PING_FRAME) * 100),
    ("messages-before-hello", bytes(encode_frame(FrameKind.MESSAGES, []))),
    (
        "request-before-hello",
        bytes(encode_frame(FrameKind.REQUEST, frames.Request(1, "sample", 9, b""))),
    ),
    ("hello-nil", _hello(None)),
    ("hello-empty", _hello([])),
    (
        "hello-deep",
        b"".join([_header(length=5_000, sum=crc32c(b"\x91" * 5_000)), b"\x91" * 5_000]),
    ),
    (
        "hello-node-0",
        _hello(
            msgspec.structs.replace(_SOUND, identity=frames.LinkIdentity("", NodeId(0), "s", "0"))
        ),
    ),
    (
        "hello-node-negative",
        _hello(
            msgspec.structs.replace(_SOUND, identity=frames.LinkIdentity("", NodeId(-5), "s", "0"))
        ),
    ),
    (
        "hello-node-huge",
        _hello(
            msgspec.structs.replace(
                _SOUND, identity=frames.LinkIdentity("", NodeId((1 << 63) - 1), "s", "0")
            )
        ),
    ),
    (
        "hello-own-id",
        _hello(
            msgspec.structs.replace(_SOUND, identity=frames.LinkIdentity("", NodeId(1), "s", "0"))
        ),
    ),
    ("hello-target-other", _hello(msgspec.structs.replace(_SOUND, target=NodeId(5)))),
    (
        "hello-formats-crossed",
        _hello(msgspec.structs.replace(_SOUND, format_oldest=9, format_newest=1)),
    ),
    (
        "hello-formats-future",
        _hello(msgspec.structs.replace(_SOUND, format_oldest=900, format_newest=901)),
    ),
    (
        "hello-names-long",
        _hello(
            msgspec.structs.replace(
                _SOUND, identity=frames.LinkIdentity("c" * 256, NodeId(9), "i" * 256, "v" * 256)
            )
        ),
    ),
    ("hello-1000-times", _hello(_SOUND) * 1_000),
    ("hello-capabilities", _hello(msgspec.structs.replace(_SOUND, capabilities=("c" * 50,) * 256))),
    (
        "refused",
        bytes(encode_frame(FrameKind.REFUSED, frames.Refused("go away\n00:00:00 error forged"))),
    ),
    (
        "hello-then-answers",
        _hello(_SOUND) + bytes(encode_frame(FrameKind.ANSWER, frames.Answer(7, b""))) * 500,
    ),
    (
        "hello-then-failures",
        _hello(_SOUND)
        + bytes(encode_frame(FrameKind.FAILURE, frames.Failure(7, ("NoSuch",) * 32, "m" * 8_000)))
        * 50,
    ),
    (
        "hello-then-notices",
        _hello(_SOUND) + bytes(encode_frame(FrameKind.NOTICE, Notice("leaders", b"\xff\xff"))) * 50,
    ),
    (
        "hello-then-notice-unknown",
        _hello(_SOUND) + bytes(encode_frame(FrameKind.NOTICE, Notice("no such", b""))),
    ),
    (
        "hello-then-withdrawals",
        _hello(_SOUND) + bytes(encode_frame(FrameKind.WITHDRAWAL, frames.Withdrawal(7))) * 2_000,
    ),
    (
        "hello-then-holds",
        _hello(_SOUND)
        + b"".join(
            bytes(encode_frame(FrameKind.REQUEST, frames.Request(n, "hold", 60_000, b"\xc0")))
            for n in range(1, 300)
        ),
    ),
    ("http-request", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("tls-hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506)),
    ("zeros", bytes(1 << 20)),
)


def _pourer(data: bytes) -> Attack:
    async def attack(target: Target) -> None:
        await pour(target.peer, data, seconds=3.0, quiet_seconds=0.3)

    return attack


for _name, _data in _ROWS:
    add_case(
        Case(
            f"p-frame-{_name}",
            "peer",
            "F4" if "then" in _name else "",
            f"{len(_data)} bytes at the peer port: {_name}",
            _pourer(_data),
        )
    )
