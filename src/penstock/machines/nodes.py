"""The catalog's table of nodes: who belongs to the cluster, and which shards each should hold.

A node's id is used once. It stands for promises: votes that were cast and messages that were
acknowledged as stored. The disk they are on has an incarnation, drawn when its data directory was
made, and the first incarnation that registers under an id keeps it; a node with another disk would
break promises that it knows nothing of. An id that was removed is remembered for ever.

The number of data shards is fixed when the cluster is founded: where a partition lives follows from
it. Every data shard has a place at any time: at least one node of the cluster, each one once. So
the last node cannot be removed, and none that is still needed. A node that is to go is first marked
as leaving, which it stays until it is removed, however often it starts again.

Methods that begin with `check` refuse; the others do what has been checked.
"""

import re
from collections.abc import Collection, Mapping

import msgspec

from penstock.core.errors import (
    CatalogFull,
    InvalidRequest,
    MembershipRefused,
    NodeExists,
    Unavailable,
    UnknownNode,
)
from penstock.core.limits import (
    NODE_TEXT_CHARACTERS_MAX,
    NODES_EVER_MAX,
    NODES_MAX,
    SHARDS_MAX,
)
from penstock.core.types import NodeId, ShardId
from penstock.machines.catalog_commands import AddNode, FoundCluster, RegisterNode

_NODE_IDS = 1 << 31
_PORTS = 1 << 16
_PORT = re.compile(r"[0-9]{1,5}")
_SHOWN_CHARACTERS_MAX = 60

Placement = tuple[NodeId, ...]
"""Who should hold a shard, the node that should lead it first."""


class NodeRecord(msgspec.Struct, frozen=True):
    """A node and where it is reached, as "host:port"."""

    node: NodeId
    peer: str
    kafka: str = ""
    """Empty until the node has registered, or if it does not serve this; `http` likewise."""
    http: str = ""
    incarnation: str = ""
    """Of the data directory that the id belongs to; empty until the node has registered."""
    rack: str = ""
    leaving: bool = False
    """Its shards move away; when it has none left it is removed."""
    removed: bool = False
    """Only ever true in the answer to the removal."""


