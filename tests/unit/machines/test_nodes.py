"""`machines.nodes`: who founds a cluster, who comes and goes, and where shards are placed."""

import pytest

from penstock.core.errors import (
    CatalogFull,
    InvalidRequest,
    LocalError,
    MembershipRefused,
    NodeExists,
    Unavailable,
    UnknownNode,
)
from penstock.core.limits import (
    NODE_TEXT_CHARACTERS_MAX,
    NODES_MAX,
    SHARDS_MAX,
)
from penstock.core.types import NodeId, ShardId
from penstock.machines import (
    AddNode,
    CatalogCommand,
    ClusterFounded,
    DrainNode,
    FoundCluster,
    NodeRecord,
    PlaceShard,
    RegisterNode,
    RemoveNode,
    ShardPlaced,
    nodes,
)
from tests.unit.machines.cluster import ONE, THREE, TWO, Cluster, create, register


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.found(1, 2)
    return cluster


# Founding.


def test_a_cluster_is_founded_once() -> None:
    cluster = Cluster()
    assert (cluster.catalog.shards, cluster.catalog.revision) == (0, 0)
    cluster.found(1, 2, shards=3)
    catalog = cluster.catalog
    assert catalog.shards == 3
    assert catalog.nodes == {
        ONE: NodeRecord(ONE, "host1:9000"),
        TWO: NodeRecord(TWO, "host2:9000"),
    }
    assert catalog.placement == {ShardId(shard): (ONE, TWO) for shard in (1, 2, 3)}
    assert catalog.revision == 1
    before = cluster.state()
    again = FoundCluster(shards=9, nodes=(), placement=())
    assert cluster.do(again) == ClusterFounded(3), "the answer says what there is"
    assert cluster.state() == before


A = ((ONE, "a:1"),)
PLACED = ((ShardId(1), (ONE,)),)


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        (FoundCluster(shards=0, nodes=A, placement=()), InvalidRequest, "from 1 to"),
        (FoundCluster(shards=SHARDS_MAX + 1, nodes=A, placement=()), InvalidRequest, "from 1 to"),
        (FoundCluster(shards=1, nodes=(), placement=PLACED), InvalidRequest, "0 nodes cannot"),
        (FoundCluster(shards=1, nodes=A + A, placement=PLACED), InvalidRequest, "each once"),
        (
            FoundCluster(
                shards=1,
                nodes=tuple((NodeId(node), "a:1") for node in range(1, NODES_MAX + 2)),
                placement=PLACED,
            ),
            InvalidRequest,
            "1001 nodes cannot",
        ),
        (FoundCluster(shards=1, nodes=((ONE, "a"),), placement=PLACED), InvalidRequest, "host:"),
        (
            FoundCluster(shards=1, nodes=((NodeId(0), "a:1"),), placement=PLACED),
            InvalidRequest,
            "0 cannot be a node's id",
        ),
        (FoundCluster(shards=1, nodes=A, placement=PLACED * 2), InvalidRequest, "placed twice"),
        (
            FoundCluster(shards=1, nodes=A, placement=((ShardId(2), (ONE,)),)),
            InvalidRequest,
            "no shard 2; they go from 0 to 1",
        ),
        (
            FoundCluster(shards=1, nodes=A, placement=((ShardId(1), (TWO,)),)),
            UnknownNode,
            r"nodes \[2\]",
        ),
        (
            FoundCluster(shards=3, nodes=A, placement=PLACED),
            InvalidRequest,
            "shards 2, 3 without a place",
        ),
    ],
)
def test_a_cluster_that_cannot_work_is_not_founded(
    command: FoundCluster, error: type[LocalError], words: str
) -> None:
    with pytest.raises(error, match=words):
        Cluster().do(command)


def test_the_catalogs_own_shard_may_have_a_place_as_well() -> None:
    cluster = Cluster()
    cluster.do(FoundCluster(shards=1, nodes=A, placement=(*PLACED, (ShardId(0), (ONE,)))))
    assert cluster.catalog.placement[ShardId(0)] == (ONE,)


@pytest.mark.parametrize(
    "command",
    [
        create(),
        AddNode(node=TWO, peer="b:1"),
        PlaceShard(shard=ShardId(1), nodes=(ONE,)),
        register(),
    ],
)
def test_before_it_is_founded_one_has_to_wait(command: CatalogCommand) -> None:
    with pytest.raises(Unavailable, match="not founded yet"):
        Cluster().do(command)


# Nodes.


def test_a_node_is_added_and_says_who_it_is(cluster: Cluster) -> None:
    catalog = cluster.catalog
    assert cluster.node(AddNode(node=THREE, peer="c:9000")) == NodeRecord(THREE, "c:9000")
    record = cluster.node(register(THREE))
    assert record == NodeRecord(THREE, "b:9000", "b:9092", "b:8080", "first", "west")
    assert catalog.nodes[THREE] is record
    revision = catalog.revision
    assert cluster.node(register(THREE)) is record, "a start with nothing new"
    assert catalog.revision == revision
    assert cluster.node(register(THREE, kafka="[::1]:9092", http="")).kafka == "[::1]:9092"
    assert catalog.revision == revision + 1


def test_another_data_directory_is_not_the_same_node(cluster: Cluster) -> None:
    cluster.do(register(TWO))
    with pytest.raises(NodeExists, match="another data directory .* add the machine under a new"):
        cluster.do(register(TWO, incarnation="second"))


