"""The `node` file of a data directory: who this node is, once and for all.

The first thing that is written into a new directory is the node's id and an incarnation that is
drawn then; when it has founded or joined a cluster, that is added, and nothing changes any more but
`keyed`. A node that comes back with the same id and an empty disk has another incarnation, and the
cluster refuses it, because it may have forgotten votes and acknowledgements it gave.
"""

import os

import msgspec

from penstock.core.errors import DamagedFile, ForeignDirectory, NewerFormat
from penstock.core.types import NodeId
from penstock.storage import Disk
from penstock.storage.envelope import read_whole, replace_whole, seal, sealed_format, unseal

NODE_FILE = "node"
FORMAT = 1


class NodeFile(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a node, which must never be lost."""

    format: int = FORMAT
    node: NodeId
    incarnation: str
    cluster_id: str = ""
    """Empty while the node is in no cluster yet."""
    shards: int = 0
    founders: dict[NodeId, str] = {}
    """The founders of the cluster, with their incarnations; empty for a node that joined later."""
    keyed: bool = False
    """The node requires a proof by the cluster key. False in a new directory, and in one of release
    0.1 until all members are known to have the key; never false again."""


def load_node_file(disk: Disk, directory: str) -> NodeFile | None:
    """The node's identity; None for a directory that was never used."""
    path = os.path.join(directory, NODE_FILE)
    data = read_whole(disk, path)
    if data is None:
        return None
    found = unseal(data, NodeFile)
    if found is None or found.format > FORMAT:
        newer = (sealed_format(data) or 0) > FORMAT
        if newer:
            raise NewerFormat(f"{path} was written by a later version of Penstock; use that one")
        raise DamagedFile(
            path=path,
            position=0,
            problem="it does not match its checksum",
            way_out="Replace this node: remove its id from the cluster and add a new one",
        )
    return found


def store_node_file(disk: Disk, directory: str, content: NodeFile) -> None:
    """Write the file durably."""
    replace_whole(disk, os.path.join(directory, NODE_FILE), seal(content))


def check_node(found: NodeFile, node: NodeId, directory: str) -> None:
    """Refuse another node's directory."""
    if found.node != node:
        raise ForeignDirectory(
            f"{directory} belongs to node {found.node}, this is node {node}; give each node a"
            " directory of its own, or start this one with --node-id"
            f" {found.node}"
        )
