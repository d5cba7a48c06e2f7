"""One broker, three protocols: what became of a message, and the trace that it belongs to."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition

import penstock
from penstock.client.blocking.client import BlockingClient
from penstock.client.blocking.message import BlockingMessage
from tests.interop.served import Served, serving

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
STATE = "rojo=00f067aa0ba902b7"
AMAZON = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
KEEP = {"queue.delete.acked": "false"}
SQS_HEADERS = {
    "traceparent": {"DataType": "String", "StringValue": PARENT},
    "tracestate": {"DataType": "String", "StringValue": STATE},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("tracing")) as broker:
        yield broker


@pytest.fixture
def native(served: Served) -> Iterator[BlockingClient]:
    settings = penstock.ClientSettings(client_id="packer-7")
    with penstock.blocking.connect(f"penstock://{served.kafka}", settings=settings) as client:
        yield client


def url_of(served: Served, name: str) -> str:
    return f"{served.url}/000000000000/{name}"


def seen(served: Served, message: str) -> list[dict[str, Any]]:
    answer = served.ask("GET", f"/v1/trace/{message}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.document["sightings"]
    return found


def share_consumer(served: Served, queue: str) -> ShareConsumer:
    client = ShareConsumer(
        {
            "bootstrap.servers": served.kafka,
            "group.id": "queue",
            "client.id": "checkout",
            "share.acknowledgement.mode": "explicit",
        }
    )
    client.subscribe([queue])
    return client


def one_of(receive: Callable[[], Sequence[Any]]) -> Any:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        for message in receive():
            return message
    raise AssertionError("no message came")


def by_share_group(served: Served, queue: str, verdict: AcknowledgeType) -> dict[str, bytes]:
    """Receive one message, say something about it, and give its headers."""
    client = share_consumer(served, queue)
    try:
        message = one_of(lambda: list(client.poll(0.2)))
        client.acknowledge(message, verdict)
        client.commit_sync(SECONDS_MAX)
        return dict(message.headers() or [])
    finally:
        client.close()


def by_sqs(served: Served, queue: str) -> dict[str, Any]:
    """Receive one message and leave it for one second."""
    message: dict[str, Any] = one_of(
        lambda: (
            served.client()
            .receive_message(
                QueueUrl=url_of(served, queue),
                WaitTimeSeconds=5,
                MessageAttributeNames=["All"],
                MessageSystemAttributeNames=["All"],
            )
            .get("Messages", [])
        )
    )
    return message


def test_one_message_goes_through_all_hands(served: Served, native: BlockingClient) -> None:
    native.create_queue("orders", settings=KEEP)
    sent = native.send("orders", b"one", headers={"traceparent": PARENT, "tracestate": STATE})
    said = by_share_group(served, "orders", AcknowledgeType.RELEASE)
    assert (said["traceparent"], said["tracestate"]) == (PARENT.encode(), STATE.encode())
    received = by_sqs(served, "orders")
    assert received["MessageId"] == sent.id
    assert {name: one["StringValue"] for name, one in received["MessageAttributes"].items()} == {
        "traceparent": PARENT,
        "tracestate": STATE,
    }
    served.client().change_message_visibility(
        QueueUrl=url_of(served, "orders"),
        ReceiptHandle=received["ReceiptHandle"],
        VisibilityTimeout=0,
    )
    message: BlockingMessage[Any] = one_of(lambda: native.receive("orders", wait=5))
    assert message.headers["traceparent"] == PARENT.encode()
    message.ack()
    [found] = seen(served, sent.id)
    address = r"127\.0\.0\.1:\d+"
    expected = [
        ("delivered", rf"checkout \(kafka, {address}\)"),
        ("released", rf"checkout \(kafka, {address}\)"),
        ("delivered", rf"Boto3/\S+ \(sqs, {address}\)"),
        ("released", rf"Boto3/\S+ \(sqs, {address}\)"),
        ("delivered", rf"packer-7 \(native, {address}\)"),
        ("acked", rf"packer-7 \(native, {address}\)"),
    ]
    for one, (what, who) in zip(found["happenings"], expected, strict=True):
        assert one["what"] == what
        assert re.fullmatch(who, one["receiver"]), one
    assert found["trace"] == TRACE
    assert found["is_complete"]
    assert found["written"]["nodes"] == [1]
    assert found["written"]["index"] > 0


@pytest.mark.parametrize("protocol", ["kafka", "sqs", "native"])
def test_a_trace_survives_death_and_coming_back(
    served: Served, native: BlockingClient, protocol: str
) -> None:
    queue, letters = f"{protocol}-jobs", f"{protocol}-letters"
    native.create_queue(letters)
    native.create_queue(queue, deliveries_max=1, dead_letter=letters, settings=KEEP)
    if protocol == "kafka":
        producer = Producer({"bootstrap.servers": served.kafka})
        producer.produce(queue, b"bad", headers=[("traceparent", PARENT.encode())], partition=0)
        assert producer.flush(SECONDS_MAX) == 0
        wanted = f"{queue}:0:0"
    elif protocol == "sqs":
        wanted = served.client().send_message(
            QueueUrl=url_of(served, queue),
            MessageBody="bad",
            MessageAttributes=SQS_HEADERS,
            MessageSystemAttributes={
                "AWSTraceHeader": {"DataType": "String", "StringValue": AMAZON}
            },
        )["MessageId"]
    else:
        wanted = native.send(queue, b"bad", headers={"traceparent": PARENT}).id
    message = one_of(lambda: native.receive(queue, wait=5))
    message.release()
    letter = one_of(lambda: native.queue(letters).peek(1))
    assert letter.headers["traceparent"] == PARENT.encode()
    assert native.queue(letters).redrive().count == 1
    back = one_of(lambda: native.receive(queue, wait=5))
    assert back.headers["traceparent"] == PARENT.encode()
    if protocol == "sqs":
        assert back.headers["AWSTraceHeader"] == AMAZON.encode()
        assert back.headers["tracestate"] == STATE.encode()
    back.ack()
    found = seen(served, wanted)
    assert [one["what"] for one in found[0]["happenings"]] == ["delivered", "released", "buried"]
    assert found[-1]["place"] == {"topic": queue, "partition": 0, "offset": 1}
    assert [one["what"] for one in found[-1]["happenings"]] == ["delivered", "acked"]


def test_readers_of_a_topic(served: Served) -> None:
    producer = Producer({"bootstrap.servers": served.kafka})
    producer.produce("news", b"one", headers=[("traceparent", PARENT.encode())], partition=0)
    assert producer.flush(SECONDS_MAX) == 0
    consumer = Consumer({"bootstrap.servers": served.kafka, "group.id": "desk"})
    try:
        consumer.assign([TopicPartition("news", 0, 0)])
        message = one_of(lambda: consumer.consume(1, 1.0))
        consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()
    [found] = seen(served, "news:0:0")
    [reader] = found["readers"]
    assert (reader["group"], reader["committed"]) == ("desk", 1)
    assert 0 < reader["passed_ms"] <= reader["time_ms"]
    answer = served.ask("GET", "/v1/trace/00000000-0000-8000-8000-000000000000")
    assert (answer.status, answer.document["error"]) == (404, "UnknownMessage")
    assert served.ask("GET", "/v1/trace/what").status == 400


def test_the_command(served: Served, native: BlockingClient) -> None:
    native.create_queue("told", settings=KEEP)
    sent = native.send("told", b"one", headers={"traceparent": PARENT})
    native.receive("told", wait=5)[0].ack()
    told = subprocess.run(
        [str(Path(sys.executable).parent / "penstock"), "trace", sent.id,
         "--url", f"penstock://{served.kafka}"],
        capture_output=True, text=True, check=True, timeout=SECONDS_MAX,
    ).stdout  # fmt: skip
    assert f"trace       {TRACE}\n" in told
    assert re.search(r"event       20\S+Z delivered to packer-7 \(native, .*, delivery 1", told)
    assert re.search(r"event       20\S+Z acked by packer-7", told)
    assert re.search(r"written     20\S+Z, shard \d, term \d+, index \d+; on node 1", told)
