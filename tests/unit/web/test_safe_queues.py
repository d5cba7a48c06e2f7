"""A queue that is created over HTTP has safe settings for failed messages, unless it has others."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core.errors import CatalogFull
from penstock.core.topic import Topic
from penstock.engine.engine import Engine
from penstock.web import queues
from tests.web_broker import WebBroker


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("safe")) as broker:
        yield broker


def test_a_queue_of_which_nothing_is_said_is_safe(web: WebBroker) -> None:
    made = web.expect(201, "POST", "/v1/queues", {"name": "safe", "partitions": 2})
    assert made["created"] == ["safe", "safe-dlq"]
    settings = made["settings"]
    assert (settings["deliveries_max"], settings["retry_policy"]) == (5, "jittered")
    assert (settings["retry_delay_ms"], settings["dead_letter_topic"]) == (2_000, "safe-dlq")
    letters = web.expect(200, "GET", "/v1/queues/safe-dlq")
    assert (letters["partitions"], letters["dead_letter_topic"]) == (1, "")


def test_what_is_said_of_a_new_queue_counts(web: WebBroker) -> None:
    settings = {"deliveries_max": 0, "retry_policy": "none", "dead_letter_topic": ""}
    made = web.expect(201, "POST", "/v1/queues", {"name": "bare", "settings": settings})
    assert made["created"] == ["bare"]
    assert {name: made["settings"][name] for name in settings} == settings
    settings = {"deliveries_max": None, "retry_delay_ms": "10m"}
    made = web.expect(201, "POST", "/v1/queues", {"name": "slowly", "settings": settings})
    assert made["settings"]["deliveries_max"] == 5, "null is the default of a new queue"
    assert made["settings"]["retry_delay_max_ms"] == 600_000


def test_a_default_dead_letter_queue_that_cannot_be_made_is_no_failure(
    web: WebBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic = queues._make

    async def refuse(engine: Engine, name: str, *rest: Any) -> Topic:
        if name.endswith("-dlq"):
            raise CatalogFull("no more topics")
        return await make_topic(engine, name, *rest)

    monkeypatch.setattr(queues, "_make", refuse)
    assert web.expect(201, "POST", "/v1/queues", {"name": "alone"})["created"] == ["alone"]
    body = {"name": "named", "settings": {"dead_letter_topic": "named-dlq"}}
    assert web.ask("POST", "/v1/queues", body)[0] >= 400
