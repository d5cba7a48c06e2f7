"""SQS over HTTP, without HTTP: what is taken, what is made of it, and that all goes wrong well."""

import asyncio
import logging
from xml.etree import ElementTree as ET

import msgspec
import pytest

from penstock.core.errors import NotLeader, OutcomeUnknown, PenstockError, UnknownTopic
from penstock.sqs.answers import MessageSent, QueueLocated
from penstock.sqs.endpoint import CALLS_REMEMBERED_MAX, Endpoint, Headers
from penstock.sqs.errors import OverLimit, SqsError
from penstock.sqs.protocol_errors import ForeignPage
from penstock.sqs.query_protocol import NAMESPACE
from penstock.sqs.reply import Reply
from penstock.sqs.requests import CreateQueue, ListQueues, ListQueueTags, Request, SendMessage
from penstock.sqs.service import ACTIONS, AGAIN, UNCHANGING, Call
from tests.unit.sqs.actions import FORM, JSON, FakeService, ask, lines, target

AUTHORIZATION = (
    b"AWS4-HMAC-SHA256 Credential=AKID/20260131/eu-west-1/sqs/aws4_request,"
    b" SignedHeaders=host;x-amz-date, Signature=00"
)


def serving(service: FakeService) -> Endpoint:
    endpoint = Endpoint()
    endpoint.service = service
    return endpoint


def problem(reply: Reply) -> str:
    """The error's name, in either protocol."""
    if reply.body.startswith(b"{"):
        return str(msgspec.json.decode(reply.body)["__type"].partition("#")[2])
    return ET.fromstring(reply.body).findtext(f".//{{{NAMESPACE}}}Code") or ""


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "taken"),
    [
        (b"POST", b"/", b"", target("SendMessage"), True),
        (b"POST", b"/v1/x", b"", target("SendMessage"), True),
        (b"POST", b"/", b"", {b"x-amz-target": b"DynamoDB.List"}, True),
        (b"POST", b"/", b"", {b"content-type": FORM}, True),
        (b"POST", b"/0/q", b"", {b"content-type": FORM + b"; charset=utf-8"}, True),
        (b"POST", b"/q", b"Action=ListQueues", {}, True),
        (b"POST", b"/v1/queues", b"", {b"content-type": FORM}, False),
        (b"POST", b"/v1/queues", b"Action=ListQueues", {}, False),
        (b"POST", b"/", b"", {b"content-type": b"application/json"}, False),
        (b"POST", b"/", b"", {}, False),
        (b"GET", b"/", b"Action=ListQueues", {}, True),
        (b"GET", b"/0/q", b"Version=2012-11-05&Action=DeleteQueue", {}, True),
        (b"GET", b"/", b"", {}, False),
        (b"GET", b"/000000000000/q", b"", {}, True),
        (b"GET", b"/0/q", b"", {}, False),
        (b"GET", b"/", b"xAction=1", {}, False),
        (b"GET", b"/", b"", target("SendMessage"), False),
        (b"HEAD", b"/", b"Action=ListQueues", {}, False),
        (b"DELETE", b"/", b"Action=ListQueues", target("SendMessage"), False),
    ],
)
def test_what_is_taken(
    method: bytes, path: bytes, query: bytes, headers: Headers, taken: bool
) -> None:
    assert Endpoint().takes(method, path, query, headers) is taken


def test_json() -> None:
    service = FakeService(QueueLocated(queue_url="http://h/0/q"))
    headers = {**target("CreateQueue"), b"authorization": AUTHORIZATION}
    reply = ask(serving(service), headers=headers, body=b'{"QueueName":"q"}')
    assert (reply.status, reply.body) == (200, b'{"QueueUrl":"http://h/0/q"}')
    ((action, request, call),) = service.asked
    assert (action, request) == ("CreateQueue", CreateQueue(queue_name="q"))
    assert call.base_url == "http://sqs.example:8080"
    assert (call.region, call.access_key, call.path) == ("eu-west-1", "AKID", "/")


def test_a_form() -> None:
    service = FakeService(QueueLocated(queue_url="http://h/0/q?a&b"))
    body = b"Action=CreateQueue&Version=2012-11-05&QueueName=q&AWSAccessKeyId=KEY"
    reply = ask(serving(service), headers={b"content-type": FORM}, body=body)
    assert reply.status == 200
    assert b"<QueueUrl>http://h/0/q?a&amp;b</QueueUrl>" in reply.body
    ((action, request, call),) = service.asked
    assert (action, request) == ("CreateQueue", CreateQueue(queue_name="q"))
    assert (call.region, call.access_key) == ("us-east-1", "KEY")


