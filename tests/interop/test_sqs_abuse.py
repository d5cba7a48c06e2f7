"""What no client should send, and what too many clients do at once, against a real broker.

Everything gets an answer that says what is wrong, or an end of the connection, soon; and the broker
goes on serving, which every test looks at in the end.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError

from penstock.core.limits import SQS_BODY_BYTES_MAX
from tests.cluster.waiting import pass_time
from tests.interop.query import FORM, read
from tests.interop.served import (
    Answer,
    Served,
    code_of,
    counts,
    many_connections,
    path_of,
    serving,
)

pytestmark = pytest.mark.slow

SECONDS_MAX = 30.0
SOON_SECONDS = 10.0
MIB = 1 << 20
IDLE_CONNECTIONS = 2_000
TARGET = "X-Amz-Target"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("abuse"), "--sqs.cooldown=0s") as running:
        yield running


@pytest.fixture
def served(broker: Served) -> Iterator[Served]:
    """The broker; afterwards it serves as before."""
    yield broker
    client = broker.client()
    url = client.create_queue(QueueName="alive")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="alive")
    (message,) = client.receive_message(QueueUrl=url)["Messages"]
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.fixture
def queue(served: Served, request: pytest.FixtureRequest) -> str:
    """The URL of a queue of this test's own."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:60]
    url: str = served.client().create_queue(QueueName=name)["QueueUrl"]
    return url


def check_refused(answer: Answer, *shapes: str) -> None:
    """It is an error of the JSON protocol that is the sender's fault and says something."""
    assert 400 <= answer.status < 500, answer
    document = answer.document
    assert document["message"]
    assert document["__type"].rpartition("#")[2] in shapes, document
    legacy, _, fault = answer.headers["x-amzn-query-error"].partition(";")
    assert legacy
    assert fault == "Sender"


# Bodies.


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\x00",
        b'{"QueueUrl": "',
        b'{"QueueUrl": "x", "MessageBody": "\xff"}',
        b'{"QueueUrl": "x", "MessageBody": "\\ud800"}',
        b'{"QueueUrl": "x", "MessageBody": "a\x00b"}',
        b"[" * 500_000,
        b'{"x":' * 200_000 + b"1" + b"}" * 200_000,
        b'{"MessageAttributes": ' + b'{"a": ' * 100_000,
        b"[]",
        b"null",
        b"17",
        b'"text"',
        b'{"QueueUrl": 5}',
        b'{"QueueUrl": "x", "MessageBody": ["x"]}',
        b'{"QueueUrl": "x", "DelaySeconds": "5"}',
        b'{"QueueUrl": "x", "DelaySeconds": 5.5}',
        b'{"QueueUrl": "x", "MessageAttributes": []}',
        b'{"QueueUrl": "x", "MessageAttributes": {"a": {"BinaryValue": "*"}}}',
        b"\xef\xbb\xbf{}",
    ],
)
def test_bodies_that_are_no_request(served: Served, body: bytes) -> None:
    check_refused(served.call("SendMessage", body), "SerializationException")


def test_numbers_out_of_all_bounds(served: Served, queue: str) -> None:
    for number in (-1, -(2**63), 2**63, 10**400):
        for action, name in (
            ("ReceiveMessage", "MaxNumberOfMessages"),
            ("ReceiveMessage", "WaitTimeSeconds"),
            ("ReceiveMessage", "VisibilityTimeout"),
            ("SendMessage", "DelaySeconds"),
        ):
            document = {"QueueUrl": queue, "MessageBody": "x", name: number}
            answer = served.call(action, document)
            check_refused(answer, "InvalidParameterValueException", "SerializationException")
    assert counts(served.client(), queue) == (0, 0, 0)


@pytest.mark.parametrize("text", ["\x00", "a\x0bb", "\x1f", "\ufffe", "x\uffff"])
def test_characters_that_no_message_may_have(served: Served, queue: str, text: str) -> None:
    answer = served.call("SendMessage", {"QueueUrl": queue, "MessageBody": text})
    check_refused(answer, "InvalidMessageContents")
    attribute = {"DataType": "String", "StringValue": text}
    document = {"QueueUrl": queue, "MessageBody": "x", "MessageAttributes": {"a": attribute}}
    check_refused(served.call("SendMessage", document), "InvalidParameterValueException")
    form = urlencode({"Action": "SendMessage", "MessageBody": text}).encode()
    sent = served.ask("POST", path_of(queue), form, FORM)
    assert read(sent.status, sent.body).text("Code") == "InvalidMessageContents"
    assert counts(served.client(), queue) == (0, 0, 0)


