"""The page at `/`."""

import re

from penstock.core.errors import NotLeader
from penstock.core.pipeline_report import PipelineReport, StageReport
from penstock.core.types import NodeId
from penstock.web.app import make_app
from penstock.web.broker import Phase
from penstock.web.page import ROWS_MAX
from tests.unit.web.asgi import (
    FakeBroker,
    FakeCatalog,
    FakeEngine,
    FakeGroup,
    FakeKeeper,
    FakeNode,
    FakeRecord,
    FakeTopic,
    call,
)


def page(broker: FakeBroker) -> str:
    answer = call(make_app(broker), "GET", "/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return answer.body.decode()


def test_what_is_here() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    engine = broker.node.engine
    engine.catalog.nodes = {NodeId(1): FakeRecord("127.0.0.1:9092", "127.0.0.1:8080")}
    engine.catalog.topics = {"<b>orders": FakeTopic((1, 2, 3))}
    engine.keepers = [FakeKeeper([FakeGroup("readers & co", "Stable")])]
    text = page(broker)
    assert "It is running." in text
    assert "<td>&lt;b&gt;orders</td><td>3</td>" in text
    assert "<td>readers &amp; co</td><td>Stable</td>" in text
    assert "<td>127.0.0.1:9092</td>" in text
    assert not re.search(r'(?:src|href)="(?!/)', text), "nothing comes from elsewhere"
    assert "<script" not in text


def test_a_long_list_is_cut() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    many = {f"topic-{number}": FakeTopic((1,)) for number in range(ROWS_MAX + 5)}
    broker.node.engine.catalog.topics = many
    assert "and 5 more" in page(broker)


def test_pipelines_are_shown_if_there_are_any() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    assert "Pipelines" not in page(broker)
    stage = StageReport(
        stage="extract", state="running", source="raw", target="out", rows_in=9, rows_dead=2, lag=7,
        error="<b>no</b>",
    )  # fmt: skip
    report = PipelineReport(
        pipeline="orders", state="running", host="a", started_ms=0, reported_ms=0, stages=(stage,)
    )
    broker.node.pipeline_reports.found = [report]
    text = page(broker)
    assert "<h2>Pipelines</h2>" in text
    assert "<td>orders</td><td>extract</td><td>running</td><td>9</td><td>0</td><td>2</td>" in text
    assert "&lt;b&gt;no&lt;/b&gt;" in text
    answer = call(make_app(broker), "GET", "/v1/pipelines").json()
    assert answer["pipelines"][0]["stages"][0]["lag"] == 7


def test_a_broker_that_is_not_ready() -> None:
    text = page(FakeBroker(phase=Phase.STARTING, node=None, reasons=["waits for <node> 2"]))
    assert "It is starting." in text
    assert "waits for &lt;node&gt; 2" in text


class Reopening(FakeEngine):
    """An engine whose catalog is not to be had now."""

    @property
    def catalog(self) -> FakeCatalog:
        raise NotLeader("the catalog of this node is being opened")

    @catalog.setter
    def catalog(self, _value: FakeCatalog) -> None: ...


def test_a_node_in_trouble_still_has_a_page() -> None:
    assert "is being opened" in page(FakeBroker(node=FakeNode(engine=Reopening())))
