"""ReceiveMessage: returns records as messages, whatever protocol they were produced with.

    value        Body. Bytes that SQS cannot carry as text come in base64, with a message attribute
                 penstock.encoding=base64; no value at all (in Kafka, a key's deletion) is an empty
                 text, with penstock.tombstone=true. These two are sent unasked.
    key          MessageGroupId in a FIFO queue; elsewhere a message attribute penstock.key
    headers      message attributes (see `message_attributes`)
    timestamp    SentTimestamp, or, of a message that was moved, when it was first sent

A message that died elsewhere keeps its id, when it was sent, and how often it was received.
"""

import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from hashlib import md5

from penstock.core import delivery_headers
from penstock.core.errors import PenstockError
from penstock.core.memory_budget import MemoryDraw
from penstock.core.message import Message
from penstock.core.message_id import message_id
from penstock.core.move_filter import read_number
from penstock.core.topic import Topic
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.delivery.requests import Delivery, ImmediateReceive
from penstock.sqs.answers import MessagesReceived, ReceivedMessage
from penstock.sqs.attributes import ATTRIBUTE_NAMES
from penstock.sqs.context import AGAIN, Call, Context, OnDone
from penstock.sqs.errors import InternalFailure, InvalidAttributeName, OverLimit, invalid_value
from penstock.sqs.message_attributes import (
    NO_ATTRIBUTES,
    TRACE_HEADER,
    TYPES_HEADER,
    WantedAttributes,
    attribute_value,
    digest_attributes,
    header_attributes,
    wanted_attributes,
)
from penstock.sqs.names import ACCOUNT, queue_arn
from penstock.sqs.queue_profiles import OVERHEAD_BYTES, QueueProfile
from penstock.sqs.requests import MessageAttributeValue, ReceiveMessage
from penstock.sqs.send import check_id, sequence_number
from penstock.sqs.text import decode_text

MESSAGES_MAX = 10
WAIT_SECONDS_MAX = 20
VISIBILITY_SECONDS_MAX = 43_200
KEY_ATTRIBUTE = "penstock.key"
ENCODING_ATTRIBUTE = "penstock.encoding"
TOMBSTONE_ATTRIBUTE = "penstock.tombstone"
SYSTEM_ATTRIBUTES = frozenset({
    "ApproximateFirstReceiveTimestamp",
    "ApproximateReceiveCount",
    "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
    "MessageDeduplicationId",
    "MessageGroupId",
    "SenderId",
    "SentTimestamp",
    "SequenceNumber",
})  # fmt: skip

NONE: frozenset[str] = frozenset()
_ATTEMPT = "ReceiveRequestAttemptId"
_BASE64 = MessageAttributeValue(data_type="String", string_value="base64")
_TRUE = MessageAttributeValue(data_type="String", string_value="true")

logger = logging.getLogger(__name__)


async def receive_message(
    context: Context, request: ReceiveMessage, call: Call
) -> MessagesReceived:
    """Lease messages; waits for some if there are none."""
    topic = context.queue(request.queue_url)
    messages_max, lease_ms, wait_ms = _check(request, topic)
    system, wanted = _wanted(request)
    attempt = request.receive_request_attempt_id
    draw = None if call.account is None else MemoryDraw(call.account)

    def receive() -> Awaitable[Sequence[Delivery]]:
        return context.delivery.receive(
            topic,
            messages_max=messages_max,
            lease_ms=lease_ms,
            wait_ms=wait_ms,
            receiver=call.receiver,
            draw=draw,
        )

    try:
        if attempt is None:
            deliveries = await receive()
        else:
            deliveries = await _receive_again(context, topic, attempt, lease_ms, receive)
        if not deliveries and not wait_ms and not topic.settings.queue.fifo:
            # Amazon says so to receivers that do not wait, if too much is in flight.
            if context.delivery.is_at_in_flight_limit(topic):
                raise OverLimit("The maximum number of in flight messages is reached.")
        if deliveries:
            context.flow.delivered(topic.name, len(deliveries))
        return _show_all(context, topic, deliveries, system, wanted, call.region)
    finally:
        if draw is not None:  # The connection is given the answer now, and draws for it.
            draw.close()


def begin_receive_message(
    context: Context, request: ReceiveMessage, call: Call, on_done: OnDone
) -> bool:
    """Receive, coalesced with other receives, if messages seem to be ready; `on_done` is called
    when they are leased. If there are none after all, it gets `AGAIN`: `receive_message` can wait,
    and knows the errors. Messages leased for a client that has gone are released."""
    profile = context.profile(request.queue_url)
    topic = profile.topic
    if not profile.shares or request.receive_request_attempt_id is not None:
        return False
    messages_max, lease_ms, _ = _check(request, topic)
    return context.small.begin_receive(
        topic,
        ImmediateReceive(messages_max, lease_ms, call.receiver, call.account),
        partial(_tell_received, context, profile, call.region, _wanted(request), on_done),
        profile.message_bytes,
    )


