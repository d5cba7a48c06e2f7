"""Whom a cluster cannot do without, and what it misses."""

import msgspec

from penstock.core.types import NodeId
from penstock.engine.cluster.status import FollowerStatus
from penstock.web.health import missing_replicas, needed_here
from tests.unit.web.asgi import cluster_status, shard


def test_a_sound_cluster_can_spare_any_one() -> None:
    for node in (1, 2, 3):
        status = cluster_status(shard(0, leader=1), shard(1, leader=2), node=node)
        assert needed_here(status) == []
        assert missing_replicas(status) == []


def test_with_one_gone_the_others_are_needed() -> None:
    broken = shard(4, leader=1, silent_ms={3: 5_000})
    assert len(needed_here(cluster_status(broken, node=1))) == 1
    assert len(needed_here(cluster_status(broken, node=2))) == 1
    assert needed_here(cluster_status(broken, node=3)) == []
    assert missing_replicas(cluster_status(broken)) == [
        "shard 4 has no copy in good order on node 3"
    ]


def test_a_replica_that_lags_or_is_damaged_does_not_count() -> None:
    for change in ({"lag_entries": 20_000}, {"damaged": True}):
        sound = shard(0)
        followers = tuple(
            msgspec.structs.replace(one, **change) if one.node == 2 else one
            for one in sound.followers
        )
        broken = msgspec.structs.replace(sound, followers=followers)
        assert needed_here(cluster_status(broken))
        assert missing_replicas(cluster_status(broken))


def test_a_shard_nobody_can_tell_about_is_in_danger() -> None:
    unknown = shard(0, leader=2, followers=())
    assert needed_here(cluster_status(unknown))
    unled = shard(1, leader=0, followers=())
    assert missing_replicas(cluster_status(unled)) == ["shard 1 has no leader"]


def test_a_cluster_of_one_is_not() -> None:
    alone = shard(0, placed=(NodeId(1),), voters=(NodeId(1),), followers=())
    assert needed_here(cluster_status(alone)) == []
    assert missing_replicas(cluster_status(alone)) == []


def test_a_learner_has_no_vote() -> None:
    followers = tuple(
        FollowerStatus(
            node=NodeId(node), state="replicate", lag_entries=0, silent_ms=silent, damaged=False
        )
        for node, silent in ((2, 0), (3, 5_000), (4, 0))
    )
    assert needed_here(cluster_status(shard(0, followers=followers, learners=(NodeId(4),))))