class NodeTable:
    """Every node that is or was, and every shard's place."""

    __slots__ = ("nodes", "placement", "retired", "shards")

    def __init__(self) -> None:
        self.shards = 0
        self.nodes: dict[NodeId, NodeRecord] = {}
        self.retired: frozenset[NodeId] = frozenset()
        self.placement: dict[ShardId, Placement] = {}

    # Refusing.

    def check_founded(self) -> None:
        """Refuse, for now, what needs a cluster."""
        if not self.shards:
            raise Unavailable("the cluster is not founded yet; try again when its nodes are up")

    def check_found(self, command: FoundCluster) -> None:
        """Refuse a cluster that could not work. One that is there stays, whatever is asked for."""
        if self.shards:
            return
        if not 1 <= command.shards <= SHARDS_MAX:
            raise InvalidRequest(f"{command.shards} shards; choose from 1 to {SHARDS_MAX}")
        nodes, placement = dict(command.nodes), dict(command.placement)
        if not 1 <= len(nodes) <= NODES_MAX or len(nodes) < len(command.nodes):
            raise InvalidRequest(
                f"{len(command.nodes)} nodes cannot found a cluster; name from 1 to {NODES_MAX},"
                " each once"
            )
        for node, peer in nodes.items():
            _check_id(node)
            _check_address("peer", peer)
        if len(placement) < len(command.placement):
            raise InvalidRequest("a shard is placed twice; name each shard once")
        for shard, holders in placement.items():
            _check_place(shard, holders, shards=command.shards, nodes=nodes)
        homeless = [shard for shard in range(1, command.shards + 1) if shard not in placement]
        if homeless:
            raise InvalidRequest(f"{_shards(homeless)} without a place; name nodes for each")

    def check_add(self, command: AddNode) -> None:
        """Refuse an id that was ever used."""
        self.check_founded()
        node = command.node
        _check_id(node)
        _check_address("peer", command.peer)
        if node in self.nodes:
            raise NodeExists(f"node {node} is in the cluster; choose an id that was never used")
        if node in self.retired:
            raise NodeExists(
                f"node {node} was in the cluster and was removed; choose an id that was never used"
            )
        if len(self.nodes) >= NODES_MAX:
            raise CatalogFull(f"there are {NODES_MAX} nodes, the most there may be; remove some")
        if len(self.nodes) + len(self.retired) >= NODES_EVER_MAX:
            raise CatalogFull(f"{NODES_EVER_MAX} node ids are used up; move to a new cluster")

    def check_register(self, command: RegisterNode) -> None:
        """Refuse a stranger, and a disk that is not the node's."""
        self.check_founded()  # Before that, a founder is no stranger: it is only early.
        node = command.node
        record = self._known(node)
        _check_address("peer", command.peer)
        if command.kafka:
            _check_address("Kafka", command.kafka)
        if command.http:
            _check_address("HTTP", command.http)
        if not 1 <= len(command.incarnation) <= NODE_TEXT_CHARACTERS_MAX:
            raise InvalidRequest(
                f"node {node} registers with an incarnation of {len(command.incarnation)}"
                f" characters; from 1 to {NODE_TEXT_CHARACTERS_MAX}"
            )
        if len(command.rack) > NODE_TEXT_CHARACTERS_MAX:
            raise InvalidRequest(
                f"the rack of node {node} has {len(command.rack)} characters; at most"
                f" {NODE_TEXT_CHARACTERS_MAX}"
            )
        if record.incarnation not in ("", command.incarnation):
            raise NodeExists(
                f"node {node} is registered with another data directory than this one; start it"
                " with the directory it had or, if that is lost, remove the node from the cluster"
                " and add the machine under a new id"
            )

    def check_drain(self, node: NodeId) -> None:
        """Refuse to let the last node go."""
        self._known(node)
        if all(record.leaving for one, record in self.nodes.items() if one != node):
            raise MembershipRefused(
                f"node {node} is the last one that stays; add another first, or just stop it"
            )

    def check_remove(self, node: NodeId) -> None:
        """Refuse to remove a node that is still needed."""
        self._known(node)
        held = sorted(shard for shard, holders in self.placement.items() if node in holders)
        if held:
            raise MembershipRefused(f"node {node} still holds {_shards(held)}; move them first")

    def check_place(self, shard: ShardId, holders: Placement) -> None:
        """Refuse a place that is none."""
        self.check_founded()
        _check_place(shard, holders, shards=self.shards, nodes=self.nodes)

    def _known(self, node: NodeId) -> NodeRecord:
        record = self.nodes.get(node)
        if record is not None:
            return record
        if node in self.retired:
            raise UnknownNode(
                f"node {node} was removed from the cluster and its id is not used again; to bring"
                " the machine back, add it under a new id with an empty data directory"
            )
        raise UnknownNode(f"the cluster has no node {node}; add it first")

    # Changing.

    def found(self, command: FoundCluster) -> bool:
        """Begin; False if there is a cluster already."""
        if self.shards:
            return False
        self.shards = command.shards
        known = dict(command.incarnations)
        self.nodes = {
            node: NodeRecord(node, peer, incarnation=known.get(node, ""))
            for node, peer in command.nodes
        }
        self.placement = dict(command.placement)
        return True

    def add(self, command: AddNode) -> NodeRecord:
        """Let a node in; it has not said anything of itself yet."""
        record = NodeRecord(command.node, command.peer)
        self.nodes[record.node] = record
        return record

    def register(self, command: RegisterNode) -> NodeRecord:
        """Take what a node says of itself; returns the same object if that is known."""
        known = self.nodes[command.node]
        record = msgspec.structs.replace(
            known,
            peer=command.peer,
            kafka=command.kafka,
            http=command.http,
            incarnation=command.incarnation,
            rack=command.rack,
        )
        if record == known:
            return known
        self.nodes[record.node] = record
        return record

    def drain(self, node: NodeId) -> NodeRecord:
        """Mark a node as leaving; returns the same object if it is marked."""
        record = self.nodes[node]
        if not record.leaving:
            record = self.nodes[node] = msgspec.structs.replace(record, leaving=True)
        return record

    def remove(self, node: NodeId) -> NodeRecord:
        """Let a node go; its id stays taken."""
        record = self.nodes.pop(node)
        self.retired |= {node}
        return msgspec.structs.replace(record, removed=True)

    def place(self, shard: ShardId, holders: Placement) -> bool:
        """Place a shard; False if it is placed like this already."""
        if self.placement.get(shard) == holders:
            return False
        self.placement[shard] = holders
        return True


def _check_id(node: NodeId) -> None:
    if not 1 <= node < _NODE_IDS:
        raise InvalidRequest(f"{node} cannot be a node's id; choose from 1 to {_NODE_IDS - 1}")


def _check_address(what: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    fits = len(address) <= NODE_TEXT_CHARACTERS_MAX
    if not (fits and host and _PORT.fullmatch(port) and 0 < int(port) < _PORTS):
        raise InvalidRequest(
            f"{address[:_SHOWN_CHARACTERS_MAX]!r} is no {what} address; write it as host:port"
        )


def _check_place(
    shard: ShardId, holders: Placement, *, shards: int, nodes: Mapping[NodeId, object]
) -> None:
    if not 0 <= shard <= shards:
        raise InvalidRequest(f"there is no shard {shard}; they go from 0 to {shards}")
    strangers = sorted(node for node in set(holders) if node not in nodes)
    if strangers:
        raise UnknownNode(f"shard {shard} is to be on nodes {strangers}, which must be added first")
    if not holders or len(set(holders)) < len(holders):
        raise MembershipRefused(
            f"shard {shard} cannot be on nodes {list(holders)}; name one or more, each once"
        )


def _shards(numbers: Collection[int]) -> str:
    return f"{'shards' if len(numbers) > 1 else 'shard'} {', '.join(map(str, numbers))}"
