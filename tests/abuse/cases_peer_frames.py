"""Unsound frames at the peer port, one case each: before the handshake, and behind it by an
outsider that has the key and by a member.

What becomes of the connection is part of each row: a stranger's is ended whatever it says; behind
the handshake, frames that cannot be read end it and those that mean nothing do not.
"""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.entries import Entry, EntryKind, SnapshotMark
from penstock.core.limits import INDEX_MAX
from penstock.core.types import Index, NodeId, Term
from penstock.engine.peers import frames
from penstock.engine.peers.frames import FrameKind, Notice, encode_frame
from penstock.engine.peers.handshake import Initiator, ProvenHello, Response
from penstock.engine.replica.network import SnapshotPart, SnapshotRequest
from penstock.raft.messages import AppendRequest, AppendResponse, Heartbeat
from tests.abuse.cases_peer import LINK_SECONDS, bare_header
from tests.abuse.peer_wire import (
    KEYS,
    PeerConnection,
    identity_of,
    open_member,
    open_outsider,
    stranger,
)
from tests.abuse.registry import Attack, Broken, Case, add_case
from tests.abuse.target import Target


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
    head = struct.pack("<HBBIII", *values.values())
    return head + crc32c(head).to_bytes(4, "little")


def _raw(kind: FrameKind, payload: bytes) -> bytes:
    """A frame with this payload and sound sums."""
    return _header(kind=kind, length=len(payload), sum=crc32c(payload)) + payload


def _frame(kind: FrameKind, content: object) -> bytes:
    return bytes(encode_frame(kind, content))


def _hello(**changes: Any) -> frames.Hello:
    return msgspec.structs.replace(frames.Hello(1, 1, stranger(99), NodeId(1), 1, 1), **changes)


def _said(**changes: Any) -> bytes:
    return _frame(FrameKind.HELLO, _hello(**changes))


_DEEP = b"\x91" * 3_000
_REQUEST = frames.Request(1, "sample", 9, b"")

# Hellos that no node can have: what they are, and how they differ from a sound one.
_HELLOS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("node-0", {"identity": stranger(0)}),
    ("node-negative", {"identity": stranger(-5)}),
    ("own-id", {"identity": stranger(1)}),
    ("target-other", {"target": NodeId(5)}),
    ("formats-crossed", {"format_oldest": 9, "format_newest": 1}),
    ("formats-future", {"format_oldest": 900, "format_newest": 901}),
    ("other-cluster", {"identity": stranger(99, "another cluster")}),
    ("names-long", {"identity": frames.LinkIdentity("c" * 256, NodeId(9), "i" * 256, "v" * 256)}),
    ("forges-log", {"identity": frames.LinkIdentity("\n00:00:00 error", NodeId(9), "\n", "\x1b")}),
    ("capabilities", {"capabilities": ("c" * 50,) * 256}),
)

