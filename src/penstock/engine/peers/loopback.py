"""A network inside one process: messages are handed over on the next turn of the loop.

For embedded clusters, demonstrations and benchmarks. It can be cut, so that a demonstration can
show what a partition does; it neither delays nor loses anything otherwise.
"""

from collections.abc import Callable

from penstock.core.types import NodeId
from penstock.engine.replica.network import PeerMessage


class LoopbackNetwork:
    """Joins the replicas of one shard that live in one process."""

    def __init__(self, soon: Callable[..., object]) -> None:
        self._soon = soon
        self._receivers: dict[NodeId, Callable[[PeerMessage], None]] = {}
        self._cut: frozenset[NodeId] = frozenset()

    def attach(self, node: NodeId, receive: Callable[[PeerMessage], None]) -> None:
        """Let messages for `node` arrive at `receive`."""
        self._receivers[node] = receive

    def detach(self, node: NodeId) -> None:
        """Drop what is sent to `node` from now on."""
        self._receivers.pop(node, None)

    def isolate(self, *nodes: NodeId) -> None:
        """Cut these nodes off from the others, and from each other; no nodes heals all."""
        self._cut = frozenset(nodes)

    def send(self, message: PeerMessage) -> None:
        if message.source in self._cut or message.target in self._cut:
            return
        self._soon(self._arrive, message)

    def _arrive(self, message: PeerMessage) -> None:
        receive = self._receivers.get(message.target)
        if receive is not None:
            receive(message)
