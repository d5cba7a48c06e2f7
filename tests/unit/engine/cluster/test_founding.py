"""What a node with an empty directory does, given what others tell it."""

import pytest

from penstock.core.errors import DirectoryRefused
from penstock.core.types import NodeId
from penstock.engine.cluster.founding import Introduction, Welcome, decide, found_alone
from penstock.engine.cluster.node_file import NodeFile

ALL = (NodeId(1), NodeId(2), NodeId(3))


DISKS = {node: f"disk {node}" for node in ALL}


def _me(node: int, cluster: tuple[NodeId, ...] = ALL) -> Introduction:
    return Introduction(node=NodeId(node), incarnation=f"disk {node}", shards=4, cluster=cluster)


NEW = Welcome(shards=4, founders=DISKS)
FOUNDED = Welcome(cluster_id="c", shards=4, founders=DISKS)


def test_alone() -> None:
    new = NodeFile(node=NodeId(1), incarnation="disk 1")
    file = found_alone(new, 4)
    assert file.founders == {1: "disk 1"}
    assert file.cluster_id != found_alone(new, 4).cluster_id


def test_founders_wait_for_each_other() -> None:
    outcome = decide(_me(1), {NodeId(2): NEW})
    assert outcome == "waits for node 3 to found the cluster together"


def test_the_lowest_founds() -> None:
    outcome = decide(_me(1), {NodeId(2): NEW, NodeId(3): NEW})
    assert isinstance(outcome, NodeFile)
    assert outcome.founders == DISKS


def test_the_others_wait_for_it() -> None:
    outcome = decide(_me(2), {NodeId(1): NEW, NodeId(3): NEW})
    assert outcome == "waits for node 1 to found the cluster"


def test_the_others_adopt_its_cluster() -> None:
    outcome = decide(_me(2), {NodeId(1): FOUNDED, NodeId(3): NEW})
    assert isinstance(outcome, NodeFile)
    assert (outcome.cluster_id, outcome.founders) == ("c", DISKS)


def test_different_lists_are_refused() -> None:
    other = Welcome(shards=4, founders={NodeId(1): "", NodeId(2): ""})
    with pytest.raises(DirectoryRefused, match="the same --cluster"):
        decide(_me(1), {NodeId(2): other, NodeId(3): NEW})


def test_once_there_is_a_log_only_the_leader_lets_in() -> None:
    written = Welcome(cluster_id="c", shards=4, founders=DISKS, unwritten=False)
    outcome = decide(_me(2), {NodeId(1): written, NodeId(3): FOUNDED})
    assert outcome == "waits for the cluster's catalog to have a leader"


def _confirmed(*, known: bool, incarnation: str = "") -> Welcome:
    return Welcome(
        cluster_id="c",
        shards=8,
        founders=DISKS,
        unwritten=False,
        confirmed=True,
        known=known,
        incarnation=incarnation,
    )


def test_a_late_founder_comes_in() -> None:
    outcome = decide(_me(3), {NodeId(1): _confirmed(known=True)})
    assert isinstance(outcome, NodeFile)
    assert outcome.founders == DISKS


def test_an_added_node_joins_without_being_a_founder() -> None:
    outcome = decide(_me(4, (*ALL, NodeId(4))), {NodeId(1): _confirmed(known=True)})
    assert isinstance(outcome, NodeFile)
    assert (outcome.founders, outcome.shards) == ({}, 8)


def test_a_node_nobody_added_waits() -> None:
    outcome = decide(_me(4, (*ALL, NodeId(4))), {NodeId(1): _confirmed(known=False)})
    assert isinstance(outcome, str)
    assert "penstock cluster add 4@" in outcome


def test_a_wiped_disk_is_refused() -> None:
    with pytest.raises(DirectoryRefused, match="another disk"):
        decide(_me(2), {NodeId(1): _confirmed(known=True, incarnation="old")})


def test_a_disk_that_was_swapped_before_anything_was_written_is_refused() -> None:
    swapped = Introduction(node=NodeId(2), incarnation="another", shards=4, cluster=ALL)
    with pytest.raises(DirectoryRefused, match="another disk"):
        decide(swapped, {NodeId(1): FOUNDED, NodeId(3): NEW})


def test_a_founder_that_crashed_before_it_noted_the_cluster_comes_back() -> None:
    outcome = decide(_me(2), {NodeId(1): _confirmed(known=True, incarnation="disk 2")})
    assert isinstance(outcome, NodeFile)
    assert outcome.incarnation == "disk 2"


def test_a_removed_founder_is_refused() -> None:
    with pytest.raises(DirectoryRefused, match="was removed"):
        decide(_me(2), {NodeId(1): _confirmed(known=False)})
