"""`machines.catalog`: one machine of all its tables: producer ids, versions and snapshots."""

from collections.abc import Callable

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import (
    CatalogFull,
    InvalidRequest,
    LocalError,
    UnknownTopic,
    UnsupportedVersion,
)
from penstock.core.limits import (
    PARTITIONS_MAX,
    PRODUCER_IDS_TAKEN_MAX,
)
from penstock.core.types import Index, NodeId, PartitionId, ProducerId, Term
from penstock.machines import (
    AddNode,
    AddPartitions,
    Applied,
    Catalog,
    CatalogVersionInUse,
    ConfigureGroup,
    CreatePartition,
    DeleteTopic,
    KeepSecret,
    ProducerIds,
    Propose,
    RemoveNode,
    TakeProducerIds,
    UseCatalogVersion,
)
from tests.unit.machines.cluster import THREE, TWO, Cluster, register, topic_id


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.found(1, 2)
    return cluster


def test_producer_ids_are_given_once(cluster: Cluster) -> None:
    revision = cluster.catalog.revision
    assert cluster.do(TakeProducerIds(count=1_000)) == ProducerIds(ProducerId(0), 1_000)
    assert cluster.do(TakeProducerIds(count=1)) == ProducerIds(ProducerId(1_000), 1)
    assert cluster.catalog.revision == revision, "nothing that can be seen has changed"
    for count in (0, -1, PRODUCER_IDS_TAKEN_MAX + 1):
        with pytest.raises(InvalidRequest, match="take from 1 to"):
            cluster.do(TakeProducerIds(count=count))


def test_producer_ids_end_somewhere(cluster: Cluster) -> None:
    damage(cluster.catalog, 3, (1 << 63) - 5)
    cluster.do(TakeProducerIds(count=5))
    with pytest.raises(CatalogFull, match="used up"):
        cluster.do(TakeProducerIds(count=1))


# The machine.


def test_what_is_no_command_of_the_catalog_is_not_planned() -> None:
    with pytest.raises(LocalError, match="CreatePartition is not a command to a catalog"):
        Catalog().plan(CreatePartition(partition=PartitionId(1)), now_ms=1, term=Term(1))


