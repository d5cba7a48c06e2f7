"""The Query protocol: parameters in a form or in the URL, the answer in XML.

    POST /                                Action=SendMessage&Version=2012-11-05&QueueUrl=…
    POST /000000000000/orders             the queue may be said by the path
    GET  /000000000000/orders?Action=…    and everything else by the URL

It is what SDKs of before 2023 speak, and what people type. A parameter's name is a path through the
request: `SendMessageBatchRequestEntry.2.MessageAttribute.1.Value.StringValue`. The names are put
together to a tree, and the tree is read along the request's type, so that only what the type has is
ever looked at. Two older ways to write a list are read too: `Entries.member.1.Id`, and for a single
item no number at all, `Attribute.Name=…`.

XML goes the other way, from the answer's own structure. Lists and maps lie flat and are called by
one of their items (`ITEM_NAMES`): JSON's `"Attributes": {…}` is `Attribute.1.Name=…` in a form and
`<Attribute><Name>…` in XML. A client that accepts `application/json` gets the same in JSON: maps
are lists of names and values there, and what there is none of is null.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from penstock.sqs.answers import Answer
from penstock.sqs.errors import SqsError
from penstock.sqs.protocol_errors import (
    MalformedBody,
    MissingAction,
    UnknownAction,
    UnknownVersion,
)
from penstock.sqs.reply import Reply
from penstock.sqs.requests import Request
from penstock.sqs.service import ACTIONS

VERSION = "2012-11-05"
NAMESPACE = f"http://queue.amazonaws.com/doc/{VERSION}/"
PARAMETERS_MAX = 2_000
"""Ten messages with ten attributes of three values each are 350."""
DEPTH_MAX = 8
"""The number of parts of a parameter's name."""
QUEUE_PATH = re.compile(rb"/(?:(?:queue|\d+)/(?:[\w-]+/){0,2})?[\w.-]{1,249}")
"""A path that can name a queue by its last part."""

QUEUE_URL_PATH = re.compile(rb"/\d{12}/[\w.-]{1,249}")
"""The path of a queue's URL, as this broker makes them."""

ITEM_NAMES = {
    "Actions": "ActionName",
    "AttributeNames": "AttributeName",
    "Attributes": "Attribute",
    "AWSAccountIds": "AWSAccountId",
    "BinaryListValues": "BinaryListValue",
    "Failed": "BatchResultErrorEntry",
    "MessageAttributeNames": "MessageAttributeName",
    "MessageAttributes": "MessageAttribute",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageSystemAttributes": "MessageSystemAttribute",
    "Messages": "Message",
    "QueueUrls": "QueueUrl",
    "Results": "ListMessageMoveTasksResultEntry",
    "StringListValues": "StringListValue",
    "TagKeys": "TagKey",
    "Tags": "Tag",
    "queueUrls": "QueueUrl",
    "tags": "Tag",
}
"""What an item of a member is called, whatever the action."""

JSON_NAMES = {"Messages": "messages", "QueueUrls": "queueUrls"}
"""Lists that an answer in JSON calls otherwise."""

TAG_MEMBERS = ("Tags", "tags")
"""Maps whose keys are called `Key`; those of all others are called `Name`."""

_LIST_WORDS = ("member", "entry")
_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "\r": "&#xD;",
        # What XML cannot say at all.
        **{
            chr(code): "\N{REPLACEMENT CHARACTER}"
            for code in range(0x20)
            if code not in (9, 10, 13)
        },
        "\ufffe": "\N{REPLACEMENT CHARACTER}",
        "\uffff": "\N{REPLACEMENT CHARACTER}",
    }
)
_HEADERS = b"Content-Type: text/xml\r\nx-amzn-RequestId: %b\r\n"
_JSON_HEADERS = _HEADERS.replace(b"text/xml", b"application/json")

Tree = dict[str, Any]
"""Text, or another tree, by the next part of the name."""
Reader = Callable[[Any], Any]
"""Takes what the tree has for a member, and gives what JSON would have."""


