"""The attributes of a queue: what they may be, and which topic configs they stand for.

    VisibilityTimeout                 queue.lease.ms
    DelaySeconds                      queue.delay.ms
    ReceiveMessageWaitTimeSeconds     queue.wait.ms
    MessageRetentionPeriod            retention.ms
    FifoQueue                         queue.order
    ContentBasedDeduplication         queue.deduplication
    DeduplicationScope                queue.deduplication.scope
    RedrivePolicy                     queue.dead.letter.topic, queue.deliveries.max
    all others                        queue.sqs (see `queue_document`)

The configs are the truth: a change through Kafka is seen here at once. What is said about
encryption is kept and shown because tools set it and read it back; nothing here acts on it, and so
`SqsManagedSseEnabled` is false by default, unlike on Amazon.

A queue is FIFO if `queue.order` says so, whatever its name is.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.queue_rules import Dead, Deduplication
from penstock.core.topic import Topic
from penstock.sqs.errors import InvalidAttributeName, InvalidAttributeValue
from penstock.sqs.names import queue_arn
from penstock.sqs.queue_document import (
    MAXIMUM_MESSAGE_SIZE,
    MESSAGE_BYTES_MAX,
    NO_DOCUMENT,
    QueueDocument,
    read_document,
)
from penstock.sqs.redrive import ALLOW, REDRIVE, Redrive, read_allow, read_redrive

FIFO = "FifoQueue"
CONTENT_BASED = "ContentBasedDeduplication"
SCOPE = "DeduplicationScope"
THROUGHPUT = "FifoThroughputLimit"
POLICY = "Policy"
KMS_KEY = "KmsMasterKeyId"
KMS_PERIOD = "KmsDataKeyReusePeriodSeconds"
SSE = "SqsManagedSseEnabled"
VISIBLE = "ApproximateNumberOfMessages"
IN_FLIGHT = "ApproximateNumberOfMessagesNotVisible"
DELAYED = "ApproximateNumberOfMessagesDelayed"
COUNTS = frozenset({VISIBLE, IN_FLIGHT, DELAYED})

RECORD_BYTES_MAX = MESSAGE_BYTES_MAX + 128 * 1024
"""A batch as large as SQS allows, with what a record adds to it: headers, types, lengths."""
NEW_QUEUE = {
    "max.message.bytes": str(RECORD_BYTES_MAX),
    "queue.delete.acked": "true",
    "queue.message.headers": "true",
    "retention.ms": "345600000",
}
"""The configs of every queue made by CreateQueue, before its attributes."""


class _Number(NamedTuple):
    least: int
    most: int
    config: str = ""
    """In milliseconds; without one the attribute is in the document."""


_NUMBERS = {
    "VisibilityTimeout": _Number(0, 43_200, "queue.lease.ms"),
    "DelaySeconds": _Number(0, 900, "queue.delay.ms"),
    "ReceiveMessageWaitTimeSeconds": _Number(0, 20, "queue.wait.ms"),
    "MessageRetentionPeriod": _Number(60, 1_209_600, "retention.ms"),
    MAXIMUM_MESSAGE_SIZE: _Number(1_024, MESSAGE_BYTES_MAX),
    KMS_PERIOD: _Number(60, 86_400),
}
_CHOICES = {
    SCOPE: ("queue", "messageGroup"),
    THROUGHPUT: ("perQueue", "perMessageGroupId"),
}
_SCOPES = {"queue": "queue", "messageGroup": "group"}
_BOOLEANS = frozenset({FIFO, CONTENT_BASED, SSE})
_TEXTS = frozenset({POLICY, KMS_KEY, REDRIVE, ALLOW})
_FIFO_ONLY = frozenset({FIFO, CONTENT_BASED, SCOPE, THROUGHPUT})
_SETTABLE = _NUMBERS.keys() | _CHOICES.keys() | _BOOLEANS | _TEXTS
ATTRIBUTE_NAMES = (
    _SETTABLE | COUNTS | {"All", "CreatedTimestamp", "LastModifiedTimestamp", "QueueArn"}
)
"""The attributes that can be requested."""
_ONE_ENCRYPTION = (
    "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS"
    " SSE or SQS SSE."
)


# Checking.


def check_queue_attributes(attributes: Mapping[str, str], *, fifo: bool) -> dict[str, str]:
    """Refuse names and values that a queue of this kind cannot have; returns them in one spelling.

    What depends on other attributes or other queues is not looked at."""
    checked: dict[str, str] = {}
    for name, text in attributes.items():
        if name not in _SETTABLE or (not fifo and name in {FIFO, CONTENT_BASED}):
            raise InvalidAttributeName.unknown(name)
        if not fifo and name in _FIFO_ONLY:
            raise InvalidAttributeName(
                f"You can specify the {name} only when FifoQueue is set to true."
            )
        checked[name] = _check_value(name, text)
    if checked.get(FIFO) == "false":
        raise InvalidAttributeValue.of(FIFO, "Modifying queue type is not supported.")
    return checked


def _check_value(name: str, text: str) -> str:
    number = _NUMBERS.get(name)
    if number is not None:
        whole = text.isascii() and text.isdecimal() and len(text) < 10
        if not whole or not number.least <= int(text) <= number.most:
            raise InvalidAttributeValue.of(name)
        return str(int(text))
    if name in _BOOLEANS:
        if text.lower() not in ("true", "false"):
            raise InvalidAttributeValue.of(name)
        return text.lower()
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise InvalidAttributeValue.of(name)
        return text
    if text and name == POLICY:
        _check_map(name, text)
    elif text and name == REDRIVE:
        read_redrive(text)
    elif text and name == ALLOW:
        read_allow(text)
    return text


def _check_map(name: str, text: str) -> None:
    try:
        decode_json(text, dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidAttributeValue.of(name) from error


# To configs.


def queue_configs(
    checked: Mapping[str, str], topic: Topic | None, *, now_s: int
) -> dict[str, str | None]:
    """The changes of configs that checked attributes come to; None takes one back.

    `topic` is the queue as it is, if it exists: what is not said stays."""
    document = read_document(topic.settings.queue.sqs) if topic is not None else NO_DOCUMENT
    configs: dict[str, str | None] = {}
    kept = dict(document.attributes)
    for name, text in checked.items():
        number = _NUMBERS.get(name)
        if number is not None and number.config:
            configs[number.config] = str(int(text) * 1_000)
        elif name in _TO_CONFIGS:
            configs |= _TO_CONFIGS[name](text)
        elif text and (name, text) != (KMS_PERIOD, "300"):
            kept[name] = text
        else:
            kept.pop(name, None)
    _check_throughput(checked, kept, topic)
    _settle_encryption(checked, kept)
    changed = QueueDocument(kept, document.tags, now_s)
    configs["queue.sqs"] = changed.write()
    return configs


def _redrive_configs(text: str) -> dict[str, str | None]:
    redrive = read_redrive(text) if text else None
    return {
        "queue.dead.letter.topic": redrive.target if redrive else None,
        "queue.deliveries.max": str(redrive.receives_max) if redrive else None,
        "queue.dead.letter.policy": "move" if redrive else None,
    }


_TO_CONFIGS: dict[str, Callable[[str], dict[str, str | None]]] = {
    FIFO: lambda _: {"queue.order": "fifo"},
    CONTENT_BASED: lambda text: {"queue.deduplication": "content" if text == "true" else "id"},
    SCOPE: lambda text: {"queue.deduplication.scope": _SCOPES[text]},
    REDRIVE: _redrive_configs,
}


def _check_throughput(
    checked: Mapping[str, str], kept: Mapping[str, str], topic: Topic | None
) -> None:
    """High throughput needs ids that count within their group only."""
    by_group = topic is not None and topic.settings.queue.queue_rules.deduplication_by_group
    scope = checked.get(SCOPE, "messageGroup" if by_group else "queue")
    if kept.get(THROUGHPUT) == "perMessageGroupId" and scope != "messageGroup":
        raise InvalidAttributeValue.of(
            THROUGHPUT,
            "To set FifoThroughputLimit to perMessageGroupId, the DeduplicationScope must be"
            " messageGroup.",
        )
    if scope == "queue" and topic is not None and len(topic.partitions) > 1 and SCOPE in checked:
        raise InvalidAttributeValue.of(
            SCOPE, "A queue of several partitions compares messages within their group only."
        )


def _settle_encryption(checked: Mapping[str, str], kept: dict[str, str]) -> None:
    if kept.get(KMS_KEY):
        if checked.get(SSE) == "true":
            raise InvalidAttributeName(_ONE_ENCRYPTION)
        kept[SSE] = "false"


# From configs.


def describe_queue(topic: Topic, region: str) -> dict[str, str]:
    """Every attribute that a queue has, but for how many messages are in it."""
    settings = topic.settings
    queue = settings.queue
    document = read_document(queue.sqs)
    retention_ms = -1_000 if settings.retention_ms is None else settings.retention_ms
    created_s = topic.created_ms // 1_000
    described = {
        "QueueArn": queue_arn(region, topic.name),
        "CreatedTimestamp": str(created_s),
        "LastModifiedTimestamp": str(document.modified_s or created_s),
        "VisibilityTimeout": str(queue.work_rules.lease_ms // 1_000),
        "DelaySeconds": str(queue.queue_rules.delay_ms // 1_000),
        "ReceiveMessageWaitTimeSeconds": str(queue.wait_ms // 1_000),
        "MessageRetentionPeriod": str(retention_ms // 1_000),
        MAXIMUM_MESSAGE_SIZE: str(MESSAGE_BYTES_MAX),
        SSE: "false",
    }
    if queue.fifo:
        rules = queue.queue_rules
        described |= {
            FIFO: "true",
            CONTENT_BASED: _flag(rules.deduplication is Deduplication.CONTENT),
            SCOPE: "messageGroup" if rules.deduplication_by_group else "queue",
            THROUGHPUT: "perQueue",
        }
    redrive = redrive_of(topic)
    if redrive is not None:
        described[REDRIVE] = redrive.write(region)
    return described | document.attributes


def redrive_of(topic: Topic) -> Redrive | None:
    """The redrive policy of a queue; None if it has none."""
    queue = topic.settings.queue
    rules = queue.work_rules
    if rules.dead is not Dead.MOVE or rules.deliveries_max < 1:
        return None
    return Redrive(queue.dead_letter_topic, rules.deliveries_max)


def different_attribute(checked: Mapping[str, str], topic: Topic, region: str) -> str | None:
    """The first attribute, by name, that a queue has otherwise than it is wanted."""
    described = describe_queue(topic, region)
    for name in sorted(checked):
        if _meaning(name, checked[name]) != _meaning(name, described.get(name, "")):
            return name
    return None


def _meaning(name: str, text: str) -> object:
    """The normalised value of an attribute, for comparison."""
    if not text or name not in _TEXTS or name == KMS_KEY:
        return "" if (name, text) == (KMS_PERIOD, "300") else text
    if name == REDRIVE:
        return read_redrive(text)
    return msgspec.json.decode(text)


def _flag(value: bool) -> str:
    return "true" if value else "false"
