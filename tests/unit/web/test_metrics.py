"""The metrics at their path, as a scraper finds them."""

import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.web.app import make_app
from tests.unit.watch.scraped import Scraped
from tests.unit.web.asgi import FakeBroker, call
from tests.web_broker import WebBroker


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("web")) as running:
        yield running


def get(web: WebBroker, path: str, headers: dict[str, str] | None = None) -> tuple[int, str, str]:
    with closing(http.client.HTTPConnection(web.http, timeout=60)) as connection:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers["content-type"], answer.read().decode()


def test_a_scraper_gets_text_that_it_can_read(web: WebBroker) -> None:
    web.expect(201, "POST", "/v1/queues", {"name": "seen"})
    status, kind, text = get(web, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert Scraped(text).value("penstock_raft_leader", group="0") == 1


def test_a_queue_with_an_odd_group_stays_text(web: WebBroker) -> None:
    group = 'a "group" <b>\\n'
    web.expect(201, "POST", "/v1/queues", {"name": "odd"})
    web.expect(200, "POST", "/v1/queues/odd/receive", {"group": group})
    _, _, text = get(web, "/metrics?detail=partition")
    groups = Scraped(text).by("penstock_partition_queue_messages", "group", topic="odd")
    assert group in groups


def test_another_detail_is_refused(web: WebBroker) -> None:
    status, _, text = get(web, "/metrics?detail=all")
    assert status == 400
    assert "detail=partition" in text


def test_only_those_who_may_get_it(web: WebBroker) -> None:
    status, _, _ = get(web, "/metrics", {"host": "rebound.example"})
    assert status == 421


def test_a_broker_that_starts_says_so() -> None:
    answer = call(make_app(FakeBroker(node=None)), "GET", "/metrics")
    assert answer.status == 503
