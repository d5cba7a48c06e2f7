"""All the links of a node: one framed, checksummed TCP stream with each other node.

Everything that nodes say to each other travels over these: the messages of all shards, requests
that reached the wrong node, and notices. The bytes are defined in `frames`, one connection in
`link`; this module decides which nodes are linked.

**One stream for each pair.** The node with the higher id dials. The other one gives it a head start
and then dials as well, so that a pair meets as long as one of them can reach the other: one may
have moved to another address, or stand behind a wall that opens to one side only. A node that
belongs to no cluster yet has no time to lose and dials all of them. A node that has a link does not
dial, so a hello says "I have no link with you", and that settles what happens when connections
meet:

- while both are dialling, the higher id's connection is kept: the higher refuses, the lower accepts
  and gives up its own, on which nothing but a hello was sent;
- a hello that was sent before the link there is was made is out of date and refused. Dials are
  numbered, and every hello, also that of the side that was dialled, carries the sender's number;
- any other hello replaces the link there is: the sender restarted or knows that the link is dead.

So a link that works at both ends is never replaced, and no frame is lost by two dials at once.

**Admission.** Only nodes that hold the cluster key are admitted: connections begin with an
authentication (`handshake`), and one that has not succeeded within two seconds is closed. Only in a
cluster of release 0.1 that has no key yet is a bare hello enough. Two nodes of different clusters
refuse each other, and so do nodes of one id. A node with the key that is not a member is let in as
a stranger, because a joining node must be able to ask: it may make the calls that are open to
strangers, and nothing else that it says counts. The owner says who is a member; a stranger cannot
replace the link of a member whose id it claims. When a node becomes part of a cluster, or its keys
change, it says hello again on the links it has, and nothing that is under way on them suffers.

**Dialling.** One task for each node of `set_peers` dials until there is a link, waits until it is
lost, and dials again, with growing and varied pauses. A problem is announced when it is new.

Long because who may talk to whom is decided here and nowhere else.
"""

import asyncio
import contextlib
import ipaddress
import random as randomness
import socket
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import InvalidRequest, Unavailable
from penstock.core.limits import (
    PEER_CONNECTIONS_MAX,
    PEER_UNPROVEN_CONNECTIONS_MAX,
    PEER_UNPROVEN_CONNECTIONS_PER_HOST_MAX,
    REQUEST_BODY_BYTES_MAX,
)
from penstock.core.memory_budget import MemoryBudget
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.engine.peers.cluster_key import ClusterKeys
from penstock.engine.peers.exchange import Serve
from penstock.engine.peers.frames import (
    FORMAT_NEWEST,
    FORMAT_OLDEST,
    HAS_KEY,
    KNOWS_KEYS,
    NAME_CHARACTERS_MAX,
    QUEUES_2,
    REQUIRES_KEY,
    Hello,
    LinkIdentity,
    Refused,
)
from penstock.engine.peers.link import Link, LinkSecurity, LinkSettings, LinkSurroundings
from penstock.engine.peers.send_queue import LinkCounters
from penstock.engine.replica.network import Network, PeerMessage
from penstock.raft.settings import Random

_LIVES = 1 << 62


class LinkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the start, of all links together, and what waits now."""

    frames_sent: int
    frames_received: int
    bytes_sent: int
    bytes_received: int
    messages_sent: int
    messages_received: int
    messages_dropped: int
    """There was no link, or too much was waiting to leave."""
    messages_foreign: int
    """Received and thrown away: from a stranger, or not meant for this node."""
    requests_sent: int
    requests_served: int
    requests_refused: int
    links_made: int
    links_lost: int
    authentications_failed: int
    """Connections that did not prove in time, or not at all, that they hold the cluster key."""
    connections_refused: int
    """For there were too many, or for what their hello said."""
    connected: int
    waiting_bytes: int


class _Peer:
    """A node that there should be a link with, and the task that sees to it."""

    def __init__(self, node: NodeId, address: str, *, is_listed: bool) -> None:
        self.node = node
        self.address = address
        self.is_listed = is_listed
        """The address comes from this process's settings, not from a request."""
        self.wake = asyncio.Event()
        self.problem = ""
        self.wants_proof = False
        """It has refused a bare hello."""
        self.task: asyncio.Task[None] | None = None


