"""What the watch knows, over HTTP, on a real broker."""

from collections.abc import Iterator

import pytest

from penstock.watch.rules import RULES
from tests.web_broker import WebBroker


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("watching")) as broker:
        settings = {"alert_depth": "1,off,off", "dead_letter_topic": ""}
        broker.expect(201, "POST", "/v1/queues", {"name": "jobs", "settings": settings})
        messages = {"messages": [{"body": "a"}, {"body": "b"}]}
        broker.expect(201, "POST", "/v1/queues/jobs/messages", messages)
        broker.expect(503, "GET", "/v1/readings")
        broker.look()
        yield broker


def test_readings(web: WebBroker) -> None:
    found = web.expect(200, "GET", "/v1/readings")
    assert found["totals"]["ready"] == 2
    assert [one["queue"] for one in found["queues"]] == ["jobs"]
    one = web.expect(200, "GET", "/v1/readings?queue=jobs")
    assert (one["queue"], one["group"], one["ready"]) == ("jobs", "queue", 2)
    web.expect(404, "GET", "/v1/readings?queue=none")
    web.expect(404, "GET", "/v1/readings?group=none")


def test_history(web: WebBroker) -> None:
    found = web.expect(200, "GET", "/v1/history?queue=jobs&names=ready,in_rate&since_s=60")
    assert set(found["series"]) == {"ready", "in_rate"}
    assert found["series"]["ready"] == [2]
    assert len(found["times"]) == 1
    whole = web.expect(200, "GET", "/v1/history")
    assert whole["series"]["ready"] == [2]
    assert whole["series"]["in_flight"] == whole["series"]["leased"], "an alias"
    web.expect(200, "GET", "/v1/history?queue=jobs&names=in_flight")
    web.expect(200, "GET", "/v1/history?topic=jobs")
    web.expect(200, "GET", "/v1/history?group=nobody")
    web.expect(200, "GET", "/v1/history?node=1")


@pytest.mark.parametrize("query", ["names=none", "since_s=0", "since_s=x", "since_s=999999"])
def test_history_refuses(web: WebBroker, query: str) -> None:
    web.expect(400, "GET", f"/v1/history?{query}")


def test_alerts(web: WebBroker) -> None:
    found = web.expect(200, "GET", "/v1/alerts")
    (alert,) = found["alerts"]
    assert alert["state"] == "pending"
    assert alert["subject"]["queue"] == "jobs"
    assert alert["runbook"] == "docs/runbooks/depth.md"
    assert {one["rule"] for one in found["rules"]} == set(RULES)
    assert web.expect(200, "GET", "/v1/alerts?state=firing")["alerts"] == []
    web.expect(400, "GET", "/v1/alerts?state=odd")


def test_a_test_needs_a_webhook(web: WebBroker) -> None:
    refused = web.expect(400, "POST", "/v1/alerts/test", {})
    assert "alerts.webhook" in refused["message"]


def test_events(web: WebBroker) -> None:
    found = web.expect(200, "GET", "/v1/events?limit=1")
    assert len(found["events"]) == 1
    every = web.expect(200, "GET", "/v1/events?kind=leadership")["events"]
    assert every
    assert {one["kind"] for one in every} == {"leadership"}
    web.expect(400, "GET", "/v1/events?limit=0")


def test_the_numbers_of_a_queue_are_settings_of_it(web: WebBroker) -> None:
    found = web.expect(200, "GET", "/v1/queues/jobs")
    assert found["settings"]["alert_depth"] == "1,off,off"
    assert found["settings"]["alert_lag"] == "default"
    changed = web.expect(200, "PATCH", "/v1/queues/jobs", {"settings": {"alert.depth": "5,10,20"}})
    assert changed["settings"]["alert_depth"] == "5,10,20"
    web.expect(400, "PATCH", "/v1/queues/jobs", {"settings": {"alert_depth": "lots"}})
    web.expect(200, "PATCH", "/v1/queues/jobs", {"settings": {"alert_depth": None}})
