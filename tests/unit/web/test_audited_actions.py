"""Which requests are orders, and that they leave a line behind."""

import http.client
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.web.audited_actions import find_order
from penstock.web.guard import TOKEN_HEADER
from penstock.web.tokens import page_token
from tests.web_broker import ServingBroker, WebBroker


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("DELETE", "/v1/queues/jobs", ("delete queue", "jobs")),
        ("POST", "/v1/queues/a b/purge", ("purge queue", "a b")),
        ("POST", "/v1/groups/readers/a/reset", ("reset group", "readers/a")),
        ("DELETE", "/v1/cluster/members/3", ("remove node", "3")),
        ("POST", "/v1/queues", ("create queue", "")),
        ("POST", "/v1/alerts/test", ("test alerts", "")),
        ("POST", "/v1/alerts/ack", ("acknowledge alert", "")),
        ("POST", "/v1/alerts/silences", ("silence alerts", "")),
        ("DELETE", "/v1/alerts/silences/7f", ("end silence", "7f")),
        ("GET", "/v1/queues/jobs", None),
        ("POST", "/v1/queues/jobs/messages", None),
        ("POST", "/v1/queues/jobs/receive", None),
        ("POST", "/v1/queues/jobs/settle", None),
    ],
)
def test_orders_are_told_from_work(method: str, path: str, found: tuple[str, str] | None) -> None:
    assert find_order(method, path) == found


def orders(broker: WebBroker, count: int) -> list[Any]:
    """As soon as there are so many; recording them takes a moment."""
    while True:
        found: list[Any] = broker.expect(200, "GET", "/v1/audit")["orders"]
        if len(found) >= count:
            return found


@pytest.mark.slow
def test_an_order_leaves_a_line(tmp_path: Path) -> None:
    with WebBroker(tmp_path) as broker:
        assert broker.expect(200, "GET", "/v1/audit") == {"orders": []}
        broker.expect(201, "POST", "/v1/queues", {"name": "jobs"})
        broker.expect(201, "POST", "/v1/queues/jobs/messages", {"messages": [{"body": "secret"}]})
        reset = {"start": "earliest", "dry_run": True}
        broker.expect(200, "POST", "/v1/queues/jobs/reset", reset)  # It orders nothing.
        broker.expect(404, "POST", "/v1/queues/none/purge")
        purge(broker)
        found = orders(broker, 3)
        assert [(one["action"], one["target"], one["outcome"]) for one in found] == [
            ("purge queue", "jobs", "done"),
            ("purge queue", "none", "refused: 404"),
            ("create queue", "jobs", "done"),
        ]
        assert found[0]["who"] == "127.0.0.1 (dashboard)"
        assert found[1]["who"] == "127.0.0.1 (http)"
        assert "secret" not in str(found), "what is in messages is nobody's business here"
    with WebBroker(tmp_path) as broker:
        assert len(orders(broker, 3)) == 3, "and stays"


def purge(broker: WebBroker) -> None:
    """As the dashboard does it."""
    token = page_token(ServingBroker(broker.node))
    with closing(http.client.HTTPConnection(broker.http, timeout=60)) as connection:
        connection.request(
            "POST",
            "/v1/queues/jobs/purge",
            msgspec.json.encode({}),
            {
                "content-type": "application/json",
                "origin": f"http://{broker.http}",
                TOKEN_HEADER: token,
            },
        )
        assert connection.getresponse().status == 200