class _ShardNetwork:
    """The way of one shard's messages to its other replicas."""

    __slots__ = ("_counters", "_links", "_node", "_shard")

    def __init__(
        self,
        shard: ShardId,
        *,
        node: NodeId,
        links: Mapping[NodeId, Link],
        counters: LinkCounters,
    ) -> None:
        self._shard = shard
        self._node = node
        self._links = links
        self._counters = counters

    def send(self, message: PeerMessage) -> None:
        link = self._links.get(message.target)
        if link is not None and link.trusted:
            link.outgoing.send_message(self._shard, message)
            return
        assert message.target != self._node, f"a message to oneself: {message.describe()}"
        self._counters.messages_dropped += 1


class Links:
    """The links of one node. Make it on a running loop; `start` listens, `set_peers` dials."""

    def __init__(
        self,
        identity: LinkIdentity,
        *,
        on_message: Callable[[ShardId, PeerMessage], None],
        on_request: Serve,
        on_notice: Callable[[NodeId, str, bytes], None],
        on_change: Callable[[NodeId, bool], None],
        announce: Callable[[str], None],
        complain: Callable[[str], None] | None = None,
        is_member: Callable[[LinkIdentity], bool] = lambda _identity: True,
        security: LinkSecurity | None = None,
        memory: MemoryBudget | None = None,
        dialled_networks: Iterable[str] = (),
        settings: LinkSettings | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._identity = _checked(identity)
        self._settings = settings = settings or LinkSettings()
        self._clock = clock or SystemClock()
        self._random = random or randomness.SystemRandom()
        self._on_change = on_change
        self._announce = announce
        self._complain = complain or announce
        self._is_member = is_member
        self._dialled_networks = [ipaddress.ip_network(one) for one in dialled_networks]
        self._security = security = security or LinkSecurity()
        self._counters = LinkCounters()
        self._tasks: set[asyncio.Task[bytes]] = set()
        self._world = LinkSurroundings(
            node=identity.node,
            settings=settings,
            security=security,
            memory=memory or MemoryBudget(),
            clock=self._clock,
            counters=self._counters,
            tasks=self._tasks,
            announce=announce,
            complain=self._complain,
            make_hello=self._hello,
            on_message=on_message,
            on_request=on_request,
            on_notice=on_notice,
            on_open=self._opened,
            on_hello=self._greeted,
            on_end=self._ended,
            on_closed=self._closed_down,
        )
        self._life = self._random.randrange(_LIVES)
        self._attempts = 0
        self._diallers: set[asyncio.Task[None]] = set()
        self._peers: dict[NodeId, _Peer] = {}
        self._links: dict[NodeId, Link] = {}
        """The links that work, by node."""
        self._connections: dict[Link, None] = {}
        """The connections that are open, the oldest first."""
        self._refusals: dict[NodeId, str] = {}
        self._server: asyncio.Server | None = None
        self._closed = False
        self._idle = asyncio.Event()
        """Set while there is no connection."""
        self._idle.set()
        self._ticked_ms = self._clock.monotonic_ms()
        self._timer = self._loop.call_later(settings.tick_ms / 1000, self._tick)

    # For every part of the node.

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address that others can dial, with the port that was found for port 0."""
        assert self._server is None, "started twice"
        try:
            self._server = await self._loop.create_server(lambda: Link(self._world), host, port)
        except OSError as error:
            raise InvalidRequest(
                f"cannot listen for other nodes at {host}:{port}: {error.strerror or error}"
            ) from error
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    def set_identity(self, identity: LinkIdentity) -> None:
        """This node has become part of a cluster: say so on every link there is."""
        assert identity.node == self._identity.node, (
            f"node {self._identity.node} cannot become node {identity.node}"
        )
        self._identity = _checked(identity)
        for link in list(self._connections):
            if link.hello is not None:
                refused = self._objection(link.hello)
                if refused is not None:
                    self._refuse(link, link.hello.identity.node, refused)
                    continue
                link.set_trusted(self._trusts(link.hello))
            if link.greeted:
                link.say(self._hello(link))
        for peer in self._peers.values():
            peer.wake.set()

    @property
    def security(self) -> LinkSecurity:
        """By what other nodes must prove themselves."""
        return self._security

    def set_keys(self, keys: ClusterKeys, *, required: bool) -> None:
        """Accept these keys from now on. Links that were proven by none of them are proven anew,
        or closed."""
        self._security.keys, self._security.required = keys, required
        for link in list(self._connections):
            if link.greeted and not link.ended():
                link.say(self._hello(link))
            link.prove_anew()
        for peer in self._peers.values():
            peer.wake.set()

    def review_members(self) -> None:
        """Ask the owner again who is a member."""
        for link in self._links.values():
            if link.hello is not None:
                trusted = self._trusts(link.hello)
                if trusted != link.trusted:
                    link.set_trusted(trusted)

    def set_peers(
        self, addresses: Mapping[NodeId, str], *, listed: Collection[str] | None = None
    ) -> None:
        """Have links with these nodes, by `host:port`; those no longer named are closed. Addresses
        that are not `listed` came by a request, and are dialled within bounds only.

        A node that came by itself and was never named keeps its link. Every node that has no link
        is dialled now, whatever pause its last failure has earned. An address that is none is that
        node's problem and no other's."""
        if self._closed:
            return
        wanted = {
            node: _Peer(node, address, is_listed=listed is None or address in listed)
            for node, address in addresses.items()
            if node != self._identity.node
        }
        for node, peer in list(self._peers.items()):
            other = wanted.get(node)
            if other is not None and other.address == peer.address:
                peer.wake.set()
                continue
            self._forget(peer)
            why = "it is no longer a peer" if other is None else "its address has changed"
            for link in list(self._connections):
                if link.dialled == node or (other is None and link.peer == node):
                    link.abort(why)
        for node, peer in wanted.items():
            if node not in self._peers:
                self._peers[node] = peer
                peer.task = self._loop.create_task(self._keep_linked(peer))
                self._diallers.add(peer.task)
                peer.task.add_done_callback(self._dialler_ended)

    def network(self, shard: ShardId) -> Network:
        """Where a replica of this shard sends its messages."""
        return _ShardNetwork(
            shard, node=self._identity.node, links=self._links, counters=self._counters
        )

    async def ask(
        self,
        node: NodeId,
        method: str,
        body: bytes,
        *,
        timeout: float,  # It travels with the request.
    ) -> bytes:
        """Let another node do something, within `timeout` seconds.

        `Unavailable`: nothing has happened. `OutcomeUnknown`: it was sent, and the link was lost or
        the time is up. Any other `PenstockError` is the other node's own."""
        assert node != self._identity.node, f"{method} asked of oneself"
        link = self._links.get(node)
        if link is None or link.exchange is None:
            peer = self._peers.get(node)
            why = f": {peer.problem}" if peer is not None and peer.problem else ""
            raise Unavailable(f"node {node} is not connected{why}")
        return await link.exchange.ask(method, body, timeout=timeout)

    def notify(self, node: NodeId, method: str, body: bytes) -> None:
        """Tell another node something, if it is connected and nothing is in the way."""
        assert len(method) <= NAME_CHARACTERS_MAX, f"{method}: too long for a name"
        assert len(body) <= REQUEST_BODY_BYTES_MAX, f"{method}: {len(body)} bytes are no notice"
        link = self._links.get(node)
        if link is not None:
            link.notify(method, body)

    def connected(self) -> frozenset[NodeId]:
        """The nodes there is a link with, strangers as well."""
        return frozenset(self._links)

    def members(self) -> frozenset[NodeId]:
        """The members of the cluster there is a link with."""
        return frozenset(node for node, link in self._links.items() if link.trusted)

    def proven(self) -> frozenset[NodeId]:
        """The members that have proven to hold a key that is accepted now."""
        return frozenset(node for node in self.members() if self._links[node].is_proven)

    def members_saying(self, capability: str, *, proven: bool = False) -> frozenset[NodeId]:
        """The members, or only those that are proven, whose hello names a capability."""
        return frozenset(
            node
            for node in (self.proven() if proven else self.members())
            if (hello := self._links[node].hello) is not None and hello.says(capability)
        )

    def identity_of(self, node: NodeId) -> LinkIdentity | None:
        """What a connected node says about itself."""
        link = self._links.get(node)
        return link.identity if link is not None else None

    def statistics(self) -> LinkStatistics:
        """The counts so far."""
        return LinkStatistics(
            **msgspec.structs.asdict(self._counters),
            connected=len(self._links),
            waiting_bytes=sum(link.outgoing.waiting_bytes for link in self._connections),
        )

    async def close(self) -> None:
        """End all links, after what was sent has left, and everything that hangs on them."""
        self._closed = True
        for peer in list(self._peers.values()):
            self._forget(peer)
        if self._server is not None:
            self._server.close()
        for link in list(self._connections):
            link.end("this node is shutting down")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.close_timeout_ms / 1000):
                await self._idle.wait()
        for link in list(self._connections):
            link.abort("this node is shutting down")
        self._timer.cancel()
        await asyncio.sleep(0)  # In this turn the loop closes what was aborted.
        await asyncio.gather(*self._diallers, *self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    # Dialling.

    async def _keep_linked(self, peer: _Peer) -> None:
        """Dial whenever there is no link. Ended by cancelling."""
        settings = self._settings
        pause_ms = 0 if self._dials(peer.node) else settings.head_start_ms
        growing_ms = settings.retry_ms_min
        while True:
            await self._pause(peer, pause_ms)
            if peer.node not in self._links:
                refused = await self._dial(peer)
                peer.wants_proof = refused is not None and refused.wants_proof
                if refused is not None and not refused.passing and peer.node not in self._links:
                    self._note_problem(peer, refused.reason)
            if (link := self._links.get(peer.node)) is not None:
                peer.problem = ""
                made_ms = self._clock.monotonic_ms()
                while self._links.get(peer.node) is link:
                    peer.wake.clear()
                    await peer.wake.wait()
                if self._clock.monotonic_ms() - made_ms >= settings.retry_ms_max:
                    growing_ms = settings.retry_ms_min
            pause_ms = growing_ms // 2 + self._random.randrange(growing_ms)
            growing_ms = min(2 * growing_ms, settings.retry_ms_max)
            if not self._dials(peer.node):
                pause_ms = max(pause_ms, settings.head_start_ms)

    async def _pause(self, peer: _Peer, pause_ms: int) -> None:
        """Let time pass, or less of it when something has changed."""
        if pause_ms == 0:
            return
        peer.wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_ms / 1000):
                await peer.wake.wait()

    def _dials(self, node: NodeId) -> bool:
        """Whether this node dials first."""
        return node < self._identity.node or not self._identity.cluster_id

    async def _dial(self, peer: _Peer) -> Refused | None:
        """Try once to have a link; None if that worked, or if there is one from elsewhere."""
        link: Link | None = None
        proves = self._security.required or (peer.wants_proof and bool(self._security.keys))

        def make() -> Link:
            nonlocal link
            link = Link(self._world, dialled=peer.node, proves=proves)
            return link

        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1000):
                for index, (host, port) in enumerate(places := await self._places_of(peer), 1):
                    try:
                        await self._loop.create_connection(make, host, port)
                        break
                    except OSError:
                        if index == len(places):
                            raise
                assert link is not None, "connected without a protocol"
                return await asyncio.shield(link.welcome)
        except InvalidRequest as error:
            return Refused(str(error))
        except TimeoutError:
            return Refused(f"{peer.address} does not answer")
        except (OSError, UnicodeError) as error:  # UnicodeError: no name of any host.
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            return Refused(f"{peer.address} cannot be reached: {why}")
        finally:
            if link is not None and link.hello is None:
                link.abort("did not say hello in time")

    async def _places_of(self, peer: _Peer) -> list[tuple[str, int]]:
        """Where to dial. An address that came by a request must not make this node a tool for
        looking at networks that the sender cannot reach."""
        host, port = parse_address(peer.address)
        if peer.is_listed:
            return [(host, port)]
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        places = [(str(address[0]), port) for *_, address in found]
        allowed = [place for place in places if may_be_dialled(place[0], self._dialled_networks)]
        if not allowed:
            raise InvalidRequest(
                f"{peer.address} is in no private network; name the node in --cluster, or its"
                " network in --peer-networks"
            )
        return allowed

    def _note_problem(self, peer: _Peer, problem: str) -> None:
        if not peer.is_listed and "--peer-networks" not in problem:
            # The answer to a request must not show what listens at an address.
            problem = (
                f"{peer.address} cannot be reached, or is not that node; its own log says more"
            )
        if problem != peer.problem:
            peer.problem = problem
            self._announce(f"no link with node {peer.node} yet: {problem}")

    def _forget(self, peer: _Peer) -> None:
        del self._peers[peer.node]
        if peer.task is not None:
            peer.task.cancel()

    def _dialler_ended(self, task: asyncio.Task[None]) -> None:
        self._diallers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._announce(f"no longer dials a node, by a mistake of its own: {error!r}")

    # Connections.

    def _opened(self, link: Link) -> None:
        self._connections[link] = None
        self._idle.clear()
        if link.dialled:
            if self._closed:
                link.abort("this node is shutting down")
            elif link.dialled in self._links:
                link.abort("there is a link already")
            else:
                self._attempts += 1
                link.attempt = self._attempts
                if link.proves:
                    link.challenge()
                else:
                    link.say(self._hello(link))
        elif self._closed:
            self._refuse_connection(link, "this node is shutting down")
        else:
            self._make_room_for(link)

    def _make_room_for(self, link: Link) -> None:
        """Strangers may not take all the places, and one host not all of the strangers'. Beyond
        the bound the oldest of them is closed: a node says who it is at once, and one that cannot
        get in because others say nothing is shut out for as long as they like."""
        if len(self._connections) > PEER_CONNECTIONS_MAX:
            self._refuse_connection(link, "there are too many connections")
            return
        unproven = [one for one in self._connections if one.hello is None and not one.dialled]
        of_host = [one for one in unproven if one.host == link.host]
        if len(of_host) > PEER_UNPROVEN_CONNECTIONS_PER_HOST_MAX:
            self._refuse_connection(of_host[0], "too many of its host have not said who they are")
        elif len(unproven) > PEER_UNPROVEN_CONNECTIONS_MAX:
            self._refuse_connection(unproven[0], "too many have not said who they are")

    def _refuse_connection(self, link: Link, reason: str) -> None:
        self._counters.connections_refused += 1
        if not self._closed:
            self._complain(f"closes the connection of {link.address}: {reason}")
        link.abort(reason)

    def _greeted(self, link: Link, hello: Hello) -> None:
        """A hello: the first of a connection, or a newer one."""
        node = hello.identity.node
        refused = self._objection(hello)
        if refused is None and link.hello is not None:
            if node != link.peer or hello.life != link.hello.life:
                refused = Refused(f"node {link.peer} cannot become node {node} on a link")
        elif refused is None:
            refused = self._collision(link, hello)
        if refused is not None:
            self._refuse(link, node, refused)
            return
        if link.hello is None:
            self._welcome(link, hello)
        else:
            link.hello = hello
        link.set_trusted(self._trusts(hello))
        link.prove_anew()

    def _objection(self, hello: Hello) -> Refused | None:
        """Why these two nodes cannot talk at all."""
        mine, other = self._identity, hello.identity
        if hello.format_oldest > FORMAT_NEWEST or hello.format_newest < FORMAT_OLDEST:
            return Refused(
                f"node {other.node} (version {other.version}) speaks formats"
                f" {hello.format_oldest} to {hello.format_newest} and node {mine.node} (version"
                f" {mine.version}) {FORMAT_OLDEST} to {FORMAT_NEWEST}; upgrade the older one"
            )
        if other.node <= NO_NODE:
            return Refused(f"{other.node} is no node's id; they start at 1")
        if other.node == mine.node:
            return Refused(
                f"two nodes have the id {mine.node}; give each node an id of its own, or correct"
                " the address"
            )
        if mine.cluster_id and other.cluster_id and mine.cluster_id != other.cluster_id:
            return Refused(
                f"node {other.node} belongs to the cluster {other.cluster_id} and node {mine.node}"
                f" to {mine.cluster_id}; correct the addresses"
            )
        if hello.target != mine.node:
            return Refused(
                f"this is node {mine.node} and not node {hello.target}; correct the address"
            )
        return None

    def _collision(self, link: Link, hello: Hello) -> Refused | None:
        """Why this connection cannot become the link of the pair; see the top."""
        node, me = hello.identity.node, self._identity.node
        if link.dialled:
            if node != link.dialled:
                return Refused(f"node {node} has answered for node {link.dialled}")
            return None
        there = self._links.get(node)
        if there is not None and there.trusted and not self._trusts(hello):
            return Refused(f"node {node} is a member and linked: this is another process")
        if there is not None and there.hello is not None and there.hello.life == hello.life:
            if hello.attempt <= there.hello.attempt:
                return Refused(f"node {me} has a newer link with node {node}", passing=True)
        if there is None and me > node and self._pending(node):
            return Refused(f"node {me} is dialling node {node} itself", passing=True)
        return None

    def _pending(self, node: NodeId) -> list[Link]:
        """Connections to this node on which our hello has no answer yet."""
        return [
            link for link in self._connections if link.dialled == node and not link.welcome.done()
        ]

    def _welcome(self, link: Link, hello: Hello) -> None:
        """Make this connection the link of the pair."""
        node = hello.identity.node
        there = self._links.get(node)
        if there is not None:
            there.abort("a newer connection has taken its place")
        for pending in self._pending(node):
            if pending is not link:
                pending.abort("the other side was faster")
        link.establish(hello)
        link.set_trusted(self._trusts(hello))
        if not link.dialled:
            link.say(self._hello(link))
        self._links[node] = link
        self._refusals.pop(node, None)
        self._counters.links_made += 1
        self._announce(f"linked with {link.describe()}, version {hello.identity.version}")
        self._change(node, connected=True)

    def _refuse(self, link: Link, node: NodeId, refused: Refused) -> None:
        new = self._refusals.get(node) != refused.reason
        self._counters.connections_refused += not refused.passing
        # The loss of a link, and a dial in vain, are announced elsewhere.
        if new and not refused.passing and link.hello is None and not link.dialled:
            if len(self._refusals) >= PEER_CONNECTIONS_MAX:
                self._refusals.clear()
            self._refusals[node] = refused.reason
            self._complain(f"refuses {link.address}: {refused.reason}")
        link.refuse(refused)

    def _ended(self, link: Link, reason: str) -> None:
        if self._links.get(link.peer) is not link:
            return
        del self._links[link.peer]
        self._counters.links_lost += 1
        if not self._closed:
            self._announce(f"lost the link with {link.describe()}: {reason}")
        self._change(link.peer, connected=False)

    def _closed_down(self, link: Link) -> None:
        self._connections.pop(link, None)
        if not self._connections:
            self._idle.set()

    def _change(self, node: NodeId, *, connected: bool) -> None:
        peer = self._peers.get(node)
        if peer is not None:
            peer.wake.set()
        if not self._closed:
            self._on_change(node, connected)

    def _trusts(self, hello: Hello) -> bool:
        mine = self._identity.cluster_id
        same = mine != "" and mine == hello.identity.cluster_id
        return same and self._is_member(hello.identity)

    def _hello(self, link: Link) -> Hello:
        security = self._security
        first = link.dialled and link.hello is None
        return Hello(
            FORMAT_OLDEST,
            FORMAT_NEWEST,
            self._identity,
            link.dialled or link.peer,
            self._life,
            link.attempt if first else self._attempts,
            (
                KNOWS_KEYS,
                QUEUES_2,
                *((HAS_KEY,) if security.keys else ()),
                *((REQUIRES_KEY,) if security.required else ()),
            ),
        )

    def _tick(self) -> None:
        settings = self._settings
        self._timer = self._loop.call_later(settings.tick_ms / 1000, self._tick)
        now_ms = self._clock.monotonic_ms()
        # After a pause of this whole process silence means nothing.
        overslept = now_ms - self._ticked_ms >= settings.ping_ms + settings.tick_ms
        self._ticked_ms = now_ms
        for link in list(self._connections):
            link.tick(now_ms, overslept=overslept)


def parse_address(address: str) -> tuple[str, int]:
    """`host:port` or `[host]:port` in its parts; refuses anything else."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidRequest(f"{address!r} is no address of a node; write host:port")
    return host, int(port)


def may_be_dialled(
    host: str, networks: Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]
) -> bool:
    """Whether an address that is not listed may be dialled: this machine, private
    networks, and those that are named. Link-local addresses are no nodes: clouds keep secrets
    there."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(address.version == one.version and address in one for one in networks):
        return True
    return address.is_private and not address.is_link_local and not address.is_unspecified


def _checked(identity: LinkIdentity) -> LinkIdentity:
    assert identity.node > NO_NODE, f"node ids start at 1, not {identity.node}"
    for text in (identity.cluster_id, identity.incarnation, identity.version):
        assert len(text) <= NAME_CHARACTERS_MAX, f"too long for an identity: {text}"
    return identity