def test_bodies_above_the_bound(served: Served) -> None:
    large = b"x" * (SQS_BODY_BYTES_MAX + 1)
    answer = served.ask("POST", "/", large, {TARGET: "AmazonSQS.SendMessage"})
    assert answer.status == 413
    assert answer.document["__type"].endswith("#RequestEntityTooLargeException")
    answer = served.ask("POST", "/", large, FORM)
    assert answer.status == 413
    assert read(answer.status, answer.body).text("Code") == "RequestEntityTooLarge"
    # Without saying so beforehand.
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
    chunks = (
        b"".join(b"100000\r\n%b\r\n" % (b"x" * MIB) for _ in range(1 + SQS_BODY_BYTES_MAX // MIB))
        + b"0\r\n\r\n"
    )
    said = talk(served, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
    assert said.startswith(b"HTTP/1.1 413 ")
    claims = talk(served, head + b"Content-Length: 99999999999999999999\r\n\r\n{")
    assert claims == b"" or claims.split()[1] in {b"400", b"413"}


# Forms.


def form_code(served: Served, path: str, form: bytes) -> str:
    answer = served.ask("POST", path, form, FORM)
    assert answer.status == 400
    return read(answer.status, answer.body).text("Code")


def test_forms_that_are_bombs(served: Served, queue: str) -> None:
    path = path_of(queue)
    start = b"Action=SendMessage&MessageBody=x"
    many = b"".join(b"&a%d=b" % number for number in range(100_000))
    assert form_code(served, path, start + many) == "MalformedInput"
    many = b"".join(b"&MessageAttribute.%d.Name=b" % number for number in range(100_000))
    assert form_code(served, path, start + many) == "MalformedInput"
    deep = b"&" + b".".join([b"a"] * 100_000) + b"=1"
    assert form_code(served, path, start + deep) == "MalformedInput"
    assert form_code(served, path, b"Action=SendMessage&MessageBody=%ff%fe") == "MalformedInput"
    assert form_code(served, path, b"Action=SendMessage&MessageBody=\xff") == "MalformedInput"
    assert form_code(served, path, b"Action=ReceiveMessage&MaxNumberOfMessages=x") == (
        "MalformedInput"
    )
    mixed = b"&MessageAttribute=1&MessageAttribute.1.Name=z&MessageAttribute.1.Name.x=z"
    assert form_code(served, path, start + mixed) in {"InvalidParameterValue", "MalformedInput"}
    assert counts(served.client(), queue) == (0, 0, 0)


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/json", "multipart/form-data; boundary=x", "\x7f"]
)
def test_content_types_of_something_else(served: Served, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = served.ask("POST", "/", b"Action=ListQueues", headers)
    assert answer.status in {400, 405, 415}
    assert answer.body


# HTTP.


def talk(served: Served, data: bytes) -> bytes:
    """What is answered to these bytes, until the broker ends the connection or says no more."""
    host, _, port = served.http.rpartition(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        connection.settimeout(2.0)
        with contextlib.suppress(TimeoutError, ConnectionError):
            while more := connection.recv(65_536):
                said += more
    return said


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 200,
        b"\x00\x00\x00\x20\x00\x12\x00\x03\x00\x00\x00\x00\xff\xff",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n123456",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nX-Amz-Target: AmazonSQS.ListQueues\r\nContent-Length: 1e3\r\n\r\n",
        b"GET /" + b"x" * 300_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X-Many: y\r\n" * 50_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nX-Large: " + b"y" * 300_000 + b"\r\n\r\n",
        b"GET /?Action=ListQueues HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET /?Action=ListQueues HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_what_is_no_http_ends_the_connection(served: Served, data: bytes) -> None:
    said = talk(served, data)
    assert said == b"" or 400 <= int(said.split()[1]) < 500, said[:200]


def test_a_request_may_come_byte_by_byte(served: Served, queue: str) -> None:
    body = json.dumps({"QueueUrl": queue, "MessageBody": "slowly"}).encode()
    head = b"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n"
    data = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
    host, _, port = served.http.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(len(data)):
            connection.sendall(data[number : number + 1])
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
    assert counts(served.client(), queue) == (1, 0, 0)


def test_idle_connections_are_in_nobodys_way(served: Served, queue: str) -> None:
    with many_connections(served, IDLE_CONNECTIONS):
        client = served.client()
        client.send_message(QueueUrl=queue, MessageBody="x")
        assert counts(client, queue) == (1, 0, 0)


# Names and receipts.


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a.b", "a b", "a/b", "é", "x" * 81, "x" * 76 + ".fifo", "a\x00", "%41"]
)
def test_names_that_no_queue_may_have(served: Served, name: str) -> None:
    answer = served.call("CreateQueue", {"QueueName": name})
    check_refused(answer, "InvalidParameterValueException")
    named = f"{served.url}/000000000000/{name}"
    for url in (named, name, "http://", "://", "/", "\x00", "x" * 100_000):
        answer = served.call("SendMessage", {"QueueUrl": url, "MessageBody": "x"})
        check_refused(answer, "QueueDoesNotExist", "InvalidParameterValueException")


def test_receipts_of_others(served: Served, queue: str, tmp_path: Path) -> None:
    client = served.client()
    client.send_message(QueueUrl=queue, MessageBody="mine")
    own = client.receive_message(QueueUrl=queue)["Messages"][0]["ReceiptHandle"]
    second = client.create_queue(QueueName="not-mine")["QueueUrl"]
    client.send_message(QueueUrl=second, MessageBody="theirs")
    foreign = client.receive_message(QueueUrl=second)["Messages"][0]["ReceiptHandle"]
    with serving(tmp_path) as other:  # The same queue, the same partition, another cluster.
        there = other.client()
        url = there.create_queue(QueueName=queue.rpartition("/")[2])["QueueUrl"]
        there.send_message(QueueUrl=url, MessageBody="elsewhere")
        elsewhere = there.receive_message(QueueUrl=url)["Messages"][0]["ReceiptHandle"]
        with pytest.raises(ClientError) as refused:
            there.delete_message(QueueUrl=url, ReceiptHandle=own)
        assert code_of(refused.value) == "ReceiptHandleIsInvalid"
        assert counts(there, url) == (0, 1, 0)
    forged = own[:-2] + ("AA" if own[-2:] != "AA" else "BB")
    for handle in (foreign, elsewhere, forged, own[:-4], own + "A", "é", "A" * 200_000, "\x00"):
        for action, more in (
            ("DeleteMessage", {}),
            ("ChangeMessageVisibility", {"VisibilityTimeout": 0}),
        ):
            document = {"QueueUrl": queue, "ReceiptHandle": handle, **more}
            answer = served.call(action, document)
            assert answer.status in {400, 404}
            assert answer.document["__type"].endswith("#ReceiptHandleIsInvalid"), handle[:50]
    assert counts(client, queue) == (0, 1, 0)
    assert counts(client, second) == (0, 1, 0)


# At once.


def outcome(call: Callable[[], Any]) -> str:
    """The code of the error; nothing if there is none."""
    try:
        call()
    except ClientError as error:
        return code_of(error)
    return ""


def test_two_make_one_queue_in_two_ways(served: Served) -> None:
    clients = [served.client() for _ in range(8)]
    for turn in range(5):

        def make(number: int, name: str = f"race-{turn}") -> str:
            attributes = {"VisibilityTimeout": str(30 + number % 2)}
            return outcome(
                lambda: clients[number].create_queue(QueueName=name, Attributes=attributes)
            )

        with ThreadPoolExecutor(8) as threads:
            codes = list(threads.map(make, range(8)))
        even, odd = set(codes[::2]), set(codes[1::2])
        assert {frozenset(even), frozenset(odd)} == {
            frozenset({""}),
            frozenset({"QueueAlreadyExists"}),
        }


def test_a_queue_is_deleted_under_those_who_wait(served: Served, queue: str) -> None:
    def wait_long(client: Any) -> None:
        client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)

    clients = [served.client() for _ in range(5)]
    with ThreadPoolExecutor(5) as threads:
        waiting = [threads.submit(outcome, partial(wait_long, one)) for one in clients]
        pass_time(0.5, lambda: any(one.done() for one in waiting))
        served.client().delete_queue(QueueUrl=queue)
        codes = {one.result(SOON_SECONDS) for one in waiting}
    assert codes == {"AWS.SimpleQueueService.NonExistentQueue"}


def test_a_queue_is_made_and_deleted_under_those_who_use_it(served: Served, queue: str) -> None:
    name = queue.rpartition("/")[2]
    over = threading.Event()
    codes: set[str] = set()
    rounds = 25

    def again_and_again(call: Callable[[Any], Any]) -> None:
        client = served.client()
        while not over.is_set():
            codes.add(outcome(lambda: call(client)))

    with ThreadPoolExecutor(3) as threads:
        users = [
            threads.submit(again_and_again, call)
            for call in (
                lambda client: client.send_message(QueueUrl=queue, MessageBody="x"),
                lambda client: client.receive_message(QueueUrl=queue, WaitTimeSeconds=1),
                lambda client: client.purge_queue(QueueUrl=queue),
            )
        ]
        client = served.client()
        for _ in range(rounds):
            client.delete_queue(QueueUrl=queue)
            client.create_queue(QueueName=name)
        over.set()
        for user in users:
            user.result(SECONDS_MAX)
    assert codes <= {"", "AWS.SimpleQueueService.NonExistentQueue"}


def test_a_purge_takes_what_is_there_and_no_more(served: Served, queue: str) -> None:
    over = threading.Event()

    def send() -> int:
        client, sent = served.client(), 0
        while not over.is_set():
            entries = [{"Id": str(number), "MessageBody": "x"} for number in range(10)]
            sent += len(client.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"])
        return sent

    with ThreadPoolExecutor(2) as threads:
        senders = [threads.submit(send) for _ in range(2)]
        client = served.client()
        for _ in range(20):
            client.purge_queue(QueueUrl=queue)
        over.set()
        sent = sum(sender.result(SECONDS_MAX) for sender in senders)
    described = served.ask("GET", f"/v1/queues/{queue.rpartition('/')[2]}").document
    (group,) = described["groups"]
    assert group["sent"] == sent
    assert group["ready"] + group["purged"] == sent
    client.purge_queue(QueueUrl=queue)
    assert counts(client, queue) == (0, 0, 0)
    client.send_message(QueueUrl=queue, MessageBody="after")
    (message,) = client.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert message["Body"] == "after"
