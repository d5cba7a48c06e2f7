"""SendMessage and SendMessageBatch: what is sent becomes a record.

    MessageBody               value
    MessageAttributes         headers of the same names, and their types (see `message_attributes`)
    MessageGroupId            key in a FIFO queue, header penstock-group in a standard queue
    MessageDeduplicationId    header penstock-dedup-id; in a FIFO queue that compares contents and
                              is given no id, the SHA-256 of the body
    DelaySeconds              header penstock-delay-ms, if it is not the queue's own
    AWSTraceHeader            header of this name; if it is not given, the HTTP header
                              X-Amzn-Trace-Id of the request

A batch is appended in one piece. An entry that cannot be sent is refused and the others are sent;
but a batch that is too long, or that misses what a FIFO queue needs, is refused as a whole.
"""

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import md5, sha256

import msgspec

from penstock.core import delivery_headers
from penstock.core.errors import PenstockError
from penstock.core.message import Header, NewMessage
from penstock.core.message_id import message_id
from penstock.core.queue_rules import Deduplication
from penstock.core.queue_settings import QueueSettings
from penstock.core.topic import Topic
from penstock.engine.delivery.requests import Sent
from penstock.sqs.answers import BatchSent, MessageOfBatchSent, MessageSent, Refusal
from penstock.sqs.batches import check_entries, refuse_entry
from penstock.sqs.context import PROTOCOL, Call, Context, OnDone
from penstock.sqs.errors import (
    BatchRequestTooLong,
    InvalidMessageContents,
    InvalidParameterValue,
    MessageTooLong,
    MissingParameter,
    SqsError,
    invalid_value,
)
from penstock.sqs.message_attributes import (
    TRACE_HEADER,
    attribute_headers,
    check_attributes,
    check_trace_header,
    digest_attributes,
)
from penstock.sqs.queue_document import MESSAGE_BYTES_MAX, read_document
from penstock.sqs.queue_profiles import OVERHEAD_BYTES, QueueProfile
from penstock.sqs.requests import OutgoingMessage, SendMessage, SendMessageBatch
from penstock.sqs.text import encode_text

DELAY_SECONDS_MAX = 900
ID_CHARACTERS_MAX = 128
EMPTY_VALUE = "EmptyValue"
"""The code of a batch's entry without a body. No other answer has it."""

_NOT_FOR_THIS_KIND = "The request include parameter that is not valid for this queue type."
_GROUP = "MessageGroupId"
_DEDUPLICATION = "MessageDeduplicationId"
_NO_DEDUPLICATION_ID = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId"
    " provided explicitly"
)


async def send_message(context: Context, request: SendMessage, call: Call) -> MessageSent:
    topic, built = _one_message(context, request, call.trace)
    (sent,) = await context.delivery.send(topic, (built.message,), protocol=PROTOCOL)
    return _sent_alone(topic, built, sent)


def begin_send_message(context: Context, request: SendMessage, _: object, on_done: OnDone) -> bool:
    """Send one message, coalesced with other sends; `on_done` is called when it is stored. Return
    False if it must be sent alone."""
    profile = context.profile(request.queue_url)
    built = _build_plain(request, profile) if profile.plain else None
    if built is not None and profile.one_place and profile.joins:
        size, room = built.size + OVERHEAD_BYTES, profile.room
        if size > room:
            return False
        tell = partial(_tell_plain, on_done, profile.topic, built)
        context.small.sends.add(profile.topic, 0, (built.message,), tell, size=size, room=room)
        return True
    if built is None:
        _, built = _one_message(context, request)
    index = 0 if profile.one_place else context.delivery.place(profile.topic, built.message)
    tell = partial(_tell_alone, on_done, profile.topic, built)
    return _send_with_others(context, profile, index, (built.message,), tell)


def _tell_plain(
    on_done: OnDone, topic: Topic, built: "BuiltMessage", sent: Sequence[Sent] | PenstockError
) -> None:
    if isinstance(sent, PenstockError):
        on_done(sent)
    else:
        named = message_id(topic.topic_id, 0, sent[0].offset)
        on_done(MessageSent(md5_of_message_body=built.body_digest, message_id=named))


def _tell_alone(
    on_done: OnDone, topic: Topic, built: "BuiltMessage", sent: Sequence[Sent] | PenstockError
) -> None:
    on_done(sent if isinstance(sent, PenstockError) else _sent_alone(topic, built, sent[0]))


async def send_message_batch(context: Context, request: SendMessageBatch, call: Call) -> BatchSent:
    """Send several messages."""
    profile = context.profile(request.queue_url)
    topic, outgoing, failed = _several_messages(profile, request, call.trace)
    if not outgoing:
        return BatchSent(failed=failed)
    messages = [built.message for _, built in outgoing]
    sent = await context.delivery.send(topic, messages, protocol=PROTOCOL)
    return _sent_together(topic, outgoing, failed, sent)


