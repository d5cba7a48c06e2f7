"""Remote procedure calls between nodes, typed at both ends.

A `RemoteCall` is one row of the table in `engine.cluster.call_table`: the name that travels, the
type of the request, the type of the reply, and how long the caller waits. Each row is declared
beside the types that it carries. A node serves a row with a local function, and calls it in one of
four ways:

    ask_node      one node
    ask_leader    the node that leads a shard
    ask_each      several nodes, a request for each
    ask_all       this node and every node that is connected, the same request for all

A request to this node itself goes to the local function and is not encoded. `ask_each` and
`ask_all` return failures of other nodes as values, because a survey of the cluster shows what can
be reached; a failure of this node is raised, because it is no matter of reach.

**On the wire.** `None` travels as an empty body, `bytes` as they are, `str` as UTF-8, and all other
types as MessagePack. An error travels as its class and message (`remote_errors`). During a rolling
upgrade old and new nodes call each other, so a name, once released, keeps its types: structs gain
fields at their end, with defaults, and anything else takes a new name. A node that does not know a
name refuses it with `InvalidRequest`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Any, Generic, TypeVar, cast

import msgspec

from penstock.core.decoders import decode_msgpack
from penstock.core.errors import InvalidRequest, NotLeader, PenstockError, Unavailable
from penstock.core.limits import CALL_SECONDS
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.engine.peers.exchange import Caller
from penstock.engine.peers.leaders import Leader
from penstock.engine.peers.links import Links

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All that decoding bytes of another node may raise."""

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteCall(Generic[Q, R]):
    """One row of the table: what one node may ask of another."""

    name: str
    request: type[Q]
    reply: type[R]
    seconds: float = CALL_SECONDS
    """How long the caller waits. It travels with the request, so the server gives up as well."""
    is_open: bool = False
    """Strangers may make the call: nodes that hold the cluster key and are no members (yet)."""
    is_reply_kept: bool = False
    """The same immutable object is returned to many callers: keep its encoding until it changes."""

    def replying(self, kind: type[T]) -> "RemoteCall[Q, T]":
        """The same call with a narrower reply, where the type of the reply follows from the
        request and the row cannot say more than `object`."""
        return replace(cast("RemoteCall[Q, T]", self), reply=kind)


@dataclass(frozen=True, slots=True)
class Answers(Generic[R]):
    """The outcome of a call to several nodes."""

    replies: dict[NodeId, R] = field(default_factory=dict)
    failures: dict[NodeId, PenstockError] = field(default_factory=dict)
    """Nodes that refused, or could not be reached in time."""


@dataclass(slots=True)
class _Served:
    call: RemoteCall[Any, Any]
    function: Callable[..., Awaitable[Any]]
    draws: bool
    """The function is also passed the memory account of the caller's link."""
    kept_reply: object = None
    kept_body: bytes = b""


class RemoteCalls:
    """The calls of one node: those it serves, and those it makes."""

    def __init__(self, node: NodeId, links: Links, leader_of: Callable[[ShardId], Leader]) -> None:
        self._node = node
        self._links = links
        self._leader_of = leader_of
        self._served: dict[str, _Served] = {}

    # Serving.

    def serve(
        self,
        call: RemoteCall[Q, R],
        function: Callable[[Q], Awaitable[R]],
        *,
        draws: bool = False,
    ) -> None:
        """Let other nodes, and this one, call a local function by the row's name. One that `draws`
        takes the memory account of the caller's link as well, if there is one."""
        assert call.name not in self._served, f"{call.name} is served twice"
        self._served[call.name] = _Served(call, function, draws)

    def served(self) -> tuple[RemoteCall[Any, Any], ...]:
        """The rows that this node serves."""
        return tuple(one.call for one in self._served.values())

    async def answer(self, caller: Caller, name: str, body: bytes) -> bytes:
        """Serve a request of another node; `Links` sends what is returned or raised."""
        source = caller.node
        served = self._served.get(name)
        if not caller.is_member and (served is None or not served.call.is_open):
            # Retriable: a node that has just been added may know it before this one does.
            raise Unavailable(
                f"node {self._node} does not know node {source} as a member of the cluster, and"
                f" only members may call {name}; see `penstock cluster members`"
            )
        if served is None:
            raise InvalidRequest(f"node {source} calls {name}, which is not known here")
        call = served.call
        request = decode_body(body, call.request, f"node {source} sent a request {name}")
        more = (caller.account,) if served.draws else ()
        reply = await served.function(request, *more)
        if not call.is_reply_kept:
            return encode_body(reply, call.reply)
        if reply is not served.kept_reply:
            served.kept_reply, served.kept_body = reply, encode_body(reply, call.reply)
        return served.kept_body

    # Calling.

    async def ask_node(
        self, node: NodeId, call: RemoteCall[Q, R], request: Q, *, seconds: float | None = None
    ) -> R:
        """Call a function of a node, which may be this one. Raises what the function raises, and
        what `Links.ask` does."""
        if node == self._node:
            reply: R = await self._served[call.name].function(request)
            return reply
        if not call.is_open and node in self._links.connected() - self._links.members():
            raise Unavailable(f"what is connected as node {node} is no member of the cluster")
        timeout = call.seconds if seconds is None else seconds
        sent = encode_body(request, call.request)
        body = await self._links.ask(node, call.name, sent, timeout=timeout)
        return decode_body(body, call.reply, f"node {node} sent a reply to {call.name}")

    async def ask_leader(
        self, shard: ShardId, call: RemoteCall[Q, R], request: Q, *, seconds: float | None = None
    ) -> R:
        """Call a function of the node that leads a shard. `NotLeader` if there is none that can be
        reached: nothing has happened then."""
        leader = self._leader_of(shard).node
        if leader == NO_NODE or (leader != self._node and leader not in self._links.members()):
            raise NotLeader(f"shard {shard} has no leader that can be reached", leader=leader)
        return await self.ask_node(leader, call, request, seconds=seconds)

    async def ask_each(self, call: RemoteCall[Q, R], requests: Mapping[NodeId, Q]) -> Answers[R]:
        """Call a function of several nodes at once, each with its own request."""

        async def ask(node: NodeId, request: Q) -> R | PenstockError:
            try:
                return await self.ask_node(node, call, request)
            except PenstockError as error:
                if node == self._node:
                    raise
                return error

        outcomes = await asyncio.gather(*(ask(*one) for one in requests.items()))
        answers: Answers[R] = Answers()
        for node, outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, PenstockError):
                answers.failures[node] = outcome
            else:
                answers.replies[node] = outcome
        return answers

    async def ask_all(self, call: RemoteCall[Q, R], request: Q) -> Answers[R]:
        """Call a function of this node and of every other that is connected."""
        nodes = (self._node, *sorted(self._links.members()))
        return await self.ask_each(call, dict.fromkeys(nodes, request))


def encode_body(value: Any, kind: type) -> bytes:
    """A request or reply as it travels; see the top of this module."""
    if kind is NoneType:
        return b""
    if kind is bytes:
        return cast("bytes", value)
    return cast("str", value).encode() if kind is str else msgspec.msgpack.encode(value)


def decode_body(body: bytes, kind: type[T], what: str) -> T:
    """A request or reply that has arrived; `what` begins the sentence that says it has not."""
    try:
        if kind is NoneType:  # A later version may say something here.
            return cast("T", None)
        if kind is bytes:
            return cast("T", body)
        return cast("T", body.decode()) if kind is str else decode_msgpack(body, kind)
    except UNREADABLE as error:
        raise InvalidRequest(f"{what} that cannot be decoded: {error}") from error