def test_a_stranger_cannot_register(cluster: Cluster) -> None:
    with pytest.raises(UnknownNode, match="no node 3; add it first"):
        cluster.do(register(THREE))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (register(peer=""), "'' is no peer address; write it as host:port"),
        (register(peer="host:"), "no peer address"),
        (register(peer=":80"), "no peer address"),
        (register(kafka="host:65536"), "'host:65536' is no Kafka address"),
        (register(kafka="host:0"), "no Kafka address"),
        (register(http="host:http"), "no HTTP address"),
        (register(http=f"{'h' * NODE_TEXT_CHARACTERS_MAX}:1"), "no HTTP address"),
        (register(incarnation=""), "incarnation of 0 characters"),
        (register(incarnation="i" * 1_000), "incarnation of 1000 characters"),
        (register(rack="r" * 1_000), "rack of node 2 has 1000 characters"),
    ],
)
def test_what_a_node_says_of_itself_must_make_sense(
    cluster: Cluster, command: RegisterNode, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        cluster.do(command)


@pytest.mark.parametrize(
    ("command", "error", "words"),
    [
        (AddNode(node=TWO, peer="c:1"), NodeExists, "node 2 is in the cluster"),
        (AddNode(node=NodeId(0), peer="c:1"), InvalidRequest, "0 cannot be a node's id"),
        (AddNode(node=NodeId(1 << 31), peer="c:1"), InvalidRequest, "cannot be a node's id"),
        (AddNode(node=THREE, peer="c"), InvalidRequest, "no peer address"),
    ],
)
def test_a_node_that_cannot_be_is_not_added(
    cluster: Cluster, command: AddNode, error: type[LocalError], words: str
) -> None:
    with pytest.raises(error, match=words):
        cluster.do(command)


def test_a_removed_node_does_not_come_back(cluster: Cluster) -> None:
    cluster.do(AddNode(node=THREE, peer="c:9000"))
    assert cluster.node(RemoveNode(node=THREE)) == NodeRecord(THREE, "c:9000", removed=True)
    assert THREE not in cluster.catalog.nodes
    assert cluster.catalog.retired == {THREE}
    with pytest.raises(NodeExists, match="was removed; choose an id that was never used"):
        cluster.do(AddNode(node=THREE, peer="c:9000"))
    with pytest.raises(UnknownNode, match="was removed .* under a new id"):
        cluster.do(register(THREE))
    with pytest.raises(UnknownNode, match="was removed"):
        cluster.do(RemoveNode(node=THREE))


def test_a_node_that_holds_something_stays(cluster: Cluster) -> None:
    for shard in (1, 2, 4):
        cluster.do(PlaceShard(shard=ShardId(shard), nodes=(TWO,)))
    with pytest.raises(MembershipRefused, match="node 1 still holds shard 3; move them first"):
        cluster.do(RemoveNode(node=ONE))
    with pytest.raises(MembershipRefused, match="node 2 still holds shards 1, 2, 3, 4"):
        cluster.do(RemoveNode(node=TWO))
    cluster.do(PlaceShard(shard=ShardId(3), nodes=(TWO,)))
    cluster.do(RemoveNode(node=ONE))
    assert cluster.catalog.nodes.keys() == {TWO}


def test_a_node_that_leaves_is_marked_until_it_is_gone(cluster: Cluster) -> None:
    cluster.do(register(TWO))
    record = cluster.node(DrainNode(node=TWO))
    assert record.leaving
    revision = cluster.catalog.revision
    assert cluster.node(DrainNode(node=TWO)) is record
    assert cluster.node(register(TWO)) is record, "a start does not change its mind"
    assert cluster.catalog.revision == revision
    assert cluster.node(register(TWO, rack="east")).leaving
    with pytest.raises(MembershipRefused, match="node 1 is the last one that stays"):
        cluster.do(DrainNode(node=ONE))
    with pytest.raises(UnknownNode, match="no node 3"):
        cluster.do(DrainNode(node=THREE))


def test_there_is_room_for_so_many_nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "NODES_MAX", 3)
    monkeypatch.setattr(nodes, "NODES_EVER_MAX", 4)
    cluster.do(AddNode(node=THREE, peer="c:1"))
    with pytest.raises(CatalogFull, match="there are 3 nodes"):
        cluster.do(AddNode(node=NodeId(4), peer="d:1"))
    cluster.do(RemoveNode(node=THREE))
    cluster.do(AddNode(node=NodeId(4), peer="d:1"))
    cluster.do(RemoveNode(node=NodeId(4)))
    with pytest.raises(CatalogFull, match="4 node ids are used up"):
        cluster.do(AddNode(node=NodeId(5), peer="e:1"))


# Shards.


def test_a_shard_is_placed(cluster: Cluster) -> None:
    place = PlaceShard(shard=ShardId(4), nodes=(TWO, ONE))
    revision = cluster.catalog.revision
    assert cluster.do(place) == ShardPlaced(ShardId(4), (TWO, ONE))
    assert cluster.do(place) == ShardPlaced(ShardId(4), (TWO, ONE))
    assert cluster.catalog.placement[ShardId(4)] == (TWO, ONE)
    assert cluster.catalog.revision == revision + 1
    cluster.do(PlaceShard(shard=ShardId(0), nodes=(ONE,)))


@pytest.mark.parametrize(
    ("shard", "holders", "error", "words"),
    [
        (5, (1,), InvalidRequest, "no shard 5; they go from 0 to 4"),
        (-1, (1,), InvalidRequest, "no shard -1"),
        (1, (), MembershipRefused, "name one or more, each once"),
        (1, (1, 1), MembershipRefused, r"nodes \[1, 1\]; name one or more, each once"),
        (1, (1, 9, 8), UnknownNode, r"on nodes \[8, 9\], which must be added first"),
    ],
)
def test_a_place_that_is_none_is_refused(
    cluster: Cluster,
    shard: int,
    holders: tuple[int, ...],
    error: type[LocalError],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        cluster.do(PlaceShard(shard=ShardId(shard), nodes=tuple(map(NodeId, holders))))
