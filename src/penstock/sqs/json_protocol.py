"""AWS JSON 1.0: `POST /` with the action in a header, parameters and answer as one JSON object.

    X-Amz-Target: AmazonSQS.SendMessage
    Content-Type: application/x-amz-json-1.0

An error is named by its shape, with its namespace, in `__type`. Programs written before SQS spoke
JSON compare the codes of the Query protocol; every error carries its code in a header, as on
Amazon. Newer libraries ask for the header (`x-amzn-query-mode: true`), those of 2023 and 2024 read
it without asking.
"""

from collections.abc import Mapping

import msgspec

from penstock.core.decoders import json_decoder
from penstock.sqs.answers import Answer
from penstock.sqs.errors import SqsError
from penstock.sqs.protocol_errors import MalformedBody, UnknownAction
from penstock.sqs.reply import Reply
from penstock.sqs.requests import Request
from penstock.sqs.service import ACTIONS

TARGET = b"x-amz-target"
TARGET_PREFIX = b"AmazonSQS."

_ENCODER = msgspec.json.Encoder()
_READERS: dict[bytes, tuple[str, msgspec.json.Decoder[Request]]] = {
    TARGET_PREFIX + name.encode(): (name, json_decoder(action.request))
    for name, action in ACTIONS.items()
}
_LINES = b"Content-Type: application/x-amz-json-1.0\r\nx-amzn-RequestId: %b\r\n"
_LINES_11 = _LINES.replace(b"1.0", b"1.1")
"""A client that says 1.1 is answered with 1.1; the two are the same."""


def read_json(target: bytes, body: bytes) -> tuple[str, Request]:
    """The action's name, and its request."""
    found = _READERS.get(target)
    if found is None:
        name = target.decode("latin-1")
        raise UnknownAction(f"The target {name[:200]} is not valid for this endpoint.")
    name, reader = found
    try:
        return name, reader.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise MalformedBody(f"The request is not that of {name}: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(f"The request body is not valid JSON: {error}") from error


def write_json(answer: Answer | None, headers: Mapping[bytes, bytes], request_id: bytes) -> Reply:
    """The reply to a request that succeeded."""
    body = b"{}" if answer is None else _ENCODER.encode(answer)
    is_11 = headers.get(b"content-type", b"").endswith(b"json-1.1")
    return Reply(200, (_LINES_11 if is_11 else _LINES) % request_id, body)


def write_json_error(error: SqsError, headers: Mapping[bytes, bytes], request_id: bytes) -> Reply:
    """The reply to a request that did not."""
    is_11 = headers.get(b"content-type", b"").endswith(b"json-1.1")
    lines = (_LINES_11 if is_11 else _LINES) % request_id
    lines += b"x-amzn-query-error: %b;%b\r\n" % (error.code.encode(), error.fault.encode())
    document = {"__type": error.type_name, "message": error.message}
    return Reply(error.status, lines, _ENCODER.encode(document))
