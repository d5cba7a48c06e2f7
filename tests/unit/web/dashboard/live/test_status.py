"""What an open page is told."""

from typing import cast

from penstock.core.alert_levels import Level
from penstock.core.errors import NotLeader
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.watch.alert import Alert
from penstock.watch.watch import Watch
from penstock.web.broker import Phase
from penstock.web.dashboard.live.status import StatusWatch, other_nodes
from tests.unit.web.asgi import FakeBroker, FakeEngine, FakeLeader, FakeNode, FakeRecord, FakeTopics
from tests.unit.web.dashboard.widgets.test_trouble import alert


class LedTopics(FakeTopics):
    """Who leads which of three shards is set by a test."""

    def __init__(self) -> None:
        super().__init__()
        self.leaders = {0: 1, 1: 2, 2: 3}
        self.reached = {1, 2, 3}
        self.alive = lambda: frozenset(map(NodeId, self.reached))
        self.catalog.nodes = {
            NodeId(one): FakeRecord(f"127.0.0.1:909{one}", f"127.0.0.1:808{one}")
            for one in (1, 2, 3)
        }

    def leader(self, shard: ShardId) -> FakeLeader:
        return FakeLeader(NodeId(self.leaders[shard]))


def led_engine() -> FakeEngine:
    engine = FakeEngine()
    engine.topics = LedTopics()
    return engine


def test_a_leader_dies_and_another_takes_over() -> None:
    engine = FakeEngine()
    engine.topics = topics = LedTopics()
    watch = StatusWatch(FakeBroker(node=FakeNode(engine=engine)))
    first = watch.beat()
    assert (first.problems, first.lines) == ([], [])
    topics.reached = {1, 3}  # Nobody has noticed yet that node 2 does not lead any more.
    lost = watch.beat()
    assert lost.problems == [
        "node 2 cannot be reached",
        "shard 1 has no leader: what belongs there waits",
    ]
    assert lost.lines == ["node 2 cannot be reached", "shard 1 lost its leader"]
    topics.leaders = {0: 1, 1: NO_NODE, 2: 3}
    assert watch.beat().problems == lost.problems
    topics.leaders = {0: 1, 1: 3, 2: 3}
    found = watch.beat()
    assert found.problems == ["node 2 cannot be reached"]
    assert found.lines == ["node 3 leads shard 1 now"]
    topics.reached = {1, 2, 3}
    assert watch.beat().lines == ["node 2 is here again"]
    assert watch.beat().lines == []


def test_a_look_takes_nothing_from_the_next_beat() -> None:
    engine = FakeEngine()
    engine.topics = topics = LedTopics()
    watch = StatusWatch(FakeBroker(node=FakeNode(engine=engine)))
    watch.beat()
    topics.leaders = {0: 2, 1: 2, 2: 2}
    assert watch.look().lines == []
    assert watch.beat().lines == ["node 2 leads shards 0 and 2 now"]


def test_a_broker_that_is_not_there_yet() -> None:
    assert StatusWatch(FakeBroker(phase=Phase.STARTING, node=None)).beat().problems == [
        "it is starting"
    ]
    waiting = FakeBroker(phase=Phase.STARTING, node=None, reasons=["waits for node 2"])
    assert StatusWatch(waiting).beat().problems == ["waits for node 2"]
    assert other_nodes(waiting) == []


def test_a_catalog_that_is_being_opened() -> None:
    class Reopening(LedTopics):
        def leader(self, shard: ShardId) -> FakeLeader:
            raise NotLeader("the catalog of this node is not open: the node starts or stops")

    engine = FakeEngine()
    engine.topics = Reopening()
    beat = StatusWatch(FakeBroker(node=FakeNode(engine=engine))).beat()
    assert beat.problems == ["the catalog of this node is not open: the node starts or stops"]


def test_where_the_same_page_is() -> None:
    found = other_nodes(FakeBroker(node=FakeNode(engine=led_engine())))
    assert found == [(2, "127.0.0.1:8082"), (3, "127.0.0.1:8083")]


def test_alerts_that_begin_and_end_are_told_once() -> None:
    class FakeWatch:
        active: tuple[Alert, ...] = ()

        def firing(self) -> tuple[Alert, ...]:
            return self.active

    broker = FakeBroker()
    alerts = FakeWatch()
    broker.watch = cast(Watch, alerts)
    watch = StatusWatch(broker)
    alerts.active = (alert("old", Level.WARNING),)
    first = watch.beat()
    assert (first.lines, first.alerts["warning"]) == ([], 1), "what was so before is no news"
    alerts.active = (alert("new", Level.CRITICAL),)
    assert watch.beat().lines == ["alert: new is deep", "over: old is deep"]
    assert watch.beat().lines == []
    alerts.active = tuple(alert(str(number), Level.ATTENTION) for number in range(9))
    assert watch.beat().lines == ["9 alerts began to fire, 1 are over"]
