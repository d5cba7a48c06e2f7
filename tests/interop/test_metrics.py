"""What real clients do is counted, by the protocol they speak."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import boto3
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Consumer, Producer

from penstock import blocking
from penstock.testing.server import PenstockServer
from tests.cluster.waiting import wait_until
from tests.unit.watch.scraped import Scraped

SECONDS_MAX = 30


@pytest.fixture(scope="module")
def server() -> Iterator[PenstockServer]:
    with PenstockServer(settings={"topics.partitions_default": 1}) as running:
        yield running


def scrape(server: PenstockServer, path: str = "/metrics") -> Scraped:
    with urllib.request.urlopen(server.http_url + path, timeout=SECONDS_MAX) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return Scraped(answer.read().decode())


def scrape_until(
    server: PenstockServer, holds: Callable[[Scraped], bool], path: str = "/metrics"
) -> Scraped:
    """A page serves for a second or two: ask until it is as new as it must be."""
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        page = scrape(server, path)
        if holds(page) or time.monotonic() >= deadline:
            return page
        time.sleep(0.1)


def test_kafka_clients(server: PenstockServer) -> None:
    producer = Producer({"bootstrap.servers": server.kafka, "linger.ms": 50})
    for number in range(500):
        producer.produce("from-kafka", b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": server.kafka,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["from-kafka"])
    got = 0
    while got < 500:
        got += len(consumer.consume(100, 1.0))
    consumer.commit(asynchronous=False)
    for number in range(20):
        producer.produce("from-kafka", b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0
    lagging = {"consumergroup": "readers", "topic": "from-kafka"}
    page = scrape_until(
        server,
        lambda page: page.total("kafka_consumergroup_lag_sum", **lagging) == 20,
        "/metrics?detail=partition",
    )
    kafka = {"destination": "from-kafka", "protocol": "kafka"}
    assert page.value("penstock_messages_produced_total", **kafka) == 520
    assert 500 <= page.value("penstock_messages_delivered_total", **kafka) <= 520
    assert page.value("penstock_bytes_produced_total", **kafka) > 520
    lag = page.value("penstock_consumer_group_lag_messages", group="readers", topic="from-kafka")
    assert lag == 20
    alias = page.value(
        "kafka_consumergroup_lag", consumergroup="readers", topic="from-kafka", partition="0"
    )
    assert alias == 20
    assert page.value("queue_consumer_lag", group="readers", queue="from-kafka") == 20
    assert page.value("penstock_consumer_group_members", group="readers") == 1
    produced = page.value(
        "penstock_request_duration_seconds_count", protocol="kafka", api="Produce"
    )
    assert 2 <= produced < 100, "one for each request, not for each message"
    fetched = page.value("penstock_request_duration_seconds_sum", protocol="kafka", api="Fetch")
    assert fetched < 0.5, "waiting for messages is not counted"
    assert page.value("penstock_connections", protocol="kafka") >= 2
    assert page.value("penstock_network_bytes_total", protocol="kafka", direction="in") > 1_000
    consumer.close()


def test_sqs_clients(server: PenstockServer) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=server.sqs_url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    url = sqs.create_queue(QueueName="from-sqs")["QueueUrl"]
    entries = [{"Id": str(number), "MessageBody": "hello"} for number in range(10)]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    for message in messages[:-1]:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    handle = messages[-1]["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)
    with pytest.raises(ClientError):
        sqs.get_queue_url(QueueName="nowhere")
    failed = "penstock_request_errors_total"
    page = scrape_until(server, lambda page: page.total(failed, api="GetQueueUrl") == 1)
    counted = {"destination": "from-sqs"}
    assert page.value("penstock_messages_produced_total", **counted, protocol="sqs") == 10
    assert page.value("penstock_messages_delivered_total", **counted, protocol="sqs") == 11
    assert page.value("penstock_messages_acked_total", **counted) == 9
    assert page.value("penstock_messages_redelivered_total", **counted) == 1
    assert page.total("penstock_messages_failed_total", **counted) == 1
    states = page.by("penstock_queue_messages", "state", queue="from-sqs")
    assert (states["leased"], states["in_flight"]) == (1, 1), "the old name is an alias"
    sent = {"protocol": "sqs", "api": "SendMessageBatch"}
    assert page.value("penstock_request_duration_seconds_count", **sent) == 1
    waited = {"protocol": "sqs", "api": "ReceiveMessage"}
    assert page.value("penstock_request_duration_seconds_sum", **waited) < 0.9, "it waited a second"
    errors = page.by("penstock_request_errors_total", "code", protocol="sqs", api="GetQueueUrl")
    assert errors == {"AWS.SimpleQueueService.NonExistentQueue": 1}
    assert page.value("penstock_connections_accepted_total", protocol="sqs") >= 1


def test_native_clients(server: PenstockServer) -> None:
    with blocking.connect(server.url) as client:
        client.create_queue("from-native")
        queue = client.queue("from-native")
        for number in range(30):
            queue.send(f"{number}".encode())
        (message,) = queue.receive(1, wait=10)
        message.ack()
    acked = "penstock_messages_acked_total"
    page = scrape_until(server, lambda page: page.total(acked, destination="from-native") == 1)
    counted = {"destination": "from-native"}
    assert page.value("penstock_messages_produced_total", **counted, protocol="native") == 30
    assert page.value("penstock_messages_delivered_total", **counted, protocol="native") >= 1
    assert page.value("penstock_messages_acked_total", **counted) == 1
    taken = page.value("penstock_request_duration_seconds_count", protocol="native", api="Take")
    assert taken >= 1
    assert page.value("penstock_connections_accepted_total", protocol="native") >= 1


def test_http_clients_are_counted_by_route_and_never_by_what_they_make_up(
    server: PenstockServer,
) -> None:
    for path in ("/v1/cluster", "/v1/cluster", "/no/such/path", "/other/path"):
        try:
            with urllib.request.urlopen(server.http_url + path, timeout=SECONDS_MAX) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            error.close()
    timed = "penstock_request_duration_seconds_count"
    failed = "penstock_request_errors_total"
    page = scrape_until(
        server,
        lambda page: (
            page.total(timed, api="GET /v1/cluster") == 2
            and page.total(timed, protocol="http", api="other") >= 2
            and page.total(failed, protocol="http", api="other") >= 2
        ),
    )
    apis = page.by("penstock_request_duration_seconds_count", "api", protocol="http")
    assert apis["GET /v1/cluster"] == 2
    assert apis["other"] >= 2
    assert not any("such" in api for api in apis)
    codes = page.by("penstock_request_errors_total", "code", protocol="http", api="other")
    assert codes["404"] >= 2
    with pytest.raises(urllib.error.HTTPError, match="400"):
        scrape(server, "/metrics?detail=everything")


def test_slow_requests_of_every_protocol_get_a_line(
    server: PenstockServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is slow if nothing is fast enough."""
    assert server._server is not None
    node = server._server.node
    assert node is not None
    monkeypatch.setattr(node.engine.topics.slow_requests, "seconds", 0.0)
    monkeypatch.setattr("penstock.engine.topics.slow_requests.LINES_PER_SECOND_MAX", 1_000)
    producer = Producer({"bootstrap.servers": server.kafka, "client.id": "slow one"})
    producer.produce("slow", b"message")
    assert producer.flush(SECONDS_MAX) == 0
    with blocking.connect(server.url) as client:
        client.create_queue("slow-queue")
    scrape(server)
    sqs = boto3.client(
        "sqs",
        endpoint_url=server.sqs_url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )
    sqs.list_queues()

    def said() -> list[str]:
        return [one.getMessage() for one in list(caplog.records) if one.name == "penstock.slow"]

    expected = (
        "slow request: kafka Produce v",
        "slow request: native CreateTopic of 127.0.0.1:",
        "slow request: http GET /metrics of 127.0.0.1 took",
        "slow request: sqs ListQueues of 127.0.0.1:",
    )

    def missing() -> list[str]:
        return [one for one in expected if not any(line.startswith(one) for line in said())]

    # A line is written when the answer has gone out: whoever has the answer may be the earlier.
    wait_until(
        lambda: not missing(), lambda: f"{missing()} are not in {said()}", seconds=SECONDS_MAX
    )
    (produced,) = [line for line in said() if " Produce v" in line and "slow one at" in line]
    assert "; " in produced, "it says what it waited for"
    counted = "penstock_slow_requests_total"
    assert scrape_until(server, lambda page: page.total(counted) > 4).total(counted) > 4
