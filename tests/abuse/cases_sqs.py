"""Hostile requests of SQS: forged receipts, foreign pages, numbers and names at their ends, and
bodies that grow."""

import asyncio
import json
import urllib.parse
from collections.abc import Mapping

from tests.abuse.registry import Attack, Broken, Case, add_case, case
from tests.abuse.streams import http, http_request, pour, silent
from tests.abuse.target import MIB, Target

_JSON = "application/x-amz-json-1.0"
_FORM = "application/x-www-form-urlencoded"


def _headers(action: str) -> dict[str, str]:
    return {"content-type": _JSON, "x-amz-target": f"AmazonSQS.{action}"}


async def _act(target: Target, action: str, body: bytes) -> tuple[int, bytes]:
    status, _, answer = await http(target.http, "POST", "/", body, _headers(action))
    return status, answer


async def _get(
    target: Target, parameters: Mapping[str, str], headers: Mapping[str, str]
) -> tuple[int, bytes]:
    path = "/?" + urllib.parse.urlencode(parameters)
    status, _, body = await http(target.http, "GET", path, b"", headers)
    return status, body


@case("sqs", "F8")
async def h24_a_get_makes_a_queue(target: Target) -> None:
    """A GET without any sign of a browser, as an image in a page of plain http sends it, makes a
    queue."""
    name = "made-by-a-page"
    status, _ = await _get(target, {"Action": "CreateQueue", "QueueName": name}, {})
    if status == 200:
        raise Broken("GET CreateQueue was answered 200")


@case("sqs", "F8")
async def h24b_a_get_deletes_a_queue(target: Target) -> None:
    """A GET as an address in a mail is opened, with Sec-Fetch-Site: none, deletes a queue."""
    url = await target.queue_url("payroll")
    asked = {"Action": "DeleteQueue", "QueueUrl": url}
    for headers in ({}, {"sec-fetch-site": "none"}):
        status, _ = await _get(target, asked, headers)
        if status == 200:
            raise Broken(f"GET DeleteQueue with {headers} was answered 200")


@case("sqs", "F8")
async def h24c_a_get_changes_messages(target: Target) -> None:
    """GETs that send, receive, purge, tag and set attributes: none may be carried out."""
    url = await target.queue_url("pages")
    actions: tuple[tuple[str, dict[str, str]], ...] = (
        ("SendMessage", {"MessageBody": "forged"}),
        ("ReceiveMessage", {}),
        ("PurgeQueue", {}),
        ("TagQueue", {"Tag.1.Key": "a", "Tag.1.Value": "b"}),
        ("SetQueueAttributes", {"Attribute.1.Name": "DelaySeconds", "Attribute.1.Value": "900"}),
    )
    for action, more in actions:
        status, _ = await _get(target, {"Action": action, "QueueUrl": url, **more}, {})
        if status == 200:
            raise Broken(f"GET {action} was answered 200")


@case("sqs", "")
async def h25_a_form_of_another_site(target: Target) -> None:
    """A form that a page of another site sends: with its Origin, its Referer, or Sec-Fetch-Site."""
    body = urllib.parse.urlencode({"Action": "CreateQueue", "QueueName": "foreign"}).encode()
    for sign in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"referer": "http://evil.example/page"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        headers = {"content-type": _FORM, **sign}
        status, _, _ = await http(target.http, "POST", "/", body, headers)
        if status == 200:
            raise Broken(f"a form with {sign} was answered 200")


@case("sqs", "")
async def h26_dns_rebinding(target: Target) -> None:
    """A page whose name has been given this machine's address, by GET and by POST."""
    body = urllib.parse.urlencode({"Action": "ListQueues"}).encode()
    rebound = {"host": "evil.example", "origin": "http://evil.example", "content-type": _FORM}
    for method, path, sent in (("GET", "/?Action=ListQueues", b""), ("POST", "/", body)):
        status, _, _ = await http(target.http, method, path, sent, rebound)
        if status == 200:
            raise Broken(f"{method} with the Host evil.example was answered 200")