def test_a_url_that_somebody_typed() -> None:
    service = FakeService()
    query = b"Action=ListQueueTags&X-Amz-Credential=AKID%2F20260131%2Feu-north-1%2Fsqs%2F4_request"
    ask(serving(service), method=b"GET", path=b"/0000/q", query=query)
    ((action, request, call),) = service.asked
    assert action == "ListQueueTags"
    assert request == ListQueueTags(queue_url="http://sqs.example:8080/0000/q")
    assert (call.region, call.access_key, call.path) == ("eu-north-1", "AKID", "/0000/q")


@pytest.mark.parametrize("action", sorted(ACTIONS.keys() - UNCHANGING))
def test_by_get_nothing_is_changed(action: str) -> None:
    service = FakeService()
    query = f"Action={action}&QueueUrl=http://h/0/q&QueueName=q&Label=l&TaskHandle=t".encode()
    query += b"&SourceArn=a&Attribute.1.Name=n&Attribute.1.Value=v&Tag.1.Key=k&Tag.1.Value=v"
    query += b"&TagKey.1=k&MessageBody=b&ReceiptHandle=r&VisibilityTimeout=1&ActionName.1=a"
    query += b"&AWSAccountId.1=a&SendMessageBatchRequestEntry.1.Id=i"
    query += b"&SendMessageBatchRequestEntry.1.MessageBody=b&DeleteMessageBatchRequestEntry.1.Id=i"
    query += b"&DeleteMessageBatchRequestEntry.1.ReceiptHandle=r"
    query += b"&ChangeMessageVisibilityBatchRequestEntry.1.Id=i"
    query += b"&ChangeMessageVisibilityBatchRequestEntry.1.ReceiptHandle=r"
    reply = ask(serving(service), method=b"GET", path=b"/0000/q", query=query)
    assert (reply.status, service.asked) == (405, []), reply.body
    assert f"The action {action} changes something: send it by POST".encode() in reply.body


def test_parameters_of_url_and_form_are_put_together() -> None:
    service = FakeService()
    headers = {b"content-type": FORM}
    ask(serving(service), query=b"Action=ListQueues", headers=headers, body=b"MaxResults=3")
    assert service.asked[0][1] == ListQueues(max_results=3)


@pytest.mark.parametrize(
    "authorization",
    [
        b"",
        b"Basic Og==",
        b"AWS4-HMAC-SHA256 Credential=",
        b"AWS4-HMAC-SHA256 Credential=\xff/x/EU WEST/sqs/aws4_request, a",
        b"AWS4-HMAC-SHA256 Credential=<a>/b/c",
    ],
)
def test_a_credential_that_is_none_says_nothing(authorization: bytes) -> None:
    service = FakeService()
    headers = {**target("ListQueues"), b"authorization": authorization}
    assert ask(serving(service), headers=headers).status == 200
    call = service.asked[0][2]
    assert (call.region, call.access_key) == ("us-east-1", "")


def test_who_does_not_say_how_he_calls_us_is_told_the_default() -> None:
    service = FakeService()
    endpoint = Endpoint(default_host="127.0.0.1:8080")
    endpoint.service = service
    ask(endpoint, headers={**target("ListQueues"), b"host": b""})
    assert service.asked[0][2].base_url == "http://127.0.0.1:8080"


@pytest.mark.parametrize("host", [b"a b", b"a/b", b"<a>", b"a:b", b"\xff", b"a@b", b"x" * 300])
def test_a_host_that_is_none_is_refused(host: bytes) -> None:
    service = FakeService()
    reply = ask(serving(service), headers={**target("ListQueues"), b"host": host})
    assert (reply.status, problem(reply)) == (400, "InvalidAddress")
    assert service.asked == []


def test_what_is_remembered_of_callers_has_a_bound() -> None:
    service = FakeService()
    endpoint = serving(service)
    for number in range(CALLS_REMEMBERED_MAX + 1):
        ask(endpoint, headers={**target("ListQueues"), b"host": b"h%d" % number})
    assert len(endpoint._calls) <= CALLS_REMEMBERED_MAX
    assert service.asked[-1][2].base_url == f"http://h{CALLS_REMEMBERED_MAX}"


def test_every_request_has_an_id_of_its_own() -> None:
    endpoint = serving(FakeService())
    replies = [ask(endpoint, headers=target("ListQueues")) for _ in range(3)]
    ids = {lines(reply)["x-amzn-requestid"] for reply in replies}
    assert len(ids) == 3
    assert all(len(one) == 36 for one in ids)


