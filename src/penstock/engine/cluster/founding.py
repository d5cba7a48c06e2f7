"""Founding of a cluster: a node founds one with others, or joins one that exists.

A node with a used data directory knows its id and cluster. One with an empty directory asks all
nodes in its `--cluster` list, and their answers decide:

    only itself is listed               it founds a cluster of one
    all say they are new as well        the lowest id draws the cluster's id; the others adopt it
    a cluster exists and knows the      it comes in: a founder that is late, or a new node, which
      node, with this disk or none      starts empty, as a learner of what it is given
    a cluster exists and knows this     refused: this disk has forgotten promises that were made in
      id with another disk              its name; it must come back under a new id
    a cluster exists, id not known      it waits to be added

All founders must be there to found: a cluster that is founded by a part of its list might be
founded twice. Every node draws an incarnation for its disk before it says a word, and founders know
each other's from the start, so that no moment is left in which a disk could be swapped unnoticed.
An answer about what a cluster knows comes from the catalog's leader, so that it is
not out of date; only while no founder has anything in its log is there nothing to be known.
"""

import secrets
from collections.abc import Callable, Mapping

import msgspec

from penstock.core.errors import DirectoryRefused
from penstock.core.limits import INTRODUCTION_CALL_SECONDS
from penstock.core.retries import LEADER, Retrier
from penstock.core.types import NodeId
from penstock.engine.cluster.node_file import NodeFile
from penstock.engine.peers.calls import RemoteCall, RemoteCalls


class Introduction(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a node with an empty directory."""

    node: NodeId
    incarnation: str
    shards: int
    cluster: tuple[NodeId, ...]


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the cluster, and what is known there of the new node."""

    cluster_id: str = ""
    """Empty: the answering node is new as well."""
    shards: int
    founders: dict[NodeId, str] = {}
    """With their incarnations; of a new node: those it would found with, its own incarnation."""
    unwritten: bool = True
    """True if the log of the answering node's catalog is empty."""
    confirmed: bool = False
    """True if the following fields come from the catalog's leader."""
    known: bool = False
    incarnation: str = ""


INTRODUCE = RemoteCall("introduce", Introduction, Welcome, INTRODUCTION_CALL_SECONDS, is_open=True)


def found_alone(new: NodeFile, shards: int) -> NodeFile:
    """Found a cluster of one node."""
    return _founded(new, secrets.token_hex(8), shards, {new.node: new.incarnation})


async def find_cluster(
    new: NodeFile,
    shards: int,
    cluster: Mapping[NodeId, str],
    calls: RemoteCalls,
    retrier: Retrier,
    announce: Callable[[str], None],
) -> NodeFile:
    """Found or join; returns what to store in the node file. Waits for as long as it takes."""
    me = Introduction(
        node=new.node, incarnation=new.incarnation, shards=shards, cluster=tuple(sorted(cluster))
    )
    announced = ""
    others = dict.fromkeys((node for node in cluster if node != me.node), me)
    retries = retrier.endless(LEADER)
    while True:
        answers = await calls.ask_each(INTRODUCE, others)
        outcome = decide(me, answers.replies)
        if isinstance(outcome, NodeFile):
            return outcome
        if outcome != announced:
            announce(outcome)
            announced = outcome
        await retries.pause()


def decide(me: Introduction, answers: Mapping[NodeId, Welcome]) -> NodeFile | str:
    """The node file, or what the node waits for. Raises if it can never come in."""
    others = [node for node in me.cluster if node != me.node]
    existing = [welcome for welcome in answers.values() if welcome.cluster_id]
    if not existing:
        missing = [node for node in others if node not in answers]
        if missing:
            return f"waits for {_nodes(missing)} to found the cluster together"
        _check_agreement(me, answers)
        if me.node != min(me.cluster):
            return f"waits for node {min(me.cluster)} to found the cluster"
        founders = {node: answers[node].founders[node] for node in others}
        founders[me.node] = me.incarnation
        return _founded(me, secrets.token_hex(8), me.shards, founders)
    confirmed = [welcome for welcome in existing if welcome.confirmed]
    if confirmed:
        return _join(me, confirmed[0])
    first = existing[0]
    if me.node in first.founders and len(answers) == len(others):
        _check_disk(me, first.founders[me.node])
        if all(welcome.unwritten for welcome in answers.values()):
            return _founded(me, first.cluster_id, first.shards, first.founders)
    return "waits for the cluster's catalog to have a leader"


def _join(me: Introduction, welcome: Welcome) -> NodeFile | str:
    if not welcome.known and me.node not in welcome.founders:
        return (
            f"waits to be added: on a member of the cluster run"
            f" `penstock cluster add {me.node}@HOST:PORT` with the address of this node's --peer"
        )
    if not welcome.known:
        raise DirectoryRefused(
            f"node {me.node} was removed from this cluster, and ids are not used again; start it"
            " with a new --node-id and add that one"
        )
    _check_disk(me, welcome.incarnation)
    return _founded(me, welcome.cluster_id, welcome.shards, welcome.founders)


def _check_disk(me: Introduction, incarnation: str) -> None:
    if incarnation not in ("", me.incarnation):
        raise DirectoryRefused(
            f"node {me.node} is a member with another disk, and this data directory is empty: what"
            f" it has promised is forgotten. Run `penstock cluster remove {me.node}` and add this"
            " machine under a new --node-id"
        )


def _check_agreement(me: Introduction, answers: Mapping[NodeId, Welcome]) -> None:
    for node, welcome in answers.items():
        if tuple(sorted(welcome.founders)) != me.cluster or welcome.shards != me.shards:
            raise DirectoryRefused(
                f"node {node} was started with nodes {_list(sorted(welcome.founders))} and"
                f" {welcome.shards} shards, this one with nodes {_list(me.cluster)} and"
                f" {me.shards}; give all founders the same --cluster and --shards"
            )


def _founded(
    me: Introduction | NodeFile, cluster_id: str, shards: int, founders: Mapping[NodeId, str]
) -> NodeFile:
    return NodeFile(
        node=me.node,
        incarnation=me.incarnation,
        cluster_id=cluster_id,
        shards=shards,
        founders=dict(founders) if me.node in founders else {},
    )


def _nodes(nodes: list[NodeId]) -> str:
    return ("node " if len(nodes) == 1 else "nodes ") + _list(nodes)


def _list(nodes: tuple[NodeId, ...] | list[NodeId]) -> str:
    return " ".join(map(str, nodes))
