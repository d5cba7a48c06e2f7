"""A whole broker, its watch and its webhook: what clients do is seen, and somebody is told."""

import asyncio
import http.client
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest

import penstock
from penstock.testing import PenstockServer
from tests.cluster.waiting import wait_until
from tests.unit.watch.test_webhook import Receiver
from tests.web_broker import ask

pytestmark = pytest.mark.slow


def found(broker: PenstockServer, path: str) -> Any:
    status, document = ask(broker.places.http, "GET", path)
    return document if status == 200 else None


def order(broker: PenstockServer, path: str, body: object) -> None:
    status, document = ask(broker.places.http, "POST", path, body)
    assert status < 300, document


def sqs(broker: PenstockServer, action: str, **said: str) -> bytes:
    place = urlsplit(broker.sqs_url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    form = urlencode({"Action": action, "Version": "2012-11-05", **said})
    connection.request("POST", "/", form, {"content-type": "application/x-www-form-urlencoded"})
    try:
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body
    finally:
        connection.close()


def test_somebody_is_told_when_it_begins_and_when_it_is_over() -> None:
    receiver = Receiver()
    settings = {
        "alerts.webhook": receiver.url,
        "alerts.hold": "0s",
        "alerts.clear": "0s",
        "alerts.depth": "off,2,off",
    }
    try:
        with PenstockServer(settings=settings) as broker:
            order(broker, "/v1/queues", {"name": "jobs"})
            messages = {"messages": [{"body": "a"}] * 3}
            order(broker, "/v1/queues/jobs/messages", messages)
            wait_until(lambda: len(receiver.got) == 1, "a notice that it fires", seconds=30)
            order(broker, "/v1/queues/jobs/purge", {})
            wait_until(lambda: len(receiver.got) == 2, "a notice that it is over", seconds=30)
            order(broker, "/v1/alerts/test", {})
            shown = msgspec.json.encode(found(broker, "/v1/config"))
            alerts = msgspec.json.encode(found(broker, "/v1/alerts"))
            lines = msgspec.json.encode(found(broker, "/v1/events"))
    finally:
        receiver.close()
    begun, over, test = (body for _, _, body in receiver.got)
    assert (begun["alert"]["state"], begun["alert"]["level"]) == ("firing", "warning")
    assert begun["alert"]["key"] == over["alert"]["key"] == "depth:queue/jobs/queue"
    assert over["alert"]["state"] == "resolved"
    assert test["test"] is True
    assert b"geheim" not in shown + alerts + lines


def test_workers_of_every_protocol_are_consumers() -> None:
    with PenstockServer() as broker:
        for name in ("by-http", "by-sqs", "by-native"):
            order(broker, "/v1/queues", {"name": name, "settings": {"dead_letter_topic": ""}})
        order(broker, "/v1/queues/by-http/receive", {"max": 1})
        url = f"{broker.sqs_url}/000000000000/by-sqs"
        sqs(broker, "ReceiveMessage", QueueUrl=url)

        async def receive() -> None:
            async with penstock.connect(broker.url) as client:
                await client.queue("by-native").receive(wait=0)

        asyncio.run(receive())

        def all_seen() -> bool:
            readings = found(broker, "/v1/readings")
            if readings is None:
                return False
            seen = {one["queue"]: one["consumers"] for one in readings["queues"]}
            return seen == {"by-http": 1, "by-sqs": 1, "by-native": 1}

        wait_until(all_seen, "three queues with a consumer each", seconds=30)