def item_name(action: str, member: str) -> str:
    """What an item of a list or map is called."""
    if member == "Entries":
        return f"{action}RequestEntry"
    if member == "Successful":
        return f"{action}ResultEntry"
    return ITEM_NAMES.get(member, member)


def key_name(member: str) -> str:
    """What a key of a map is called."""
    return "Key" if member in TAG_MEMBERS else "Name"


def read_form(text: bytes) -> dict[str, str]:
    """Parameters by name; of two with one name the later counts."""
    try:
        return dict(
            parse_qsl(
                text.decode(),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=PARAMETERS_MAX,
            )
        )
    except ValueError as error:
        raise MalformedBody(f"The parameters cannot be read: {error}") from error


def read_query(parameters: Mapping[str, str], queue_url: str) -> tuple[str, Request]:
    """The action's name and its request; `queue_url` counts if no parameter names the queue."""
    version = parameters.get("Version", VERSION)
    if version != VERSION:
        raise UnknownVersion(f"The requested version ( {version[:100]} ) is not valid.")
    name = parameters.get("Action", "")
    if not name:
        raise MissingAction("The request must contain the parameter Action.")
    action = ACTIONS.get(name)
    if action is None:
        raise UnknownAction(f"The action {name[:200]} is not valid for this endpoint.")
    document = _READERS[name](_grow(parameters))
    if queue_url and "QueueUrl" not in document:
        document["QueueUrl"] = queue_url
    try:
        return name, msgspec.convert(document, action.request, strict=False)
    except msgspec.ValidationError as error:
        raise MalformedBody(f"The request is not that of {name}: {error}") from error


def write_query(
    action: str, answer: Answer | None, request_id: bytes, *, json: bool = False
) -> Reply:
    """The reply to a request that succeeded."""
    if json:
        return _write_json(action, answer, request_id)
    result = ""
    if answer is not None:
        document = msgspec.to_builtins(answer)
        result = f"<{action}Result>{_members(action, document)}</{action}Result>"
    identity = request_id.decode()
    text = (
        f'<?xml version="1.0"?><{action}Response xmlns="{NAMESPACE}">{result}'
        f"<ResponseMetadata><RequestId>{identity}</RequestId></ResponseMetadata>"
        f"</{action}Response>"
    )
    return Reply(200, _HEADERS % request_id, _encode(text))


def write_query_error(error: SqsError, request_id: bytes, *, json: bool = False) -> Reply:
    """The reply to a request that did not."""
    if json:
        said = {
            "Code": error.code,
            "Detail": None,
            "Message": error.query_message,
            "Type": error.fault,
        }
        document = {"Error": said, "RequestId": request_id.decode()}
        return Reply(error.status, _JSON_HEADERS % request_id, msgspec.json.encode(document))
    text = (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{error.fault}</Type>'
        f"<Code>{error.code}</Code><Message>{_escape(error.query_message)}</Message><Detail/>"
        f"</Error><RequestId>{request_id.decode()}</RequestId></ErrorResponse>"
    )
    return Reply(error.status, _HEADERS % request_id, _encode(text))


def _write_json(action: str, answer: Answer | None, request_id: bytes) -> Reply:
    document: dict[str, Any] = {"ResponseMetadata": {"RequestId": request_id.decode()}}
    if answer is not None:
        document[f"{action}Result"] = _json_members(answer)
    body = msgspec.json.encode({f"{action}Response": document})
    return Reply(200, _JSON_HEADERS % request_id, body)


def _json_members(struct: msgspec.Struct) -> dict[str, Any]:
    kind = type(struct)
    return {
        JSON_NAMES.get(called, called): _json_value(called, getattr(struct, name))
        for name, called in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    }


def _json_value(called: str, value: Any) -> Any:
    if isinstance(value, dict):
        key = key_name(called)
        pairs = [{key: name, "Value": _json_value("", one)} for name, one in value.items()]
        return pairs or None
    if isinstance(value, list):
        return [_json_value("", one) for one in value] or None
    return _json_members(value) if isinstance(value, msgspec.Struct) else value