def _tell_received(
    context: Context,
    profile: QueueProfile,
    region: str,
    wants: tuple[frozenset[str], WantedAttributes],
    on_done: OnDone,
    deliveries: Sequence[Delivery] | PenstockError,
) -> None:
    if isinstance(deliveries, PenstockError) or not deliveries:
        on_done(AGAIN)
        return
    topic = profile.topic
    try:
        answer = _show_all(context, topic, deliveries, *wants, region)
    except Exception:
        logger.exception("messages of %s could not be shown", topic.name)
        on_done(InternalFailure("Internal error, a bug of Penstock; see the broker's log."))
        return
    profile.message_bytes = OVERHEAD_BYTES + len(deliveries[0].message.value or b"")
    if on_done(answer):
        context.flow.delivered(topic.name, len(deliveries))
    else:
        context.delivery.give_back(one.receipt.leased for one in deliveries)


def _wanted(request: ReceiveMessage) -> tuple[frozenset[str], WantedAttributes]:
    """Parse the requested attributes of both kinds."""
    older, newer = request.attribute_names, request.message_system_attribute_names
    system = wanted_system(tuple(older or ()), tuple(newer or ())) if older or newer else NONE
    names = request.message_attribute_names
    return system, wanted_attributes(tuple(names)) if names else NO_ATTRIBUTES


def _show_all(
    context: Context,
    topic: Topic,
    deliveries: Sequence[Delivery],
    system: frozenset[str],
    wanted: WantedAttributes,
    region: str,
) -> MessagesReceived:
    sign, topic_id = context.delivery.sign, topic.topic_id
    plain = not system and not wanted.any
    shown: list[ReceivedMessage] = []
    for one in deliveries:
        message = one.message
        value = message.value
        text = decode_text(value) if value and plain and not message.headers else None
        if text is None or value is None:
            shown.append(show_message(one, topic, sign(one.receipt), system, wanted, region))
        else:  # As nearly all are.
            shown.append(
                ReceivedMessage(
                    message_id=message_id(topic_id, one.index, message.offset),
                    receipt_handle=sign(one.receipt),
                    md5_of_body=md5(value, usedforsecurity=False).hexdigest(),
                    body=text,
                )
            )
    return MessagesReceived(messages=shown)


def _check(request: ReceiveMessage, topic: Topic) -> tuple[int, int | None, int]:
    """Parse the number of messages, the visibility timeout and the wait time."""
    count = request.max_number_of_messages
    if count is None:
        count = 1
    elif not 1 <= count <= MESSAGES_MAX:
        raise invalid_value(
            count, "MaxNumberOfMessages", f"Must be between 1 and {MESSAGES_MAX}, if provided."
        )
    visibility = request.visibility_timeout
    if visibility is not None and not 0 <= visibility <= VISIBILITY_SECONDS_MAX:
        raise invalid_value(
            visibility,
            "VisibilityTimeout",
            f"Must be >= 0 and <= {VISIBILITY_SECONDS_MAX}, if provided.",
        )
    wait = request.wait_time_seconds
    if wait is not None and not 0 <= wait <= WAIT_SECONDS_MAX:
        raise invalid_value(
            wait, "WaitTimeSeconds", f"Must be >= 0 and <= {WAIT_SECONDS_MAX}, if provided."
        )
    queue = topic.settings.queue
    attempt = request.receive_request_attempt_id
    if attempt is not None:
        if not queue.fifo:
            raise invalid_value(
                attempt,
                _ATTEMPT,
                "The request include parameter that is not valid for this queue type.",
            )
        check_id(attempt, _ATTEMPT)
    lease_ms = None if visibility is None else visibility * 1_000
    return count, lease_ms, queue.wait_ms if wait is None else wait * 1_000


async def _receive_again(
    context: Context,
    topic: Topic,
    attempt: str,
    lease_ms: int | None,
    receive: Callable[[], Awaitable[Sequence[Delivery]]],
) -> Sequence[Delivery]:
    """Return the messages of an earlier receive with this attempt id that are still in flight, with
    their leases renewed; otherwise receive."""
    answered = context.attempts.recall(topic.topic_id, attempt)
    if answered:
        again_ms = topic.settings.queue.work_rules.lease_ms if lease_ms is None else lease_ms
        outcomes = await context.delivery.settle(
            topic, [(one.receipt, Verdict.EXTEND, again_ms, "") for one in answered]
        )
        pairs = zip(answered, outcomes, strict=True)
        still = [one for one, outcome in pairs if outcome is Outcome.DONE]
        if still:
            return still
    deliveries = await receive()
    if deliveries:
        context.attempts.remember(topic.topic_id, attempt, deliveries)
    return deliveries


