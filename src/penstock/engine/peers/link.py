"""One connection with another node: frames in, frames out, and whether anyone is still there.

A connection begins with mutual authentication by the cluster key (`handshake`), in which both sides
say hello; in a cluster that has no key yet, with a hello from the side that dialled and one in
return. Who may talk to whom is decided by the owner (`links.Links`). From then on the link carries
messages, requests and notices, each of which is checked before it goes on. A node that is not a
member of this node's cluster may only make the calls that are open to strangers; its messages and
notices are dropped, and so are messages that do not say of themselves that they come from that node
and are meant for this one.

Either side may begin another authentication on a link that works: that is how a link goes on when
the cluster gets a key, or another one.

A link is a protocol of the loop and not a pair of streams: a frame is handled where it arrives,
without a task, a queue or a copy of its own. Any frame that is not sound ends the link, with one
line that says why; everything built on links bears that.

A link that hears nothing for a while pings; one that still hears nothing is dead. A connection
whose other end has lost power looks just like an idle one, and a stopped process has its
connections kept up by the kernel, so nothing but silence tells.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import InvalidFrame
from penstock.core.limits import (
    FRAME_BYTES_MAX,
    PEER_OUTGOING_BYTES_MAX,
    STRANGER_FRAME_BYTES_MAX,
)
from penstock.core.memory_budget import ANSWERS, REQUESTS, MemoryBudget
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.engine.peers.cluster_key import ClusterKeys
from penstock.engine.peers.exchange import Exchange, Serve
from penstock.engine.peers.frames import (
    ANSWER_DECODER,
    CHALLENGE_DECODER,
    FAILURE_DECODER,
    HAS_KEY,
    HELLO_DECODER,
    MESSAGES_DECODER,
    NOTICE_DECODER,
    PING_FRAME,
    PONG_FRAME,
    PROVEN_HELLO_DECODER,
    REFUSED_DECODER,
    REQUEST_DECODER,
    RESPONSE_DECODER,
    WITHDRAWAL_DECODER,
    Frame,
    FrameKind,
    FrameReader,
    Hello,
    LinkIdentity,
    Notice,
    Refused,
    decode_hello,
    decode_payload,
    encode_frame,
    encode_hello,
)
from penstock.engine.peers.handshake import Initiator, Responder, Response
from penstock.engine.peers.message_check import check_message
from penstock.engine.peers.send_queue import LinkCounters, Outgoing
from penstock.engine.replica.network import PeerMessage

PROTOCOL = "peer"
PROOF_WANTED = "nodes must prove here that they hold the cluster key"
_AUTHENTICATION = frozenset(
    (
        FrameKind.HELLO,
        FrameKind.REFUSED,
        FrameKind.CHALLENGE,
        FrameKind.RESPONSE,
        FrameKind.PROOF,
        FrameKind.CONFIRM,
    )
)


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The patience and the bounds of links."""

    connect_timeout_ms: int = 2_000
    """Until both have said hello."""
    head_start_ms: int = 250
    """How long a node waits for one with a higher id to dial it, before it dials by itself."""
    retry_ms_min: int = 50
    retry_ms_max: int = 2_000
    """Between two dials, doubled from one to the other; each wait is varied by half."""
    ping_ms: int = 1_000
    silence_ms_max: int = 5_000
    tick_ms: int = 100
    """How often silence is looked at."""
    close_timeout_ms: int = 1_000
    """How long `close` lets the last frames leave."""
    outgoing_bytes_max: int = PEER_OUTGOING_BYTES_MAX

    def __post_init__(self) -> None:
        assert 0 < self.tick_ms <= self.ping_ms < self.silence_ms_max, (
            f"looks every {self.tick_ms} ms and pings after {self.ping_ms} ms cannot tell"
            f" a silence of {self.silence_ms_max} ms"
        )
        assert 0 < self.retry_ms_min <= self.retry_ms_max, "dials must have pauses between them"


class LinkSecurity(msgspec.Struct, kw_only=True):
    """By what the other side must prove itself; it changes while the links live."""

    keys: ClusterKeys = ClusterKeys()
    required: bool = False
    """Every peer must prove that it has the key. False only in a cluster that was founded by
    release 0.1 and does not know yet that all its members have the key."""


class LinkSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the links of a node share, and whom they tell."""

    node: NodeId
    settings: LinkSettings
    security: LinkSecurity
    memory: MemoryBudget
    clock: Clock
    counters: LinkCounters
    tasks: set[asyncio.Task[bytes]]
    announce: Callable[[str], None]
    complain: Callable[[str], None]
    """For lines that a stranger can cause: there is a limit to their number."""
    make_hello: Callable[["Link"], Hello]
    on_message: Callable[[ShardId, PeerMessage], None]
    on_request: Serve
    on_notice: Callable[[NodeId, str, bytes], None]
    on_open: Callable[["Link"], None]
    on_hello: Callable[["Link", Hello], None]
    on_end: Callable[["Link", str], None]
    """Nothing passes any more; called once, with the reason."""
    on_closed: Callable[["Link"], None]
    """The connection is gone as well."""


class Link(asyncio.BufferedProtocol):
    """One connection. `dialled` is the node it was made for, or `NO_NODE` if it came in."""

    def __init__(
        self, world: LinkSurroundings, *, dialled: NodeId = NO_NODE, proves: bool = False
    ) -> None:
        self._world = world
        self._loop = asyncio.get_running_loop()
        self.dialled = dialled
        self.proves = proves
        """Of a link that is dialled: it begins with an authentication."""
        self.hello: Hello | None = None
        """The newest hello of the other side, once it was welcomed."""
        self.greeted = False
        """A hello was sent, so a newer one must follow when there is more to say."""
        self.trusted = False
        """The other side is a member of this node's cluster and proven as far as is required."""
        self.proven_by = b""
        """The key by which the other side is proven; empty if it is not."""
        self.attempt = 0
        """Of a link that was dialled: the number of that dial."""
        self._proof_due_ms: int | None = None
        """Until then the other side must have proven itself by a key that is accepted now."""
        self._challenged_ms = 0
        self._initiator: Initiator | None = None
        self._responder: Responder | None = None
        self._must_confirm = False
        self.welcome: asyncio.Future[Refused | None] = self._loop.create_future()
        """Done when the link works, or never will; then with the reason."""
        self.exchange: Exchange | None = None
        # In its own place: an address that clients share must not be used up by the nodes there.
        self._account = world.memory.open(PROTOCOL, f"{PROTOCOL} {dialled}", self)
        self.outgoing = Outgoing(
            bytes_max=min(world.settings.outgoing_bytes_max, world.memory.bytes_max // 8),
            counters=world.counters,
            soon=self._loop.call_soon,
            announce=world.announce,
        )
        self._reader = FrameReader()
        self._reader_bytes = 0
        """The memory of the reader, as it is counted."""
        self._waiting_bytes = 0
        """What waits to leave, as it is counted."""
        self._transport: asyncio.Transport | None = None
        self._address = "nowhere"
        self._reason = ""
        """Why it has ended; empty as long as it has not."""
        self._heard = True
        self._opened_ms = self._heard_ms = self._pinged_ms = world.clock.monotonic_ms()

    # What others ask.

    @property
    def peer(self) -> NodeId:
        """The node at the other end; `NO_NODE` until that is known."""
        return self.hello.identity.node if self.hello is not None else NO_NODE

    @property
    def identity(self) -> LinkIdentity | None:
        """What the other end says about itself."""
        return self.hello.identity if self.hello is not None else None

    @property
    def address(self) -> str:
        """Where the other end is, for people."""
        return self._address

    @property
    def host(self) -> str:
        """The same without the port."""
        return self._address.rpartition(":")[0]

    @property
    def is_proven(self) -> bool:
        """The other side holds a key that is accepted now."""
        return self.proven_by in self._world.security.keys.keys

    def ended(self) -> bool:
        """Nothing passes any more."""
        return self._reason != ""

    def describe(self) -> str:
        """`node 2 (127.0.0.1:4711)`, or the address alone while the node is not known."""
        known = self.peer or self.dialled
        return f"node {known} ({self._address})" if known else self._address

    # What the owner does.

    def say(self, hello: Hello) -> None:
        """Send a hello, with a proof if one is due."""
        self.greeted = True
        if self._must_confirm and self._responder is not None:
            self._must_confirm = False
            confirm = self._responder.confirm(encode_hello(hello))
            self.outgoing.send_now(encode_frame(FrameKind.CONFIRM, confirm))
        else:
            self.outgoing.send_now(encode_frame(FrameKind.HELLO, hello))

    def challenge(self) -> None:
        """Begin an authentication: at first, or anew because the keys have changed."""
        self._initiator = Initiator(self._world.security.keys, self.peer or self.dialled)
        self._challenged_ms = self._world.clock.monotonic_ms()
        self.outgoing.send_now(encode_frame(FrameKind.CHALLENGE, self._initiator.challenge()))

    def set_trusted(self, trusted: bool) -> None:
        """Whether the other side is a member. A stranger's frames must be small."""
        self.trusted = trusted
        self._account.set_reserved(trusted)
        self._reader.accept_up_to(FRAME_BYTES_MAX if trusted else STRANGER_FRAME_BYTES_MAX)

    def establish(self, hello: Hello) -> None:
        """The other side is welcome: from now on everything passes."""
        self.hello = hello
        self.exchange = Exchange(
            hello.identity.node,
            outgoing=self.outgoing,
            account=self._account,
            serve=self._world.on_request,
            tasks=self._world.tasks,
            counters=self._world.counters,
            announce=self._world.announce,
        )
        if not self.welcome.done():
            self.welcome.set_result(None)

    def refuse(self, refused: Refused) -> None:
        """Tell the other side why not, and end."""
        self.outgoing.send_now(encode_frame(FrameKind.REFUSED, refused))
        self.end(refused.reason)

    def end(self, reason: str) -> None:
        """Send what was written, then close; the tick sees to it that this has an end."""
        if self._transport is None or self._reason:
            return
        self.outgoing.flush()
        self._stop(reason)
        self._opened_ms = self._world.clock.monotonic_ms()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once; what is on its way is lost."""
        self._stop(reason)
        self._account.close()  # Also of a connection that was never made.
        if self._transport is not None:
            self._transport.abort()
            # Not left to `connection_lost`: uvloop does not call it for a connection that is
            # aborted while the call that makes it is being cancelled.
            self._gone()

    def moved_bytes(self) -> int | None:
        """For the memory budget: a link has a bound of its own for silence."""
        return None

    def evict(self, reason: str) -> None:
        """For the memory budget: give way to others."""
        self.abort(reason)

    def notify(self, method: str, body: bytes) -> None:
        """Send a notice, if there is room for it."""
        self.outgoing.send_frame(encode_frame(FrameKind.NOTICE, Notice(method, body)))

    def tick(self, now_ms: int, *, overslept: bool) -> None:
        """Look whether anyone is still there. `overslept`: this process was not running itself."""
        settings = self._world.settings
        self._count_waiting()
        if self._heard or overslept:
            self._heard, self._heard_ms = False, now_ms
        if self._reason or self.hello is None:
            if now_ms - self._opened_ms >= settings.connect_timeout_ms:
                self._world.counters.authentications_failed += self.hello is None
                self.abort("did not say hello in time")
            return
        if not self.is_proven and self._lacks_proof(now_ms):
            self._world.counters.authentications_failed += 1
            self.abort("did not prove that it holds the cluster key that is required now")
        elif now_ms - self._heard_ms >= settings.silence_ms_max:
            self.abort(f"nothing was heard for {now_ms - self._heard_ms} ms")
        elif now_ms - max(self._heard_ms, self._pinged_ms) >= settings.ping_ms:
            self._pinged_ms = now_ms
            self.outgoing.send_now(PING_FRAME)

    def prove_anew(self) -> None:
        """Have the other side prove itself by a key that is accepted now, if it has one."""
        if self.is_proven or self.hello is None or self._initiator is not None:
            return
        if self._world.security.keys and self.hello.says(HAS_KEY):
            self.challenge()

    def _lacks_proof(self, now_ms: int) -> bool:
        """A link that works, and is not proven by a key of now: ask again, and see how long."""
        settings = self._world.settings
        if now_ms - self._challenged_ms >= settings.ping_ms:
            self._initiator = None
            self.prove_anew()
        if not self._world.security.required:
            return False
        if self._proof_due_ms is None:
            self._proof_due_ms = now_ms + settings.connect_timeout_ms
        return now_ms >= self._proof_due_ms

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's are streams by duck typing only.
        self._transport = transport
        self._address = _address_of(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.outgoing.open(transport)
        self._world.on_open(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        view = self._reader.space()
        if self._reader.capacity != self._reader_bytes:
            before, self._reader_bytes = self._reader_bytes, self._reader.capacity
            self._account.take(REQUESTS, self._reader_bytes)
            self._account.give_back(REQUESTS, before)
        return view

    def buffer_updated(self, count: int) -> None:
        self._heard = True
        self._world.counters.bytes_received += count
        if self.ended():
            return
        try:
            for frame in self._reader.take(count):
                self._world.counters.frames_received += 1
                self._take(frame)
                if self.ended():
                    return
        except InvalidFrame as error:
            if self.hello is None and not self.dialled:  # Otherwise the owner tells.
                self._world.counters.authentications_failed += 1
                self._world.complain(f"closes the connection of {self._address}: {error}")
            self.abort(str(error))

    def eof_received(self) -> None:
        self._stop("the other side closed it")

    def pause_writing(self) -> None:
        self.outgoing.pause()
        self._count_waiting()

    def resume_writing(self) -> None:
        self.outgoing.resume()
        self._count_waiting()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop((str(error) or repr(error)) if error is not None else "it was closed")
        self._gone()

    # What a frame means.

    def _take(self, frame: Frame) -> None:
        kind = frame.kind
        if self.exchange is None or kind in _AUTHENTICATION:
            self._take_introduction(frame)
        elif kind is FrameKind.MESSAGES:
            self._take_messages(frame)
        elif kind is FrameKind.REQUEST:
            self.exchange.serve(decode_payload(REQUEST_DECODER, frame), is_member=self.trusted)
        elif kind is FrameKind.ANSWER:
            self.exchange.answered(decode_payload(ANSWER_DECODER, frame))
        elif kind is FrameKind.FAILURE:
            self.exchange.failed(decode_payload(FAILURE_DECODER, frame))
        elif kind is FrameKind.WITHDRAWAL:
            self.exchange.withdrawn(decode_payload(WITHDRAWAL_DECODER, frame))
        elif kind is FrameKind.NOTICE:
            self._take_notice(decode_payload(NOTICE_DECODER, frame))
        elif kind is FrameKind.PING:
            self.outgoing.send_now(PONG_FRAME)

    def _take_introduction(self, frame: Frame) -> None:
        """All that a connection may carry before the other side is known."""
        kind = frame.kind
        if kind is FrameKind.HELLO:
            self._take_hello(decode_payload(HELLO_DECODER, frame))
        elif kind is FrameKind.REFUSED:
            self._be_refused(decode_payload(REFUSED_DECODER, frame))
        elif kind is FrameKind.CHALLENGE:
            if self._responder is not None and self.hello is None:
                # Each costs two HMACs and an answer: a node that has the key needs one. A link that
                # works is challenged again when keys change.
                raise InvalidFrame("a second frame CHALLENGE before a hello")
            challenge = decode_payload(CHALLENGE_DECODER, frame)
            world = self._world
            self._responder = Responder(world.security.keys, world.node, challenge)
            self.outgoing.send_now(encode_frame(FrameKind.RESPONSE, self._responder.response()))
        elif kind is FrameKind.RESPONSE:
            self._take_response(decode_payload(RESPONSE_DECODER, frame))
        elif kind is FrameKind.PROOF:
            self._take_proof(frame)
        elif kind is FrameKind.CONFIRM:
            confirm = decode_payload(PROVEN_HELLO_DECODER, frame)
            if self._is_late(self._initiator is None or not self._initiator.has_verified):
                return
            if self._initiator is None:
                raise InvalidFrame("an unexpected frame CONFIRM")
            self._be_proven(self._initiator.confirmed(confirm))
            self._initiator = None
            self._world.on_hello(self, decode_hello(confirm.hello))
        else:
            raise InvalidFrame(f"a frame {kind.name} before a hello")

    def _take_hello(self, hello: Hello) -> None:
        """A hello without a proof: for a link that has one already, or where none is required. A
        link that worked before proofs were required has a while for it (`_lacks_proof`)."""
        if self._world.security.required and not self.proven_by and self.hello is None:
            self._world.counters.authentications_failed += 1
            if self.dialled:
                raise InvalidFrame("a hello without a proof")
            # Who says so is not known: its claims are neither repeated nor remembered.
            self._world.complain(f"refuses {self._address}: {PROOF_WANTED}")
            self.refuse(Refused(PROOF_WANTED, wants_proof=True))
            return
        self._world.on_hello(self, hello)

    def _is_late(self, unexpected: bool) -> bool:
        """An unexpected answer on a link that works is one to a challenge before the latest: the
        other side was slow, which is no reason to lose the link."""
        return unexpected and self.hello is not None

    def _take_response(self, response: Response) -> None:
        initiator = self._initiator
        if self._is_late(initiator is None):
            return
        if initiator is None:
            raise InvalidFrame("an unexpected frame RESPONSE")
        if initiator.verify(response):
            hello = encode_hello(self._world.make_hello(self))
            self.greeted = True
            self.outgoing.send_now(encode_frame(FrameKind.PROOF, initiator.proof(hello)))
            return
        if self.hello is None:
            self._initiator = None
            self._world.counters.authentications_failed += 1
            why = "is another node, or has another cluster key" if response.macs else "has no key"
            self._give_up(f"{self._address} is not proven to be node {self.dialled}: it {why}")

    def _take_proof(self, frame: Frame) -> None:
        proof = decode_payload(PROVEN_HELLO_DECODER, frame)
        if self._responder is None:
            raise InvalidFrame("a frame PROOF without a challenge")
        key = self._responder.verify(proof)
        if not key:
            raise InvalidFrame("a hello that is not proven by the cluster key")
        self._be_proven(key)
        self._must_confirm = True
        self._world.on_hello(self, decode_hello(proof.hello))
        if self._must_confirm and not self.ended():  # It was no first hello.
            self.say(self._world.make_hello(self))

    def _be_proven(self, key: bytes) -> None:
        self.proven_by = key
        self._proof_due_ms = None

    def _give_up(self, reason: str) -> None:
        if not self.welcome.done():
            self.welcome.set_result(Refused(reason))
        self.abort(reason)

    def _take_messages(self, frame: Frame) -> None:
        world = self._world
        if not self.trusted:
            # Not even decoded: what a stranger says about shards is none of ours.
            world.counters.messages_foreign += 1
            return
        peer, node, receive = self.peer, world.node, world.on_message
        parcels = decode_payload(MESSAGES_DECODER, frame)
        world.counters.messages_received += len(parcels)
        for shard, message in parcels:
            if message.source == peer and message.target == node:
                check_message(message)
                receive(shard, message)
            else:
                world.counters.messages_foreign += 1

    def _take_notice(self, notice: Notice) -> None:
        if not self.trusted:
            self._world.counters.messages_foreign += 1
            return
        try:
            self._world.on_notice(self.peer, notice.method, notice.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidFrame(f"a notice {notice.method} that cannot be read: {error}") from None

    def _be_refused(self, refused: Refused) -> None:
        if not self.welcome.done():
            self.welcome.set_result(
                Refused(
                    f"{self._address} refused: {refused.reason}",
                    refused.passing,
                    refused.wants_proof,
                )
            )
        self.abort(f"refused: {refused.reason}")

    def _count_waiting(self) -> None:
        """What waits to leave, as often as is worth it; between two counts it has its bound."""
        before, self._waiting_bytes = self._waiting_bytes, self.outgoing.waiting_bytes
        self._account.take(ANSWERS, self._waiting_bytes)
        self._account.give_back(ANSWERS, before)

    def _gone(self) -> None:
        self._account.close()
        if self._transport is not None:
            self._transport = None
            self._world.on_closed(self)

    def _stop(self, reason: str) -> None:
        """Nothing passes from now on, in either direction; the first reason is the one."""
        if self._reason:
            return
        self._reason = reason
        self.trusted = False
        if self.exchange is not None:
            self.exchange.close(reason)
        if not self.welcome.done():
            self.welcome.set_result(Refused(reason))
        self.outgoing.close()
        self._world.on_end(self, reason)


def _address_of(transport: asyncio.Transport) -> str:
    name = transport.get_extra_info("peername")
    if isinstance(name, tuple) and len(name) >= 2:
        host = f"[{name[0]}]" if ":" in str(name[0]) else str(name[0])
        return f"{host}:{name[1]}"
    return "an unknown address"