@pytest.mark.parametrize(
    ("error", "status", "json_name", "query_name"),
    [
        (OverLimit("too much"), 403, "OverLimit", "OverLimit"),
        (
            UnknownTopic("there is no topic q"),
            400,
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        (NotLeader("elsewhere"), 503, "ServiceUnavailable", "ServiceUnavailable"),
        (OutcomeUnknown("who knows"), 500, "InternalFailure", "InternalFailure"),
    ],
)
def test_errors_are_answers(error: Exception, status: int, json_name: str, query_name: str) -> None:
    endpoint = serving(FakeService(error))
    reply = ask(endpoint, headers=target("ListQueues"))
    assert (reply.status, problem(reply)) == (status, json_name)
    reply = ask(endpoint, query=b"Action=ListQueues")
    assert (reply.status, problem(reply)) == (status, query_name)


def test_a_bug_is_an_answer_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = serving(FakeService(ZeroDivisionError("secret")))
    with caplog.at_level(logging.ERROR):
        reply = ask(endpoint, headers=target("ListQueues"))
    assert (reply.status, problem(reply)) == (500, "InternalFailure")
    assert b"secret" not in reply.body
    assert "AmazonSQS.ListQueues" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("headers", "query", "body", "name"),
    [
        (target("SendMail"), b"", b"", "UnknownOperationException"),
        (target("SendMessage"), b"", b"{", "SerializationException"),
        ({b"content-type": FORM}, b"", b"", "MissingAction"),
        ({b"content-type": FORM}, b"", b"Action=SendMail", "InvalidAction"),
        ({}, b"Action=ListQueues&Version=1", b"", "NoSuchVersion"),
        ({b"content-type": FORM}, b"", b"Action=%FF", "MalformedInput"),
    ],
)
def test_what_is_no_request_is_an_answer(
    headers: Headers, query: bytes, body: bytes, name: str
) -> None:
    service = FakeService()
    reply = ask(serving(service), headers=headers, query=query, body=body)
    assert (reply.status, problem(reply)) == (400, name)
    assert service.asked == []


def test_before_there_is_a_node_the_answer_is_not_now() -> None:
    reply = ask(Endpoint(), headers=target("ListQueues"))
    assert (reply.status, problem(reply)) == (503, "ServiceUnavailable")


def test_signatures_can_be_verified_before_anything_else() -> None:
    seen: list[tuple[object, ...]] = []

    def verify(*request: object) -> None:
        seen.append(request)
        raise ForeignPage("not you")

    endpoint = Endpoint(verify=verify)
    headers = target("ListQueues")
    reply = ask(endpoint, path=b"/p", query=b"a=b", headers=headers, body=b"{")
    assert (reply.status, problem(reply)) == (403, "AccessDeniedException")
    assert seen == [(b"POST", b"/p", b"a=b", {b"host": b"sqs.example:8080", **headers}, b"{")]


@pytest.mark.parametrize("query", [b"", b"Action=ReceiveMessage"])
def test_who_waits_for_messages_can_be_told_that_there_are_none(query: bytes) -> None:
    async def run() -> None:
        waiting: list[asyncio.Event] = []

        class Waiting(FakeService):
            async def call(self, action: str, request: Request, call: Call) -> None:
                waiting.append(asyncio.Event())
                await waiting[-1].wait()

        endpoint = serving(Waiting())

        def begin(action: str) -> asyncio.Task[Reply]:
            asked = {} if query else target(action)
            form = query.replace(b"ReceiveMessage", action.encode())
            return asyncio.create_task(endpoint.answer(b"POST", b"/", form, asked, b""))

        receive, other, gone = map(begin, ("ReceiveMessage", "SendMessage", "ReceiveMessage"))
        while len(waiting) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
        gone.cancel()
        endpoint.cancel_long_polls()
        reply = await receive
        assert reply.status == 200
        assert b"Messages" not in reply.body
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert not other.done()
        waiting[1].set()
        assert (await other).status == 200
        endpoint.cancel_long_polls()

    asyncio.run(run())


@pytest.mark.parametrize("status", [403, 408, 413, 421, 503])
def test_a_refusal_is_of_the_protocol_in_use(status: int) -> None:
    endpoint = Endpoint()
    as_json = endpoint.refuse(status, "no", target("ListQueues"))
    assert as_json.status == status
    assert lines(as_json)["content-type"] == JSON.decode()
    assert msgspec.json.decode(as_json.body)["message"] == "no"
    as_xml = endpoint.refuse(status, "<no>", {b"content-type": FORM})
    assert as_xml.status == status
    assert b"<Message>&lt;no&gt;</Message>" in as_xml.body


def begin(
    endpoint: Endpoint, body: bytes, action: str = "SendMessage", **more: bytes
) -> list[Reply]:
    """Begin a request that takes no task; its reply will be in the list."""
    replies: list[Reply] = []

    def done(reply: Reply | None) -> bool:
        assert reply is not None
        replies.append(reply)
        return True

    headers = {b"host": b"sqs.example", **target(action)}
    headers |= {name.encode(): value for name, value in more.items()}
    assert endpoint.begin(headers, body, done)
    assert not replies, "answered before it has returned"
    return replies


