"""The requests of SQS: one struct for each action, with Amazon's names for its members.

Everything may be missing here, because a missing parameter is an error with words of its own, and
those are the action's to say. What is there has the right type: that is checked when it is read.
"""

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True, rename="pascal", gc=False):
    """The base class of requests: how members are named."""


class MessageAttributeValue(Request, frozen=True, omit_defaults=True):
    """A message attribute; a system attribute has the same form. Lists are not supported by Amazon,
    but may be sent, empty."""

    data_type: str | None = None
    string_value: str | None = None
    binary_value: bytes | None = None
    string_list_values: list[str] | None = None
    binary_list_values: list[bytes] | None = None


class QueueRequest(Request, frozen=True):
    """A request about one queue."""

    queue_url: str | None = None


class AddPermission(QueueRequest, frozen=True):
    """Add a statement to the queue's policy."""

    label: str | None = None
    aws_account_ids: list[str] | None = msgspec.field(default=None, name="AWSAccountIds")
    actions: list[str] | None = None


class CancelMessageMoveTask(Request, frozen=True):
    task_handle: str | None = None


class ChangeMessageVisibility(QueueRequest, frozen=True):
    """Let a lease end sooner or later."""

    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatchEntry(Request, frozen=True):
    """An entry of ChangeMessageVisibilityBatch."""

    id: str | None = None
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatch(QueueRequest, frozen=True):
    """Let several leases end sooner or later."""

    entries: list[ChangeMessageVisibilityBatchEntry] | None = None


class CreateQueue(Request, frozen=True):
    """Make a queue, or find it made just so."""

    queue_name: str | None = None
    attributes: dict[str, str] | None = None
    tags: dict[str, str] | None = msgspec.field(default=None, name="tags")


class DeleteMessage(QueueRequest, frozen=True):
    receipt_handle: str | None = None


class DeleteMessageBatchEntry(Request, frozen=True):
    """An entry of DeleteMessageBatch."""

    id: str | None = None
    receipt_handle: str | None = None


class DeleteMessageBatch(QueueRequest, frozen=True):
    """Deletes several messages."""

    entries: list[DeleteMessageBatchEntry] | None = None


class DeleteQueue(QueueRequest, frozen=True):
    """Remove a queue with all its messages."""


class GetQueueAttributes(QueueRequest, frozen=True):
    attribute_names: list[str] | None = None


class GetQueueUrl(Request, frozen=True):
    queue_name: str | None = None
    queue_owner_aws_account_id: str | None = msgspec.field(
        default=None, name="QueueOwnerAWSAccountId"
    )


class ListDeadLetterSourceQueues(QueueRequest, frozen=True):
    """Requests the queues that use this dead-letter queue."""

    next_token: str | None = None
    max_results: int | None = None


class ListMessageMoveTasks(Request, frozen=True):
    """Requests the moves of a queue."""

    source_arn: str | None = None
    max_results: int | None = None


class ListQueues(Request, frozen=True):
    """Requests the names of queues."""

    queue_name_prefix: str | None = None
    next_token: str | None = None
    max_results: int | None = None


class ListQueueTags(QueueRequest, frozen=True):
    """Requests the tags of a queue."""


class PurgeQueue(QueueRequest, frozen=True):
    """Forget all messages of a queue."""


class ReceiveMessage(QueueRequest, frozen=True):
    """Leases messages."""

    attribute_names: list[str] | None = None
    message_system_attribute_names: list[str] | None = None
    message_attribute_names: list[str] | None = None
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class RemovePermission(QueueRequest, frozen=True):
    """Take a statement out of the queue's policy."""

    label: str | None = None


class OutgoingMessage(Request, frozen=True):
    """The fields of a message to be sent, alone or in a batch."""

    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: dict[str, MessageAttributeValue] | None = None
    message_system_attributes: dict[str, MessageAttributeValue] | None = None
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(OutgoingMessage, frozen=True):
    queue_url: str | None = None


class SendMessageBatchEntry(OutgoingMessage, frozen=True):
    """An entry of SendMessageBatch."""

    id: str | None = None


class SendMessageBatch(QueueRequest, frozen=True):
    """Sends several messages."""

    entries: list[SendMessageBatchEntry] | None = None


class SetQueueAttributes(QueueRequest, frozen=True):
    """Changes attributes of a queue."""

    attributes: dict[str, str] | None = None


class StartMessageMoveTask(Request, frozen=True):
    """Move the messages of a dead-letter queue back or elsewhere."""

    source_arn: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class TagQueue(QueueRequest, frozen=True):
    """Adds tags to a queue."""

    tags: dict[str, str] | None = None


class UntagQueue(QueueRequest, frozen=True):
    """Removes tags from a queue."""

    tag_keys: list[str] | None = None