def test_stamps_never_go_back(cluster: Cluster) -> None:
    catalog = cluster.catalog

    def stamp(now_ms: int) -> int:
        plan = catalog.plan(DeleteTopic(name="x"), now_ms=now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        return plan.stamp_ms

    assert [stamp(2_000), stamp(1_500), stamp(2_001)] == [2_000, 2_000, 2_001]
    catalog.forget_plans()
    assert stamp(1) == catalog.time_ms == 1_000


def test_even_a_refusal_moves_log_time(cluster: Cluster) -> None:
    cluster.now_ms = 5_000
    with pytest.raises(UnknownTopic):
        cluster.do(DeleteTopic(name="x"))
    assert cluster.catalog.time_ms == 5_000


def test_other_entries_mean_nothing() -> None:
    entry = Entry(Index(1), Term(1), EntryKind.NOOP, b"")
    assert Catalog().apply(entry) == Applied()


def test_it_describes_itself(cluster: Cluster) -> None:
    cluster.create("orders", 3)
    expected = "version 1 time 1000 revision 2 topics 1 partitions 3 nodes 2"
    assert cluster.catalog.describe() == expected


# Versions.


def test_a_version_is_put_into_use_and_never_taken_back() -> None:
    cluster = Cluster(Catalog(newest_version=3))
    assert cluster.do(UseCatalogVersion(version=1)) == CatalogVersionInUse(1)
    assert cluster.catalog.revision == 0
    assert cluster.do(UseCatalogVersion(version=3)) == CatalogVersionInUse(3)
    assert cluster.catalog.version == 3
    with pytest.raises(UnsupportedVersion, match="at version 3 and never goes back to 2"):
        cluster.do(UseCatalogVersion(version=2))


def test_an_older_build_stops_before_it_changes_anything() -> None:
    newer = Cluster(Catalog(newest_version=2))
    newer.do(UseCatalogVersion(version=2))
    older = Catalog(newest_version=1)
    with pytest.raises(
        UnsupportedVersion, match="version 2 of a catalog is not known .* knows up to 1"
    ):
        older.apply(newer.log[0])
    assert (older.version, older.time_ms) == (1, 0)
    with pytest.raises(UnsupportedVersion, match="later version of Penstock"):
        older.restore(newer.catalog.snapshot())
    for version in (0, 2):
        with pytest.raises(UnsupportedVersion):
            older.plan(UseCatalogVersion(version=version), now_ms=1, term=Term(1))


# Snapshots.


def busy() -> Cluster:
    cluster = Cluster()
    cluster.found(2, 1)
    cluster.create("b", 2, retention_ms="5")
    cluster.create("a", 1)
    cluster.do(AddPartitions(name="b", total=4))
    cluster.do(AddNode(node=NodeId(9), peer="i:1"))
    cluster.do(AddNode(node=THREE, peer="c:1"))
    cluster.do(RemoveNode(node=NodeId(9)))
    cluster.do(register(TWO))
    cluster.do(TakeProducerIds(count=10))
    for group in ("h", "g"):
        cluster.do(ConfigureGroup(group=group, changes={"share.delivery.count.limit": "7"}))
    for name in ("b", "a"):
        cluster.do(KeepSecret(name=name, secret=name.encode() * 16))
    return cluster


def test_a_snapshot_has_everything() -> None:
    cluster = busy()
    state = cluster.catalog.snapshot()
    restored = Cluster(Catalog())
    restored.catalog.restore(state)
    assert restored.catalog.snapshot() == state
    for view in VIEWS:
        assert view(restored.catalog) == view(cluster.catalog)
    assert restored.create("c").partitions == cluster.create("c").partitions == (6,)


VIEWS: list[Callable[[Catalog], object]] = [
    lambda one: one.describe(),
    lambda one: (one.topics, one.nodes, one.retired, one.placement),
    lambda one: (one.shards, one.revision, one.next_partition, one.partition_count),
    lambda one: [one.owner(PartitionId(number)) for number in range(7)],
    lambda one: one.topic_by_id(topic_id("a")),
    lambda one: (one.group_configs, one.group_settings("g").work_rules, one.secrets),
]


def test_what_was_there_before_a_snapshot_is_gone() -> None:
    cluster = busy()
    cluster.catalog.plan(DeleteTopic(name="x"), now_ms=9_000, term=Term(1))
    empty = Catalog().snapshot()
    cluster.catalog.restore(empty)
    assert cluster.catalog.snapshot() == empty
    assert cluster.catalog.owner(PartitionId(1)) is None
    plan = cluster.catalog.plan(DeleteTopic(name="x"), now_ms=5, term=Term(1))
    assert isinstance(plan, Propose)
    assert plan.stamp_ms == 5


def test_a_snapshot_is_in_the_order_of_names_not_of_time() -> None:
    first, second = Cluster(), Cluster()
    for cluster, nodes_added in ((first, (5, 6)), (second, (6, 5))):
        cluster.found()
        for node in nodes_added:
            cluster.do(AddNode(node=NodeId(node), peer="x:1"))
    assert first.catalog.snapshot() == second.catalog.snapshot()


def test_partitions_take_little_room_in_a_snapshot(cluster: Cluster) -> None:
    before = len(cluster.catalog.snapshot())
    cluster.create("orders", 100_000)
    assert len(cluster.catalog.snapshot()) - before < 100


@pytest.mark.parametrize(
    "runs", [[], [[1, 0]], [[1, -1]], [[0, 1]], [[1, PARTITIONS_MAX + 1]], [[1, 1 << 62]]]
)
def test_numbers_of_a_snapshot_are_not_believed(runs: list[object]) -> None:
    catalog = busy().catalog
    before = catalog.snapshot()
    with pytest.raises(UnsupportedVersion, match="no snapshot of a catalog"):
        damage(catalog, 5, [["a", b"i" * 16, 0, {}, runs]])
    assert catalog.snapshot() == before


def test_configs_of_a_snapshot_are_not_believed() -> None:
    catalog = busy().catalog
    before = catalog.snapshot()
    with pytest.raises(UnsupportedVersion, match="no snapshot of a catalog.*share.future"):
        damage(catalog, 10, [["g", {"share.future": "1"}]])
    assert catalog.snapshot() == before


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x91\x01", msgspec.msgpack.encode([1] * 13)])
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedVersion, match="no snapshot of a catalog"):
        Catalog().restore(data)


def damage(catalog: Catalog, field: int, value: object) -> None:
    """Restore the catalog's own snapshot with one field changed."""
    state = msgspec.msgpack.decode(catalog.snapshot())
    state[field] = value
    catalog.restore(msgspec.msgpack.encode(state))