def test_a_request_without_a_task_is_answered_when_it_is_done() -> None:
    service = FakeService()
    endpoint = serving(service)
    replies = begin(endpoint, b'{"QueueUrl":"q","MessageBody":"x"}')
    ((action, request, on_done),) = service.begun
    assert (action, request) == ("SendMessage", SendMessage(queue_url="q", message_body="x"))
    assert not endpoint.times.statistics().times
    on_done(MessageSent(md5_of_message_body="d", message_id="m"))
    (reply,) = replies
    assert (reply.status, reply.body) == (200, b'{"MD5OfMessageBody":"d","MessageId":"m"}')
    assert lines(reply)["content-type"] == JSON.decode()
    assert list(endpoint.times.statistics().times) == ["SendMessage"]


def test_a_request_without_a_task_that_has_nothing_to_say() -> None:
    service = FakeService()
    replies = begin(serving(service), b'{"QueueUrl":"q"}', "DeleteMessage")
    service.begun[0][2](None)
    assert (replies[0].status, replies[0].body) == (200, b"{}")


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (OverLimit("too many"), 403, "OverLimit"),
        (NotLeader("elsewhere"), 503, "ServiceUnavailable"),
        (OutcomeUnknown("who knows"), 500, "InternalFailure"),
    ],
)
def test_what_goes_wrong_without_a_task_is_told_as_always(
    error: SqsError | PenstockError, status: int, name: str
) -> None:
    service = FakeService()
    endpoint = serving(service)
    replies = begin(endpoint, b"{}")
    service.begun[0][2](error)
    slow = ask(serving(FakeService(error)), headers=target("SendMessage"), body=b"{}")
    assert (replies[0].status, replies[0].body) == (slow.status, slow.body)
    assert (problem(replies[0]), replies[0].status) == (name, status)
    assert list(endpoint.times.statistics().errors.values()) == [1]


@pytest.mark.parametrize(
    ("service", "action", "host", "body"),
    [
        (FakeService(), "ListQueues", b"h", b"{}"),
        (FakeService(), "SendMessage", b"a b", b"{}"),
        (FakeService(), "SendMessage", b"h", b"{"),
        (FakeService(), "SendMessage", b"h", b'{"QueueUrl":1}'),
        (FakeService(OverLimit("wrong")), "SendMessage", b"h", b"{}"),
        (FakeService(NotLeader("wrong")), "SendMessage", b"h", b"{}"),
        (FakeService(ValueError("a bug")), "SendMessage", b"h", b"{}"),
        (None, "SendMessage", b"h", b"{}"),
    ],
)
def test_what_is_wrong_is_found_out_the_long_way(
    service: FakeService | None, action: str, host: bytes, body: bytes
) -> None:
    endpoint = Endpoint()
    endpoint.service = service
    headers = {b"host": host, **target(action)}
    assert not endpoint.begin(headers, body, lambda _reply: pytest.fail("answered"))
    assert not service or not service.begun
    assert not endpoint.times.statistics().errors


def test_signatures_are_checked_the_long_way() -> None:
    endpoint = Endpoint(verify=lambda *_: None)
    endpoint.service = FakeService()
    headers = {b"host": b"h", **target("SendMessage")}
    assert not endpoint.begin(headers, b"{}", lambda _reply: pytest.fail("answered"))


def test_who_cannot_be_answered_takes_nobody_with_him(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_reply: Reply | None) -> bool:
        raise ValueError("a bug")

    service = FakeService()
    endpoint = serving(service)
    assert endpoint.begin({b"host": b"h", **target("SendMessage")}, b"{}", broken)
    assert not service.begun[0][2](None)
    assert "could not be answered" in caplog.text


def test_a_request_that_takes_a_task_after_all_is_not_answered_yet() -> None:
    service = FakeService()
    endpoint = serving(service)
    on_done: list[Reply | None] = []

    def done(reply: Reply | None) -> bool:
        on_done.append(reply)
        return True

    headers = {b"host": b"h", **target("ReceiveMessage")}
    assert endpoint.begin(headers, b"{}", done)
    assert service.begun[0][2](AGAIN)
    assert on_done == [None]
    assert not endpoint.times.statistics().times, "it counts when it is answered"


@pytest.mark.parametrize("there", [True, False])
def test_whoever_is_told_knows_whether_anybody_hears_it(there: bool) -> None:
    service = FakeService()
    headers = {b"host": b"h", **target("ReceiveMessage")}
    assert serving(service).begin(headers, b"{}", lambda _reply: there)
    assert service.begun[0][2](None) is there
