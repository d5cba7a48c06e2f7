"""The first page, of a broker that is at work."""

import http.client
import re
from contextlib import closing
from pathlib import Path

import pytest

from tests.web_broker import WebBroker


def page(broker: WebBroker, path: str = "/") -> str:
    with closing(http.client.HTTPConnection(broker.http, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        return answer.read().decode()


def send(broker: WebBroker, queue: str, count: int) -> None:
    messages = [{"body": str(number)} for number in range(count)]
    broker.expect(201, "POST", f"/v1/queues/{queue}/messages", {"messages": messages})


def kill(broker: WebBroker, queue: str) -> None:
    """One message of it fails for good."""
    got = broker.expect(200, "POST", f"/v1/queues/{queue}/receive", {"max": 1})["messages"]
    verdicts = [{"receipt": one["receipt"], "verdict": "reject"} for one in got]
    broker.expect(200, "POST", f"/v1/queues/{queue}/settle", {"verdicts": verdicts})


@pytest.mark.slow
def test_the_queue_that_fails_comes_first(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker:
        assert "Collecting the first readings" in page(broker)
        broker.look()
        assert "No queues yet" in page(broker)
        for name in ("a-fine", "b-waits", "c-fails"):
            body = {"name": name, "settings": {"dead_letter_topic": ""}}
            broker.expect(201, "POST", "/v1/queues", body)
        send(broker, "b-waits", 1_000)
        send(broker, "c-fails", 3)
        kill(broker, "c-fails")
        broker.look()
        text = page(broker)
        order = re.findall(r'<tr id="queue-([\w-]+)-queue">', text)
        assert order == ["c-fails", "b-waits", "a-fine"]
        assert "1 queue of 3 needs a look" in text
        assert '<span class="badge attention">1 dead</span>' in text
        assert '<td class="number">1,000</td>' in text
        told = broker.expect(200, "GET", "/?format=json")
        assert told["queues"][0]["reading"]["queue"] == "c-fails"
        assert told["readings"]["totals"]["dead_letters"] == 1


@pytest.mark.slow
def test_every_page_of_a_broker_that_is_at_work(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker:
        broker.expect(201, "POST", "/v1/queues", {"name": "jobs"})
        send(broker, "jobs", 2)
        broker.look()
        for path in ("/cluster", "/alerts", "/pipelines", "/settings", "/audit", "/search?q=jobs"):
            text = page(broker, path)
            assert text.startswith("<!doctype html>"), path
            assert "jobs" in text or "search" not in path
        assert "Dead letters" in page(broker, "/alerts"), "the rules are there, too"
        assert "leads in term" in page(broker, "/cluster?kind=leadership")