@lru_cache(1_024)
def wanted_system(older: tuple[str, ...], newer: tuple[str, ...]) -> frozenset[str]:
    """Return the system attributes that a receive requests, by either of the two parameters.

    The older one was declared as names of queue attributes, so those may be in it, for nothing."""
    names = frozenset(older) | frozenset(newer)
    for name in (*older, *newer):
        if name not in SYSTEM_ATTRIBUTES and name not in ATTRIBUTE_NAMES:
            raise InvalidAttributeName.unknown(name)
    return SYSTEM_ATTRIBUTES if "All" in names else names & SYSTEM_ATTRIBUTES


# Showing.


def show_message(
    delivery: Delivery,
    topic: Topic,
    handle: str,
    system: frozenset[str],
    wanted: WantedAttributes,
    region: str,
) -> ReceivedMessage:
    """A delivery, as its receiver sees it."""
    message = delivery.message
    value = message.value
    fifo = topic.settings.queue.fifo
    attributes: dict[str, MessageAttributeValue] = {}
    body = decode_text(value) if value else ""
    if body is None or value is None:
        body, value = _encode_body(value, attributes)
    if wanted.any:
        attributes |= header_attributes(message.headers, wanted)
        if not fifo and message.key is not None and wanted.includes(KEY_ATTRIBUTE):
            attributes[KEY_ATTRIBUTE] = attribute_value(message.key)
    moved_id = message.header(delivery_headers.MESSAGE_ID) if message.headers else None
    return ReceivedMessage(
        message_id=moved_id.decode("ascii", "replace")
        if moved_id
        else message_id(topic.topic_id, delivery.index, message.offset),
        receipt_handle=handle,
        md5_of_body=md5(value, usedforsecurity=False).hexdigest(),
        body=body,
        attributes=show_system(delivery, system, fifo=fifo, region=region) if system else {},
        md5_of_message_attributes=digest_attributes(attributes),
        message_attributes=attributes,
    )


def _encode_body(
    value: bytes | None, attributes: dict[str, MessageAttributeValue]
) -> tuple[str, bytes]:
    """A body that is no text, as text and as bytes; the attributes say what was done."""
    if value is None:
        attributes[TOMBSTONE_ATTRIBUTE] = _TRUE
        return "", b""
    attributes[ENCODING_ATTRIBUTE] = _BASE64
    encoded = b64encode(value)
    return encoded.decode(), encoded


def show_system(
    delivery: Delivery, wanted: frozenset[str], *, fifo: bool, region: str
) -> dict[str, str]:
    """The system attributes of a message that are wanted and that it has."""
    message = delivery.message
    headers = dict(message.headers)
    received = delivery.deliveries + read_number(headers.get(delivery_headers.DEAD_DELIVERIES), 0)
    first_ms = read_number(headers.get(delivery_headers.DEAD_FIRST_MS), delivery.first_received_ms)
    shown = {
        "SenderId": ACCOUNT,
        "SentTimestamp": str(
            read_number(headers.get(delivery_headers.SENT_MS), message.timestamp_ms)
        ),
        "ApproximateReceiveCount": str(received),
        "ApproximateFirstReceiveTimestamp": str(first_ms),
    }
    group = headers.get(delivery_headers.GROUP) or (message.key if fifo else None)
    if group:
        shown["MessageGroupId"] = _show_bytes(group)
    if fifo:
        shown["SequenceNumber"] = sequence_number(message.offset)
    deduplication_id = headers.get(delivery_headers.DEDUP_ID)
    if deduplication_id:
        shown["MessageDeduplicationId"] = _show_bytes(deduplication_id)
    dead_topic = headers.get(delivery_headers.DEAD_TOPIC)
    if dead_topic:
        shown["DeadLetterQueueSourceArn"] = queue_arn(region, _show_bytes(dead_topic))
    trace = _trace_header(message)
    if trace:
        shown["AWSTraceHeader"] = trace
    return {name: value for name, value in shown.items() if name in wanted}


def _trace_header(message: Message) -> str:
    value = message.header(TRACE_HEADER) if message.headers else None
    types = message.header(TYPES_HEADER) if value else None
    if not value or (types is not None and b'"' + TRACE_HEADER.encode() + b'"' in types):
        return ""  # Or an attribute has this name.
    return _show_bytes(value)


def _show_bytes(value: bytes) -> str:
    """Bytes that should be text, and may not be if they were written through Kafka."""
    text = decode_text(value)
    return b64encode(value).decode() if text is None else text