# Before the handshake: the bytes.
_STRANGER_ROWS: tuple[tuple[str, bytes], ...] = (
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
    ("messages-before-hello", _frame(FrameKind.MESSAGES, [])),
    ("request-before-hello", _frame(FrameKind.REQUEST, _REQUEST)),
    ("hello-nil", _frame(FrameKind.HELLO, None)),
    ("hello-empty", _frame(FrameKind.HELLO, [])),
    ("hello-deep", _raw(FrameKind.HELLO, _DEEP)),
    ("hello-1000-times", _said() * 1_000),
    ("refused", _frame(FrameKind.REFUSED, frames.Refused("go away\n00:00:00 error forged"))),
    ("hello-then-calls", _said() + _frame(FrameKind.REQUEST, _REQUEST) * 100),
    ("hello-then-messages", _said() + _frame(FrameKind.MESSAGES, []) * 100),
    ("challenge-short", _frame(FrameKind.CHALLENGE, [b"x"])),
    ("challenge-long", _frame(FrameKind.CHALLENGE, [bytes(33)])),
    ("challenge-deep", _raw(FrameKind.CHALLENGE, _DEEP)),
    ("challenge-then-nothing", _frame(FrameKind.CHALLENGE, [bytes(32)])),
    ("challenge-then-hello", _frame(FrameKind.CHALLENGE, [bytes(32)]) + _said()),
    ("response-first", _frame(FrameKind.RESPONSE, Response(bytes(32), (bytes(32),)))),
    ("response-many-macs", _frame(FrameKind.RESPONSE, [bytes(32), [bytes(32)] * 100])),
    ("proof-first", _frame(FrameKind.PROOF, ProvenHello(b"", bytes(32)))),
    ("confirm-first", _frame(FrameKind.CONFIRM, ProvenHello(b"", bytes(32)))),
    ("http-request", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("tls-hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506)),
    ("zeros", bytes(1 << 20)),
    *((f"hello-{name}", _said(**changes)) for name, changes in _HELLOS),
)


def _stranger_says(data: bytes) -> Attack:
    async def attack(target: Target) -> None:
        async with await PeerConnection.open(target.peer) as connection:
            connection.writer.write(data)
            if not await connection.wait_ended():
                raise Broken("the connection of a stranger is still open")

    return attack


# A proof that is right about a hello that is not: what the hello is, as bytes.
_PROVEN_HELLOS: tuple[tuple[str, bytes], ...] = (
    ("empty", b""),
    ("garbage", b"\xc1\xff garbage"),
    ("deep", _DEEP),
    ("nil", b"\xc0"),
    *(
        (name, frames.encode_hello(_hello(**changes)))
        for name, changes in _HELLOS
        if name != "capabilities"
    ),
)


def _outsider_proves(hello: bytes) -> Attack:
    async def attack(target: Target) -> None:
        async with await PeerConnection.open(target.peer) as connection:
            initiator = Initiator(KEYS, NodeId(target.attacked))
            connection.say(FrameKind.CHALLENGE, initiator.challenge())
            (frame,) = await connection.receive()
            response = frames.decode_payload(frames.RESPONSE_DECODER, frame)
            if not initiator.verify(response):
                raise OSError("the node has another key")
            connection.say(FrameKind.PROOF, initiator.proof(hello))
            if not await connection.wait_ended():
                raise Broken("a hello that cannot be was taken")

    return attack


_FAILURE = frames.Failure(7, ("NoSuch",) * 32, "m" * 8_000)

# Behind the handshake, by an outsider: the bytes, and whether they end the link.
_OUTSIDER_ROWS: tuple[tuple[str, bytes, bool], ...] = (
    ("answers", _frame(FrameKind.ANSWER, frames.Answer(7, b"")) * 500, False),
    ("answer-garbage", _raw(FrameKind.ANSWER, b"\xc1"), True),
    ("failures", _frame(FrameKind.FAILURE, _FAILURE) * 50, False),
    ("notices", _frame(FrameKind.NOTICE, Notice("leads", b"\xff\xff")) * 50, False),
    ("notice-unknown", _frame(FrameKind.NOTICE, Notice("no such", b"")), False),
    ("withdrawals", _frame(FrameKind.WITHDRAWAL, frames.Withdrawal(7)) * 2_000, False),
    ("pongs", bytes(frames.PONG_FRAME) * 2_000, False),
    ("messages-garbage", _raw(FrameKind.MESSAGES, b"\xc1\xff") * 100, False),
    ("responses", _frame(FrameKind.RESPONSE, Response(bytes(32), ())) * 100, False),
    ("confirm", _frame(FrameKind.CONFIRM, ProvenHello(b"", bytes(32))), False),
    (
        "holds",
        b"".join(
            _frame(FrameKind.REQUEST, frames.Request(n, "hold", 60_000, b"\xc0"))
            for n in range(1, 300)
        ),
        False,
    ),
    (
        "introductions",
        b"".join(
            _frame(FrameKind.REQUEST, frames.Request(n, "introduce", 60_000, b"\xc0"))
            for n in range(1, 5_000)
        ),
        False,
    ),
    ("request-garbage", _raw(FrameKind.REQUEST, b"\xc1\xff"), True),
    ("request-deep", _raw(FrameKind.REQUEST, b"\x91" * 60_000), True),
    ("request-id-negative", _frame(FrameKind.REQUEST, [-1, "introduce", 1, b""]), True),
    ("proof-garbage", _raw(FrameKind.PROOF, b"\xc1"), True),
    ("hello-other-node", _said(identity=stranger(98)), True),
    ("kind-unknown", _header(kind=77), True),
    ("sum-wrong", _header(kind=6, length=4, sum=5) + b"abcd", True),
    ("length-of-a-member", bare_header(FrameKind.MESSAGES, 1 << 20), True),
    ("refused", _frame(FrameKind.REFUSED, frames.Refused("go away")), True),
    ("http-request", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", True),
)
_KNOWN = msgspec.msgpack.encode({"node": 99, "incarnation": "s", "shards": 2, "cluster": [99]})


def _outsider_says(data: bytes, ends: bool) -> Attack:
    async def attack(target: Target) -> None:
        async with open_outsider(target.peer, 1) as connection:
            connection.writer.write(data)
            if ends and not await connection.wait_ended():
                raise Broken("an unsound frame did not end the link")
            if ends:
                return
            # While it serves a thousand requests, further ones are refused.
            for number in range(1 << 40, (1 << 40) + 5):
                if await connection.ask("introduce", _KNOWN, number) is not None:
                    return
                await asyncio.sleep(0.2)
            raise Broken("the link has ended, or answers no more")

    return attack


_ENDS: dict[str, Any] = {"source": NodeId(2), "target": NodeId(1), "term": Term(1)}
_MARK = SnapshotMark(Index(5), Term(1))
_GARBAGE = Entry(Index(1), Term(1), EntryKind.APPEND, b"garbage")


def _append(*entries: Entry, **changes: Any) -> AppendRequest:
    fields = {
        "session": 1,
        "previous_index": Index(0),
        "previous_term": Term(0),
        "commit": Index(0),
    }
    return AppendRequest(**_ENDS, **{**fields, **changes}, entries=entries)


def _part(**changes: Any) -> SnapshotPart:
    fields: dict[str, Any] = {
        "source": NodeId(2),
        "target": NodeId(1),
        "mark": _MARK,
        "records_after": Index(0),
        "state_position": 0,
        "records_through": Index(0),
    }
    return SnapshotPart(**{**fields, **changes})


def _told(*parcels: object) -> bytes:
    return _frame(FrameKind.MESSAGES, list(parcels))


_NO_OP = Entry(Index(9), Term(1), EntryKind.COMMAND, b"")
_BEAT = Heartbeat(**_ENDS, session=1, commit=Index(-1), round=1)
_ASKED = SnapshotRequest(
    source=NodeId(2), target=NodeId(1), mark=_MARK, records_after=Index(0), state_position=-1
)

# By a member, each of which ends its link: the bytes, and what the log says of them.
_MEMBER_ROWS: tuple[tuple[str, bytes, str], ...] = (
    ("messages-garbage", _raw(FrameKind.MESSAGES, b"\xc1\xff"), "MESSAGES that cannot be read"),
    ("messages-deep", _raw(FrameKind.MESSAGES, b"\x91" * (1 << 20)), "cannot be read"),
    ("messages-nil", _told(None), "cannot be read"),
    ("messages-tag-unknown", _told([0, ["NoSuch", 2, 1, 1]]), "cannot be read"),
    ("messages-tag-alone", _told([0, ["Heartbeat"]]), "cannot be read"),
    ("term-text", _told([0, ["TimeoutNow", 2, 1, "one"]]), "cannot be read"),
    ("notice-garbage", _frame(FrameKind.NOTICE, Notice("leads", b"\xc1")), "cannot be read"),
    ("commit-negative", _told([0, _BEAT]), "an index that cannot be"),
    ("index-huge", _told([0, _append(commit=Index(INDEX_MAX + 1))]), "an index that cannot be"),
    ("term-negative", _told([0, _append(previous_term=Term(-1))]), "that cannot be"),
    ("entry-garbage", _told([0, _append(_GARBAGE)]), "cannot be read"),
    ("entry-with-a-gap", _told([0, _append(_NO_OP)]), "has no place"),
    ("entry-twice", _told([0, _append(_GARBAGE, _GARBAGE)]), "has no place"),
    (
        "match-negative",
        _told([0, AppendResponse(**_ENDS, session=1, match=Index(-7))]),
        "an index that cannot be",
    ),
    ("snapshot-part-garbage", _told([1, _part(entries=(_GARBAGE,))]), "cannot be read"),
    ("snapshot-position-negative", _told([1, _part(state_position=-1)]), "below zero"),
    ("snapshot-request-negative", _told([1, _ASKED]), "below zero"),
    (
        "snapshot-mark-huge",
        _told([1, _part(mark=SnapshotMark(Index(1 << 60), Term(1)))]),
        "an index that cannot be",
    ),
    ("request-garbage", _raw(FrameKind.REQUEST, b"\xc1\xff"), "REQUEST that cannot be read"),
    ("failure-garbage", _raw(FrameKind.FAILURE, b"\xc1\xff"), "FAILURE that cannot be read"),
    ("hello-other-node", _said(identity=stranger(3)), "cannot become node 3"),
    ("kind-unknown", _header(kind=77), "kind"),
    ("flags-set", _header(kind=5, flags=1), "flag"),
    ("sum-wrong", _header(kind=5, length=4, sum=5) + b"abcd", "CRC-32C"),
    ("length-greatest", bare_header(FrameKind.MESSAGES, (1 << 32) - 1), "bytes"),
)


def _member_says(data: bytes, reason: str) -> Attack:
    async def attack(target: Target) -> None:
        positions = target.log_positions()
        async with open_member(target.all_peers, claims=2, target=1) as connection:
            connection.writer.write(data)
            if not await connection.wait_ended():
                raise Broken("an unsound frame did not end the link")
        lines = target.log_since(positions).splitlines()
        lost = [line for line in lines if "lost the link with node 2" in line]
        if not any(reason in line for line in lost):
            raise Broken(f"the log does not say {reason!r}: {lost}")
        # Whose place was taken is back, and who it is has not changed.
        await identity_of(target.all_peers[2], 2)

    return attack


def _add(name: str, attack: Attack, what: str) -> None:
    made = Case(name=name, group="peer", finding="F4", what=what, attack=attack, nodes=3)
    add_case(replace(made, stall_seconds=LINK_SECONDS) if name.startswith("p-member") else made)


def _add_rows(prefix: str, who: str, rows: Any, make: Callable[..., Attack]) -> None:
    for name, data, *more in rows:
        _add(f"{prefix}-{name}", make(data, *more), f"{who}: {len(data)} bytes, {name}")


_add_rows("p-frame", "a stranger at the peer port", _STRANGER_ROWS, _stranger_says)
_add_rows("p-proof", "a right proof of a wrong hello", _PROVEN_HELLOS, _outsider_proves)
_add_rows("p-outsider", "behind the handshake", _OUTSIDER_ROWS, _outsider_says)
_add_rows("p-member", "a member", _MEMBER_ROWS, _member_says)