@case("sqs", "")
async def h27_receipts_are_not_guessed(target: Target) -> None:
    """Every character of a receipt is changed in turn, and it is used for another queue."""
    url = await target.queue_url("receipts")
    other = await target.queue_url("receipts-other")
    await target.sqs("SendMessage", {"QueueUrl": url, "MessageBody": "held"})
    got = await target.sqs("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 5})
    receipt = got["Messages"][0]["ReceiptHandle"]
    tried = [
        receipt[:at] + ("A" if receipt[at] != "A" else "B") + receipt[at + 1 :]
        for at in range(len(receipt))
    ]
    for forged in (*tried, "", receipt * 2, receipt[:-1], "x" * 100_000, "\0"):
        body = json.dumps({"QueueUrl": url, "ReceiptHandle": forged}).encode()
        status, answer = await _act(target, "DeleteMessage", body)
        if status == 200:
            raise Broken(f"a forged receipt was taken: {forged[:60]!r} {answer[:100]!r}")
    body = json.dumps({"QueueUrl": other, "ReceiptHandle": receipt}).encode()
    status, _ = await _act(target, "DeleteMessage", body)
    if status == 200:
        raise Broken("the receipt of one queue was taken for another")


@case("sqs", "")
async def h28_many_bodies_of_4_mebibytes(target: Target) -> None:
    """100 connections send bodies of nearly 4 MiB, half of them without the last byte."""
    url = await target.queue_url("large")
    text = "x" * (3 * MIB)
    body = json.dumps({"QueueUrl": url, "MessageBody": text}).encode()
    whole = http_request("POST", "/", body, _headers("SendMessage"))
    async with silent(target.http, whole[:-1], 50):
        await asyncio.gather(*(pour(target.http, whole, seconds=6.0) for _ in range(50)))


@case("sqs", "")
async def h29_answers_that_nobody_reads(target: Target) -> None:
    """50 connections receive ten large messages again and again, and never read."""
    url = await target.queue_url("unread", {"VisibilityTimeout": "0"})
    for _ in range(20):
        message = {"QueueUrl": url, "MessageBody": "y" * 250_000}
        await target.sqs("SendMessage", message)
    body = json.dumps({"QueueUrl": url, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0}).encode()
    data = http_request("POST", "/", body, _headers("ReceiveMessage")) * 50
    async with silent(target.http, data, 50, receive_buffer=4096):
        await asyncio.sleep(3.0)


@case("sqs", "F14")
async def h30_clients_leave_in_the_middle(target: Target) -> None:
    """200 connections pipeline requests and hang up at once."""
    body = json.dumps({"QueueNamePrefix": ""}).encode()
    data = http_request("POST", "/", body, _headers("ListQueues")) * 20
    data += http_request("GET", "/v1/cluster") * 20 + http_request("GET", "/queues") * 10
    for _ in range(10):
        async with silent(target.http, data, 20):
            await asyncio.sleep(0.05)


@case("sqs", "")
async def h31_receives_that_wait_and_leave(target: Target) -> None:
    """300 connections wait 20 seconds for messages, and hang up together; then one message must
    still come."""
    url = await target.queue_url("waited")
    body = json.dumps({"QueueUrl": url, "WaitTimeSeconds": 20}).encode()
    data = http_request("POST", "/", body, _headers("ReceiveMessage"))
    async with silent(target.http, data, 300):
        await asyncio.sleep(1.0)
    await target.sqs("SendMessage", {"QueueUrl": url, "MessageBody": "after"})
    got = await target.sqs("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 10})
    if not got.get("Messages"):
        raise Broken("a message went to a client that had hung up")


@case("sqs", "F2", seconds=40)
async def h32_queues_by_the_hundred(target: Target) -> None:
    """300 queues are made with all attributes and tags, as large as they may be."""
    tags = {f"k{number}" * 20: "v" * 250 for number in range(50)}

    async def make(number: int) -> None:
        document = {"QueueName": f"much-{number}", "tags": tags}
        await _act(target, "CreateQueue", json.dumps(document).encode())

    for begun in range(0, 300, 20):
        await asyncio.gather(*(make(begun + more) for more in range(20)))


# Bodies and parameters, a row each: they are refused with 4xx, in JSON and in forms.

_TO_ITSELF = json.dumps(
    {"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:loop", "maxReceiveCount": 1}
)
_ROWS: tuple[tuple[str, str, str, bytes], ...] = (
    ("json-deep", "F14", "ListQueues", b'{"A":' * 20_000 + b"1" + b"}" * 20_000),
    ("json-deep-array", "F14", "ListQueues", b"[" * 100_000),
    ("json-not-utf8", "F14", "ListQueues", b'{"QueueNamePrefix": "\xff\xfe"}'),
    ("json-surrogate", "F14", "CreateQueue", rb'{"QueueName": "\ud800"}'),
    ("json-no-object", "", "ListQueues", b"[]"),
    ("json-empty", "", "CreateQueue", b""),
    ("json-twice", "", "CreateQueue", b'{"QueueName":"a"}{"QueueName":"b"}'),
    ("json-name-twice", "", "CreateQueue", b'{"QueueName":"a/","QueueName":"b/"}'),
    (
        "json-number-huge",
        "F14",
        "ReceiveMessage",
        b'{"MaxNumberOfMessages": ' + b"9" * 5_000 + b"}",
    ),
    ("json-number-exponent", "", "ReceiveMessage", b'{"MaxNumberOfMessages": 1e999999999}'),
    ("json-nan", "", "ReceiveMessage", b'{"MaxNumberOfMessages": NaN}'),
    ("json-number-as-text", "", "ReceiveMessage", b'{"MaxNumberOfMessages": "ten"}'),
    (
        "json-attributes-100000",
        "",
        "SetQueueAttributes",
        json.dumps({"Attributes": {f"a{n}": "b" for n in range(100_000)}}).encode(),
    ),
    (
        "json-entries-100000",
        "",
        "SendMessageBatch",
        json.dumps({"Entries": [{"Id": str(n)} for n in range(60_000)]}).encode(),
    ),
    ("name-path", "", "CreateQueue", b'{"QueueName": "../../etc/passwd"}'),
    ("name-long", "", "CreateQueue", json.dumps({"QueueName": "q" * 100_000}).encode()),
    ("name-markup", "", "CreateQueue", b'{"QueueName": "<script>alert(1)</script>"}'),
    ("name-internal", "F12", "CreateQueue", b'{"QueueName": "__audit"}'),
    (
        "url-foreign",
        "",
        "DeleteQueue",
        b'{"QueueUrl": "http://evil.example/000000000000/elsewhere"}',
    ),
    (
        "url-long",
        "F13",
        "DeleteQueue",
        json.dumps({"QueueUrl": "http://a/" + "q" * 1_000_000}).encode(),
    ),
    ("url-forges-log", "F13", "DeleteQueue", b'{"QueueUrl": "http://a/b\\n00:00:00 error forged"}'),
    (
        "visibility-negative",
        "",
        "ChangeMessageVisibility",
        b'{"VisibilityTimeout": -1, "ReceiptHandle": "x"}',
    ),
    (
        "policy-huge",
        "F2",
        "SetQueueAttributes",
        json.dumps({"Attributes": {"Policy": "x" * 2_000_000}}).encode(),
    ),
    (
        "redrive-to-itself",
        "",
        "CreateQueue",
        json.dumps({"QueueName": "loop", "Attributes": {"RedrivePolicy": _TO_ITSELF}}).encode(),
    ),
    (
        "redrive-garbage",
        "",
        "CreateQueue",
        b'{"QueueName": "loop2", "Attributes": {"RedrivePolicy": "{{{{"}}',
    ),
    ("token-forged", "", "ListQueues", b'{"NextToken": "AAAA", "MaxResults": 1}'),
    (
        "token-long",
        "",
        "ListQueues",
        json.dumps({"NextToken": "A" * 500_000, "MaxResults": 1}).encode(),
    ),
    ("task-forged", "", "CancelMessageMoveTask", b'{"TaskHandle": "eyJhIjoxfQ=="}'),
    ("action-unknown", "F13", "Nothing" + "x" * 5_000, b"{}"),
    ("action-empty", "", "", b"{}"),
)


def _sender(action: str, body: bytes) -> Attack:
    async def attack(target: Target) -> None:
        status, answer = await _act(target, action, body)
        if status >= 500:
            raise Broken(f"answered {status}: {answer[:200]!r}")

    return attack


for _name, _finding, _action, _body in _ROWS:
    add_case(
        Case(
            f"h-sqs-{_name}",
            "sqs",
            _finding,
            f"{_action[:40] or 'no action'} with a body that is hostile: {_name}",
            _sender(_action, _body),
        )
    )

_FORMS: tuple[tuple[str, str, bytes], ...] = (
    ("number-huge", "F14", b"Action=ReceiveMessage&MaxNumberOfMessages=" + b"9" * 5_000),
    (
        "index-huge",
        "F14",
        b"Action=SendMessageBatch&SendMessageBatchRequestEntry." + b"9" * 5_000 + b".Id=a",
    ),
    ("index-sparse", "", b"Action=TagQueue&Tag.1000000000.Key=a&Tag.1000000000.Value=b"),
    ("index-many", "", b"Action=TagQueue" + b"".join(b"&Tag.%d.Key=a" % n for n in range(50_000))),
    ("fields-many", "", b"Action=ListQueues" + b"&a=b" * 200_000),
    ("percent-broken", "", b"Action=CreateQueue&QueueName=%zz%1%"),
    ("percent-not-utf8", "F14", b"Action=CreateQueue&QueueName=%ff%fe"),
    ("percent-nul", "", b"Action=CreateQueue&QueueName=a%00b"),
    ("names-long", "", b"Action=CreateQueue&" + b"Attribute." * 50_000 + b"=1"),
    ("action-twice", "", b"Action=ListQueues&Action=DeleteQueue&QueueUrl=/elsewhere"),
)


def _form_sender(body: bytes) -> Attack:
    async def attack(target: Target) -> None:
        status, _, answer = await http(target.http, "POST", "/", body, {"content-type": _FORM})
        if status >= 500:
            raise Broken(f"answered {status}: {answer[:200]!r}")

    return attack


for _name, _finding, _body in _FORMS:
    add_case(
        Case(
            f"h-query-{_name}",
            "sqs",
            _finding,
            f"a form of the Query protocol that is hostile: {_name}",
            _form_sender(_body),
        )
    )
