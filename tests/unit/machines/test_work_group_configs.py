"""Settings of work groups in the catalog: where each comes from, and from which version on."""

import msgspec
import pytest

from penstock.core.errors import (
    CatalogFull,
    InvalidConfig,
    InvalidGroup,
    InvalidTopicName,
    UnknownTopic,
    UnsupportedVersion,
)
from penstock.core.queue_rules import Dead, WorkRules
from penstock.core.types import Term
from penstock.machines import (
    Catalog,
    ConfigureGroup,
    ConfigureWorkGroup,
    DeleteTopic,
    Topic,
    UseCatalogVersion,
    WorkGroupConfigured,
    group_configs,
)
from tests.unit.machines.cluster import Cluster

SHARE_RULES = WorkRules(lease_ms=30_000, deliveries_max=5, dead=Dead.DISCARD, in_flight_max=2_000)


def second_version() -> Cluster:
    cluster = Cluster()
    cluster.found()
    cluster.do(UseCatalogVersion(version=2))
    return cluster


def queue(cluster: Cluster, name: str = "orders") -> Topic:
    return cluster.create(
        name,
        queue_lease_ms="7000",
        queue_deliveries_max="3",
        queue_dead_letter_topic="failed",
    )


def configure(cluster: Cluster, group: str = "g", **changes: str | None) -> dict[str, str]:
    """`lease_ms="5"` sets queue.lease.ms on a group of the topic `orders`."""
    wanted = {f"queue.{name.replace('_', '.')}": value for name, value in changes.items()}
    reply = cluster.do(ConfigureWorkGroup(topic="orders", group=group, changes=wanted))
    assert isinstance(reply, WorkGroupConfigured)
    assert (reply.topic, reply.group) == ("orders", group)
    return reply.configs


def rules(cluster: Cluster, topic: Topic, group: str = "g") -> WorkRules:
    return cluster.catalog.work_settings(topic, group).rules


def test_a_group_of_a_queue_inherits_everything() -> None:
    cluster = Cluster()  # Nothing of this needs a new version.
    cluster.found()
    topic = queue(cluster)
    for group in ("g", "queue"):
        found = cluster.catalog.work_settings(topic, group)
        assert found.rules == topic.settings.queue.work_rules
        assert found.dead_letter_topic == "failed"
        assert (found.rules.deliveries_max, found.rules.dead) == (3, Dead.MOVE)


def test_a_group_of_a_topic_that_is_no_queue_goes_by_kafkas_defaults() -> None:
    cluster = second_version()
    topic = cluster.create("orders")
    assert rules(cluster, topic) == SHARE_RULES
    assert rules(cluster, topic, "queue") == topic.settings.queue.work_rules
    configure(cluster, dead_letter_topic="mine")
    found = cluster.catalog.work_settings(topic, "g")
    assert (found.rules.dead, found.dead_letter_topic) == (Dead.MOVE, "mine")
    assert found.rules.deliveries_max == 5


def test_the_nearest_place_counts_for_each_setting() -> None:
    cluster = second_version()
    topic, other = queue(cluster), queue(cluster, "others")
    share = {"share.record.lock.duration.ms": "8000", "share.delivery.count.limit": "4"}
    cluster.do(ConfigureGroup(group="g", changes=dict(share)))
    assert (rules(cluster, topic).lease_ms, rules(cluster, topic).deliveries_max) == (8_000, 4)
    cluster.do(ConfigureGroup(group="g", changes={"queue.lease.ms": "9000"}))
    assert (rules(cluster, topic).lease_ms, rules(cluster, topic).deliveries_max) == (9_000, 4)
    assert configure(cluster, lease_ms="10000") == {"queue.lease.ms": "10000"}
    assert (rules(cluster, topic).lease_ms, rules(cluster, topic).deliveries_max) == (10_000, 4)
    assert rules(cluster, other).lease_ms == 9_000
    assert rules(cluster, topic, "h") == topic.settings.queue.work_rules
    assert rules(cluster, topic, "queue") == topic.settings.queue.work_rules
    assert configure(cluster, lease_ms=None) == {}
    assert rules(cluster, topic).lease_ms == 9_000
    assert cluster.catalog.work_configs(topic, "g") == {}