# Reading.


def _grow(parameters: Mapping[str, str]) -> Tree:
    root: Tree = {}
    for name, value in parameters.items():
        parts = name.split(".")
        if len(parts) > DEPTH_MAX:
            raise MalformedBody(f"The parameter {name[:200]} is not valid for this action.")
        branch = root
        for part in parts[:-1]:
            grown = branch.setdefault(part, {})
            if not isinstance(grown, dict):
                grown = branch[part] = {}
            branch = grown
        branch.setdefault(parts[-1], value)
    return root


def _text(found: Any) -> Any:
    """A value; what should be one and is a tree stays one, for the type check to complain of."""
    return found


def _items(found: Any) -> list[Any]:
    """The items of a list in the order of their numbers."""
    if not isinstance(found, dict):
        return [found]
    for word in _LIST_WORDS:
        if word in found and isinstance(found[word], dict):
            found = found[word]
    numbers = sorted(filter(_is_number, found), key=int)
    return [found[number] for number in numbers] if numbers else [found]


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) <= 6


def _list_reader(item: Reader) -> Reader:
    # An empty list is sent as the list's name with no value.
    return lambda found: [] if found == "" else [item(one) for one in _items(found)]


def _map_reader(key: str, value: Reader) -> Reader:
    def read(found: Any) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        for one in () if found == "" else _items(found):
            entry = one if isinstance(one, dict) else {}
            name = entry.get(key, entry.get("key", ""))
            # A pair without a value has one that is nothing, which its type may allow or not.
            content = entry.get("Value", entry.get("value", {}))
            if not isinstance(name, str):
                raise MalformedBody(f"The parameter {key} has parts and should be a text.")
            pairs[name] = value(content)
        return pairs

    return read


def _struct_reader(action: str, kind: inspect.StructType) -> Reader:
    members = [
        (
            field.encode_name,
            (item_name(action, field.encode_name), field.encode_name),
            _reader(action, field.encode_name, field.type),
        )
        for field in kind.fields
    ]

    def read(found: Any) -> Any:
        if not isinstance(found, dict):
            return found
        document = {}
        for member, names, reader in members:
            for name in names:
                if name in found:
                    document[member] = reader(found[name])
                    break
        return document

    return read


def _reader(action: str, member: str, kind: inspect.Type) -> Reader:
    if isinstance(kind, inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
    if isinstance(kind, inspect.ListType):
        return _list_reader(_reader(action, member, kind.item_type))
    if isinstance(kind, inspect.DictType):
        return _map_reader(key_name(member), _reader(action, member, kind.value_type))
    if isinstance(kind, inspect.StructType):
        return _struct_reader(action, kind)
    return _text


def _action_reader(name: str, request: type[Request]) -> Reader:
    kind = inspect.type_info(request)
    assert isinstance(kind, inspect.StructType), f"{name} takes {kind}"
    return _struct_reader(name, kind)


_READERS = {name: _action_reader(name, action.request) for name, action in ACTIONS.items()}


# Writing.


def _members(action: str, document: Mapping[str, Any]) -> str:
    return "".join(_member(action, name, value) for name, value in document.items())


def _member(action: str, name: str, value: Any) -> str:
    if value is None:
        return ""
    called = item_name(action, name)
    if isinstance(value, list):
        return "".join(_element(called, _content(action, item)) for item in value)
    if isinstance(value, dict):
        key = key_name(name)
        return "".join(
            f"<{called}><{key}>{_escape(one)}</{key}>"
            f"<Value>{_content(action, content)}</Value></{called}>"
            for one, content in value.items()
        )
    return _element(called, _content(action, value))


def _element(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"


def _content(action: str, value: Any) -> str:
    if isinstance(value, dict):
        return _members(action, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _escape(str(value))


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
