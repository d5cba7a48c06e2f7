"""Search by name."""

import pytest

from penstock.web.dashboard.pages.search import find, looks_like_message
from tests.unit.web.asgi import FakeBroker, FakeTopic


def test_what_begins_with_the_text_comes_first() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    names = ("orders", "new-orders", "orders-2", "__audit", "Order")
    broker.node.engine.topics.catalog.topics = {name: FakeTopic((1,)) for name in names}
    found = [(one.kind, one.name) for one in find(broker, "order")]
    assert found == [
        ("topic", "Order"), ("topic", "orders"), ("topic", "orders-2"), ("topic", "new-orders"),
    ]  # fmt: skip
    assert find(broker, "audit")[0].href == "/audit", "a page, and not what is internal"


def test_a_queue_is_one_before_the_watch_has_seen_it() -> None:
    broker = FakeBroker()
    assert broker.node is not None
    topics = broker.node.engine.topics.catalog.topics
    topics["jobs"] = FakeTopic((1,), {"queue.order": "standard"})
    topics["job-log"] = FakeTopic((1,))
    found = {one.name: one.href for one in find(broker, "job")}
    assert found == {"jobs": "/queues/jobs", "job-log": "/topics/job-log"}


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("0d4e2f1a-8b1c-8e2f-9a3b-0123456789ab", True),
        ("orders/0/17", True),
        ("orders", False),
        ("a 12345", False),
        ("17", False),
    ],
)
def test_the_id_of_a_message(text: str, is_one: bool) -> None:
    assert looks_like_message(text) is is_one
    found = [one.href for one in find(FakeBroker(node=None), text) if one.kind == "message"]
    assert bool(found) is is_one