def test_moving_dead_letters_needs_a_topic_for_them() -> None:
    cluster = second_version()
    topic = cluster.create("orders", queue_lease_ms="7000")
    cluster.do(ConfigureGroup(group="g", changes={"share.dead.letter.policy": "move"}))
    assert rules(cluster, topic).dead is Dead.ARCHIVE
    cluster.do(ConfigureGroup(group="g", changes={"queue.dead.letter.topic": "all"}))
    assert cluster.catalog.work_settings(topic, "g").dead_letter_topic == "all"
    assert rules(cluster, topic).dead is Dead.MOVE


def test_settings_of_a_topic_go_with_it() -> None:
    cluster = second_version()
    queue(cluster)
    configure(cluster, lease_ms="5")
    cluster.do(DeleteTopic(name="orders"))
    topic = queue(cluster)
    assert rules(cluster, topic).lease_ms == 7_000


def test_a_snapshot_has_them() -> None:
    cluster = second_version()
    topic = queue(cluster)
    configure(cluster, lease_ms="5", deliveries_max="6")
    configure(cluster, "a", retry_policy="fixed")
    state = cluster.catalog.snapshot()
    restored = Catalog()
    restored.restore(state)
    assert restored.snapshot() == state
    assert restored.work_settings(topic, "g") == cluster.catalog.work_settings(topic, "g")
    assert restored.work_configs(topic, "a") == {"queue.retry.policy": "fixed"}


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = second_version()
    with pytest.raises(UnknownTopic):
        configure(cluster, lease_ms="5")
    queue(cluster)
    with pytest.raises(InvalidConfig, match="no work group setting 'queue.delay.ms'"):
        configure(cluster, delay_ms="5")
    with pytest.raises(InvalidConfig, match="cannot be 'x'"):
        configure(cluster, lease_ms="x")
    with pytest.raises(InvalidConfig, match="go to another topic"):
        configure(cluster, dead_letter_topic="orders")
    with pytest.raises(InvalidTopicName):
        configure(cluster, dead_letter_topic="a b")
    with pytest.raises(InvalidGroup, match="settings of its queue"):
        configure(cluster, "queue", lease_ms="5")
    with pytest.raises(InvalidGroup, match="settings of its queue"):
        cluster.do(ConfigureGroup(group="queue", changes={"queue.lease.ms": "5"}))
    with pytest.raises(InvalidGroup, match="a name of 1 to"):
        configure(cluster, "", lease_ms="5")
    monkeypatch.setattr(group_configs, "CONFIGURED_GROUPS_MAX", 1)
    configure(cluster, lease_ms="5")
    with pytest.raises(CatalogFull):
        configure(cluster, "h", lease_ms="5")
    assert configure(cluster, lease_ms="6") == {"queue.lease.ms": "6"}


# Version 1, as release 0.1 has it.


def test_version_1_knows_nothing_of_them() -> None:
    cluster = Cluster()
    cluster.found()
    queue(cluster)
    with pytest.raises(InvalidConfig, match="no group config 'queue.lease.ms'"):
        cluster.do(ConfigureGroup(group="g", changes={"queue.lease.ms": "5"}))
    command = ConfigureWorkGroup(topic="orders", group="g", changes={"queue.lease.ms": "5"})
    with pytest.raises(UnsupportedVersion, match="needs version 2"):
        cluster.catalog.check(command)
    with pytest.raises(UnsupportedVersion):  # Nodes of release 0.1 could not read the entry.
        cluster.catalog.plan(command, now_ms=1, term=Term(1))


def test_a_snapshot_of_version_1_is_the_one_that_release_0_1_reads() -> None:
    cluster = Cluster()
    cluster.found()
    queue(cluster)
    assert len(msgspec.msgpack.decode(cluster.catalog.snapshot())) == 12
    cluster.do(UseCatalogVersion(version=2))
    assert len(msgspec.msgpack.decode(cluster.catalog.snapshot())) == 13
