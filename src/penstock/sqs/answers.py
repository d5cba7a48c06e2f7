"""The answers of SQS: one struct for each action, with Amazon's member names.

A member that has nothing to say is not there at all, neither in JSON nor in XML.
"""

import msgspec

from penstock.sqs.requests import MessageAttributeValue


class Answer(
    msgspec.Struct, frozen=True, kw_only=True, rename="pascal", omit_defaults=True, gc=False
):
    """The base class of answers: how members are named, and that empty ones are left out."""


class Refusal(Answer, frozen=True, kw_only=True):
    """Why one entry of a batch was refused."""

    id: str
    sender_fault: bool
    code: str
    message: str | None = None


class BatchEntryDone(Answer, frozen=True, kw_only=True):
    """A batch entry that succeeded."""

    id: str


class BatchDone(Answer, frozen=True, kw_only=True):
    """The results of a batch of deletions, or of changes of visibility."""

    successful: list[BatchEntryDone] = []
    failed: list[Refusal] = []


class MessageSent(Answer, frozen=True, kw_only=True):
    """A message that was stored."""

    md5_of_message_body: str = msgspec.field(name="MD5OfMessageBody")
    md5_of_message_attributes: str | None = msgspec.field(
        default=None, name="MD5OfMessageAttributes"
    )
    md5_of_message_system_attributes: str | None = msgspec.field(
        default=None, name="MD5OfMessageSystemAttributes"
    )
    message_id: str
    sequence_number: str | None = None


class MessageOfBatchSent(MessageSent, frozen=True, kw_only=True):
    """A message of a batch is stored."""

    id: str


class BatchSent(Answer, frozen=True, kw_only=True):
    """The results of a batch of messages."""

    successful: list[MessageOfBatchSent] = []
    failed: list[Refusal] = []


class ReceivedMessage(Answer, frozen=True, kw_only=True):
    """A leased message."""

    message_id: str
    receipt_handle: str
    md5_of_body: str = msgspec.field(name="MD5OfBody")
    body: str
    attributes: dict[str, str] = {}
    md5_of_message_attributes: str | None = msgspec.field(
        default=None, name="MD5OfMessageAttributes"
    )
    message_attributes: dict[str, MessageAttributeValue] = {}


class MessagesReceived(Answer, frozen=True, kw_only=True):
    """The received messages; there may be none."""

    messages: list[ReceivedMessage] = []


class QueueLocated(Answer, frozen=True, kw_only=True):
    """Answers CreateQueue and GetQueueUrl."""

    queue_url: str


class QueuesListed(Answer, frozen=True, kw_only=True):
    """The answer to ListQueues."""

    queue_urls: list[str] = []
    next_token: str | None = None


class DeadLetterSourcesListed(Answer, frozen=True, kw_only=True):
    """Answers ListDeadLetterSourceQueues. Amazon spells this member as no other."""

    queue_urls: list[str] = msgspec.field(name="queueUrls")
    next_token: str | None = None


class QueueAttributes(Answer, frozen=True, kw_only=True):
    """The answer to GetQueueAttributes."""

    attributes: dict[str, str] = {}


class QueueTags(Answer, frozen=True, kw_only=True):
    """The answer to ListQueueTags."""

    tags: dict[str, str] = {}


class MoveStarted(Answer, frozen=True, kw_only=True):
    """Answers StartMessageMoveTask."""

    task_handle: str


class MoveCancelled(Answer, frozen=True, kw_only=True):
    """Answers CancelMessageMoveTask."""

    approximate_number_of_messages_moved: int


class MoveListed(Answer, frozen=True, kw_only=True):
    """A move of messages, running or over."""

    task_handle: str | None = None
    """The handle of a running move."""
    status: str
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    approximate_number_of_messages_moved: int
    approximate_number_of_messages_to_move: int | None = None
    failure_reason: str | None = None
    started_timestamp: int


class MovesListed(Answer, frozen=True, kw_only=True):
    """Answers ListMessageMoveTasks."""

    results: list[MoveListed] = []