def begin_send_message_batch(
    context: Context, request: SendMessageBatch, _: object, on_done: OnDone
) -> bool:
    """Send several messages, coalesced with other sends. Return False if they must be sent
    alone."""
    profile = context.profile(request.queue_url)
    topic, outgoing, failed = _several_messages(profile, request)
    if not outgoing or not profile.one_place:
        return False

    def tell(sent: Sequence[Sent] | PenstockError) -> None:
        if isinstance(sent, PenstockError):
            on_done(sent)
        else:
            on_done(_sent_together(topic, outgoing, failed, sent))

    messages = [built.message for _, built in outgoing]
    return _send_with_others(context, profile, 0, messages, tell)


def _send_with_others(
    context: Context,
    profile: QueueProfile,
    index: int,
    messages: Sequence[NewMessage],
    on_done: Callable[[Sequence[Sent] | PenstockError], None],
) -> bool:
    """Send a small batch, coalesced with other sends. Return False for a large one, and for a queue
    whose bound or deduplication decides message by message."""
    size = OVERHEAD_BYTES * len(messages)
    for message in messages:
        size += len(message.value or b"")
        if message.key is not None:
            size += len(message.key)
        if message.headers:
            size += sum(
                4 * len(name) + len(value or b"") + OVERHEAD_BYTES
                for name, value in message.headers
            )
    if size > profile.room or not profile.joins:
        return False
    context.small.sends.add(profile.topic, index, messages, on_done, size=size, room=profile.room)
    return True


def _one_message(
    context: Context, request: SendMessage, trace: bytes = b""
) -> tuple[Topic, "BuiltMessage"]:
    topic = context.queue(request.queue_url)
    queue = topic.settings.queue
    if queue.fifo and not request.message_group_id:
        raise MissingParameter(_GROUP)
    return topic, build_message(request, queue, trace)


def _several_messages(
    profile: QueueProfile, request: SendMessageBatch, trace: bytes = b""
) -> tuple[Topic, list[tuple[str, "BuiltMessage"]], list[Refusal]]:
    """The queue, the messages that can be sent, by their names, and why the others cannot."""
    topic = profile.topic
    queue = topic.settings.queue
    entries = check_entries(request.entries, "SendMessageBatch")
    if queue.fifo:
        for _name, entry in entries:
            _check_fifo_entry(entry, queue)
    outgoing: list[tuple[str, BuiltMessage]] = []
    failed: list[Refusal] = []
    size = 0
    plain = profile.plain and not trace
    for name, entry in entries:
        try:
            built = _build_plain(entry, profile) if plain else None
            if built is None:
                built = build_message(entry, queue, trace)
        except SqsError as error:
            failed.append(_refuse(name, entry, error))
            size += len((entry.message_body or "").encode(errors="replace"))
        else:
            outgoing.append((name, built))
            size += built.size
    if size > MESSAGE_BYTES_MAX:
        raise BatchRequestTooLong(size, MESSAGE_BYTES_MAX)
    return topic, outgoing, failed


def _sent_alone(topic: Topic, built: "BuiltMessage", sent: Sent) -> MessageSent:
    return MessageSent(
        md5_of_message_body=built.body_digest,
        md5_of_message_attributes=built.attributes_digest,
        md5_of_message_system_attributes=built.system_attributes_digest,
        message_id=message_id(topic.topic_id, sent.index, sent.offset),
        sequence_number=sequence_number(sent.offset) if topic.settings.queue.fifo else None,
    )


def _sent_together(
    topic: Topic,
    outgoing: Sequence[tuple[str, "BuiltMessage"]],
    failed: list[Refusal],
    sent: Sequence[Sent],
) -> BatchSent:
    topic_id, fifo = topic.topic_id, topic.settings.queue.fifo
    successful = [
        MessageOfBatchSent(
            id=name,
            md5_of_message_body=built.body_digest,
            md5_of_message_attributes=built.attributes_digest,
            md5_of_message_system_attributes=built.system_attributes_digest,
            message_id=message_id(topic_id, one.index, one.offset),
            sequence_number=sequence_number(one.offset) if fifo else None,
        )
        for (name, built), one in zip(outgoing, sent, strict=True)
    ]
    return BatchSent(successful=successful, failed=failed)


def sequence_number(offset: int) -> str:
    """Of a message in a FIFO queue: 20 digits, larger for every later message of its group."""
    return f"{offset:020d}"


def _refuse(name: str, entry: OutgoingMessage, error: SqsError) -> Refusal:
    if isinstance(error, MessageTooLong):
        error = MessageTooLong(error.most, in_batch=True)
    refusal = refuse_entry(name, error)
    return refusal if entry.message_body else msgspec.structs.replace(refusal, code=EMPTY_VALUE)


# Building.


class BuiltMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that may be sent, and the answer to its sender."""

    message: NewMessage
    size: int
    """The size as SQS counts it: the body, and the names, types and values of attributes."""
    body_digest: str
    attributes_digest: str | None = None
    system_attributes_digest: str | None = None


def _build_plain(outgoing: OutgoingMessage, profile: QueueProfile) -> BuiltMessage | None:
    """The record of a message that is nothing but a body, for a queue that wants no more; None if
    it is another one, or cannot be sent."""
    text = outgoing.message_body
    if (
        not text
        or outgoing.delay_seconds is not None
        or outgoing.message_attributes
        or outgoing.message_system_attributes
        or outgoing.message_deduplication_id is not None
        or outgoing.message_group_id is not None
    ):
        return None
    body = encode_text(text)
    if body is None or len(body) > profile.body_bytes_max:
        return None
    digest = md5(body, usedforsecurity=False).hexdigest()
    return BuiltMessage(NewMessage(body), len(body), digest)


def build_message(
    outgoing: OutgoingMessage, queue: QueueSettings, trace: bytes = b""
) -> BuiltMessage:
    """The record of a message; refused if the queue cannot have it. `trace` is the trace header of
    the HTTP request; it is in no digest, because the sender's library did not send it as an
    attribute."""
    text = outgoing.message_body
    if not text:
        raise MissingParameter("MessageBody")
    body = encode_text(text)
    if body is None:
        raise InvalidMessageContents
    size = len(body)
    headers: list[Header] = []
    attributes = outgoing.message_attributes
    if attributes:
        size += check_attributes(attributes)
        headers = attribute_headers(attributes)
    size_max = read_document(queue.sqs).message_bytes_max
    if size > size_max:
        raise MessageTooLong(size_max)
    system = outgoing.message_system_attributes
    if system:
        headers.append((TRACE_HEADER, check_trace_header(system)))
    elif trace:
        headers.append((TRACE_HEADER, trace))
    key = _add_group(headers, outgoing, queue)
    _add_deduplication_id(headers, outgoing, queue, body)
    if outgoing.delay_seconds is not None:
        _add_delay(headers, outgoing.delay_seconds, queue)
    return BuiltMessage(
        NewMessage(body, key, tuple(headers)),
        size,
        md5(body, usedforsecurity=False).hexdigest(),
        digest_attributes(attributes) if attributes else None,
        digest_attributes(system) if system else None,
    )


def _add_group(
    headers: list[Header], outgoing: OutgoingMessage, queue: QueueSettings
) -> bytes | None:
    """Add the message group and return the record's key."""
    group = outgoing.message_group_id
    if group is None:
        return None
    check_id(group, _GROUP)
    if queue.fifo:
        return group.encode()
    headers.append((delivery_headers.GROUP, group.encode()))
    return None


def _add_deduplication_id(
    headers: list[Header], outgoing: OutgoingMessage, queue: QueueSettings, body: bytes
) -> None:
    rule = queue.queue_rules.deduplication
    given = outgoing.message_deduplication_id
    if given is not None:
        if rule is Deduplication.OFF:
            raise invalid_value(given, _DEDUPLICATION, _NOT_FOR_THIS_KIND)
        check_id(given, _DEDUPLICATION)
        headers.append((delivery_headers.DEDUP_ID, given.encode()))
    elif rule is Deduplication.CONTENT:
        headers.append((delivery_headers.DEDUP_ID, sha256(body).hexdigest().encode()))
    elif rule is Deduplication.ID and queue.fifo:
        raise InvalidParameterValue(_NO_DEDUPLICATION_ID)


def _add_delay(headers: list[Header], seconds: int, queue: QueueSettings) -> None:
    if not 0 <= seconds <= DELAY_SECONDS_MAX:
        raise invalid_value(
            seconds, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {DELAY_SECONDS_MAX}."
        )
    rules = queue.queue_rules
    if seconds * 1_000 == rules.delay_ms or (queue.fifo and seconds == 0):
        return
    if queue.fifo:
        raise invalid_value(seconds, "DelaySeconds", _NOT_FOR_THIS_KIND)
    if not rules.delivery_headers:
        raise invalid_value(
            seconds,
            "DelaySeconds",
            "This topic does not read what messages say; set its config queue.message.headers.",
        )
    headers.append((delivery_headers.DELAY, b"%d" % (seconds * 1_000)))


def _check_fifo_entry(entry: OutgoingMessage, queue: QueueSettings) -> None:
    """A batch that misses what a FIFO queue needs is refused as a whole."""
    needed = queue.queue_rules.deduplication is Deduplication.ID
    if needed and not entry.message_deduplication_id:
        raise InvalidParameterValue(_NO_DEDUPLICATION_ID)
    if not entry.message_group_id:
        raise InvalidParameterValue(f"The request must contain the parameter {_GROUP}.")


def check_id(text: str, parameter: str) -> None:
    """Refuse an id that is not of 1 to 128 letters, digits and punctuation marks of ASCII."""
    # Of ASCII, what is printable is all that and the space.
    plain = text.isascii() and text.isprintable() and " " not in text
    if not plain or not 1 <= len(text) <= ID_CHARACTERS_MAX:
        raise invalid_value(
            text,
            parameter,
            f"{parameter} can only include alphanumeric and punctuation characters. 1 to"
            f" {ID_CHARACTERS_MAX} in length.",
        )
