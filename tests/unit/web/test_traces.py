"""What became of a message, over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.web_broker import WebBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WebBroker]:
    with WebBroker(tmp_path) as running:
        yield running


def test_a_message_received_over_http(broker: WebBroker) -> None:
    assert broker.ask("POST", "/v1/queues", {"name": "jobs"})[0] == 201
    odd = {"body": {"base64": "/w=="}, "key": "<k>"}
    assert broker.ask("POST", "/v1/queues/jobs/messages", odd)[0] == 201
    status, got = broker.ask("POST", "/v1/queues/jobs/receive", {"wait_ms": 5_000})
    assert (status, len(got["messages"])) == (200, 1)
    status, found = broker.ask("GET", "/v1/trace/jobs:0:0")
    assert status == 200
    [seen] = found["sightings"]
    assert seen["place"] == {"topic": "jobs", "partition": 0, "offset": 0}
    assert (seen["body"], seen["key"]) == ({"base64": "/w=="}, "<k>")
    [event] = seen["happenings"]
    assert event["what"] == "delivered"
    assert "(http" in event["receiver"]
    assert broker.ask("GET", f"/v1/trace/{seen['id']}?in=jobs")[1]["sightings"] == [seen]


@pytest.mark.parametrize(
    ("message", "status", "name"),
    [
        ("00000000-0000-8000-8000-000000000000", 404, "UnknownMessage"),
        ("what is that", 400, "InvalidRequest"),
        ("nowhere:0:0", 404, "UnknownTopic"),
    ],
)
def test_what_is_not_there(broker: WebBroker, message: str, status: int, name: str) -> None:
    found = broker.ask("GET", f"/v1/trace/{quote(message)}")
    assert (found[0], found[1]["error"]) == (status, name)
