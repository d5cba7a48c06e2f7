"""SQS as bytes on the wire: headers that SDKs read or send, and answers that no SDK asks for."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.query import FORM
from tests.interop.served import Answer, Served, serving

pytestmark = pytest.mark.slow

NONE_SUCH = "AWS.SimpleQueueService.NonExistentQueue"
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http"), "--sqs.cooldown=0s") as broker:
        yield broker


def ask_json(served: Served, action: str, document: Any, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    head = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
    return served.ask("POST", "/", json.dumps(document).encode(), {**head, **named})


def create(served: Served, name: str, **attributes: str) -> str:
    """Make a queue; returns its URL."""
    url: str = served.client().create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def test_an_error_has_its_older_code_in_a_header_for_every_client(served: Served) -> None:
    for more in ({}, {"x_amzn_query_mode": "true"}):
        answer = ask_json(served, "GetQueueUrl", {"QueueName": "missing"}, **more)
        assert answer.status == 400
        assert answer.document["__type"] == "com.amazonaws.sqs#QueueDoesNotExist"
        assert answer.headers["x-amzn-query-error"] == f"{NONE_SUCH};Sender"
    assert "x-amzn-query-error" not in ask_json(served, "ListQueues", {}).headers


def test_the_trace_header_of_a_request_belongs_to_its_messages(served: Served) -> None:
    url = create(served, "traced")
    own = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=own"}}
    message = {"QueueUrl": url, "MessageBody": "x"}
    traced = {"X_Amzn_Trace_Id": TRACE}
    sent = ask_json(served, "SendMessage", message, **traced).document
    assert sent.keys() == {"MD5OfMessageBody", "MessageId"}
    ask_json(served, "SendMessage", {**message, "MessageSystemAttributes": own}, **traced)
    entries = [{"Id": name, "MessageBody": "x"} for name in "ab"]
    ask_json(served, "SendMessageBatch", {"QueueUrl": url, "Entries": entries}, **traced)
    form = b"Action=SendMessage&MessageBody=x&QueueUrl=" + url.encode()
    assert served.ask("POST", "/", form, {**FORM, "X-Amzn-Trace-Id": TRACE}).status == 200
    found = served.client().receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["AWSTraceHeader"]
    )["Messages"]
    traces = [one["Attributes"]["AWSTraceHeader"] for one in found]
    assert sorted(traces) == [TRACE] * 4 + ["Root=own"]


def test_query_is_answered_in_json_to_clients_that_accept_it(served: Served) -> None:
    url = create(served, "as-json", VisibilityTimeout="7")
    head = {**FORM, "Accept": "application/json"}

    def ask(form: str) -> Answer:
        answer = served.ask("POST", "/", f"{form}&QueueUrl={url}".encode(), head)
        assert answer.headers["Content-Type"] == "application/json"
        return answer

    named = ask("Action=GetQueueAttributes&AttributeName.1=VisibilityTimeout").document
    answer = named["GetQueueAttributesResponse"]
    assert answer["ResponseMetadata"]["RequestId"]
    listed = [{"Name": "VisibilityTimeout", "Value": "7"}]
    assert answer["GetQueueAttributesResult"] == {"Attributes": listed}
    answer = ask("Action=ReceiveMessage").document["ReceiveMessageResponse"]
    assert answer["ReceiveMessageResult"] == {"messages": None}
    ask("Action=SendMessage&MessageBody=x")
    answer = ask("Action=ReceiveMessage&AttributeName.1=SenderId").document
    (message,) = answer["ReceiveMessageResponse"]["ReceiveMessageResult"]["messages"]
    assert message["Body"] == "x"
    assert message["MessageAttributes"] is None
    assert message["Attributes"] == [{"Name": "SenderId", "Value": "000000000000"}]
    failed = ask("Action=DeleteMessage")
    assert failed.status == 400
    assert failed.document["Error"]["Code"] == "MissingParameter"
    assert failed.document["Error"]["Type"] == "Sender"


def test_a_form_may_have_an_empty_list(served: Served) -> None:
    url = create(served, "empty-lists")

    def ask(form: str) -> Answer:
        return served.ask("POST", "/", f"{form}&QueueUrl={url}".encode(), FORM)

    answer = ask("Action=SendMessageBatch&SendMessageBatchRequestEntry=")
    assert b"<Code>AWS.SimpleQueueService.EmptyBatchRequest</Code>" in answer.body
    assert ask("Action=GetQueueAttributes&AttributeName=").status == 200
    assert ask("Action=SetQueueAttributes&Attribute=").status == 200
    missing = served.ask("POST", "/", b"Action=GetQueueUrl&QueueName=missing", FORM)
    assert NONE_SUCH.encode() in missing.body
    assert b"The specified queue does not exist for this wsdl version." in missing.body


def test_a_get_of_a_queues_url(served: Served) -> None:
    create(served, "looked-at")
    bare = served.ask("GET", "/000000000000/looked-at")
    assert (bare.status, bare.body) == (404, b"<UnknownOperationException/>")
    for action in ("CreateQueue", "ListQueues"):
        answer = served.ask("GET", f"/000000000000/looked-at?Action={action}&QueueName=new")
        assert answer.status == 400
        assert b"<Code>InvalidAction</Code>" in answer.body
        assert f"The action {action} is not valid for this endpoint.".encode() in answer.body


@pytest.mark.parametrize("escaped", [r"\u00e9", r"\u003c", r"\u007f"])
def test_a_body_of_a_mebibyte_however_it_is_written(served: Served, escaped: str) -> None:
    url = create(served, "escaped")
    character = json.loads(f'"{escaped}"')
    count = 1_048_576 // len(character.encode())
    head = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
    body = f'{{"QueueUrl":"{url}","MessageBody":"{escaped * count}"}}'.encode()
    assert served.ask("POST", "/", body, head).status == 200
    client = served.client()
    (found,) = client.receive_message(QueueUrl=url)["Messages"]
    assert found["Body"] == character * count
    client.delete_message(QueueUrl=url, ReceiptHandle=found["ReceiptHandle"])
