"""Every error that SQS answers with: the shape, the older code, the status, and the words.

Amazon names an error twice. The JSON protocol names its shape (`QueueDoesNotExist`), the Query
protocol its code (`AWS.SimpleQueueService.NonExistentQueue`), and programs have come to depend on
both, on the status, and on the words as well. So all four are Amazon's, letter by letter, as far as
they are known; where Amazon has no such case the words are ours.

A shape belongs to a namespace, of which `__type` tells: most are SQS's own, the general ones are of
the framework that Amazon's services are built on.

Errors of the engine become errors of SQS by `from_penstock`.
"""

from typing import ClassVar, Literal

from penstock.core.errors import PenstockError, UnknownPartition, UnknownWork

SQS = "com.amazonaws.sqs"
FRAMEWORK = "com.amazon.coral.service"
_PREFIX = "AWS.SimpleQueueService."
_SHOWN_CHARACTERS_MAX = 1_000

Fault = Literal["Sender", "Receiver"]


class SqsError(Exception):
    """An answer that is no success. Raised by actions, written down by the protocols."""

    shape: ClassVar[str]
    """The name of the error in the JSON protocol."""
    code: ClassVar[str]
    """The name of the error in the Query protocol."""
    status: ClassVar[int] = 400
    fault: ClassVar[Fault] = "Sender"
    namespace: ClassVar[str] = SQS

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self)

    @property
    def query_message(self) -> str:
        """The text of the error in the Query protocol."""
        return self.message

    @property
    def type_name(self) -> str:
        """The value of `__type`."""
        return f"{self.namespace}#{self.shape}"


# Of the framework.


class InvalidParameterValue(SqsError):
    """A parameter, or something about the request as a whole, is not as it must be."""

    shape = "InvalidParameterValueException"
    code = "InvalidParameterValue"
    namespace = FRAMEWORK


class MissingParameter(SqsError):
    """A parameter that there must be is not there."""

    shape = "MissingRequiredParameterException"
    code = "MissingParameter"
    namespace = FRAMEWORK

    def __init__(self, name: str) -> None:
        super().__init__(f"The request must contain the parameter {name}.")


class ServiceUnavailable(SqsError):
    """The service is temporarily unavailable: the request had no effect and may be repeated."""

    shape = "ServiceUnavailable"
    code = "ServiceUnavailable"
    status = 503
    fault = "Receiver"
    namespace = FRAMEWORK


class InternalFailure(SqsError):
    """Something broke, or it is not known whether it happened."""

    shape = "InternalFailure"
    code = "InternalFailure"
    status = 500
    fault = "Receiver"
    namespace = FRAMEWORK


# Of queues.


class QueueDoesNotExist(SqsError):
    shape = "QueueDoesNotExist"
    code = _PREFIX + "NonExistentQueue"

    def __init__(self) -> None:
        super().__init__("The specified queue does not exist.")

    @property
    def query_message(self) -> str:
        return "The specified queue does not exist for this wsdl version."


class QueueNameExists(SqsError):
    """A queue of this name exists with other attributes."""

    shape = "QueueNameExists"
    code = "QueueAlreadyExists"


class QueueDeletedRecently(SqsError):
    """A queue of this name was deleted a moment ago."""

    shape = "QueueDeletedRecently"
    code = _PREFIX + "QueueDeletedRecently"


class PurgeQueueInProgress(SqsError):
    """The queue was purged a moment ago."""

    shape = "PurgeQueueInProgress"
    code = _PREFIX + "PurgeQueueInProgress"
    status = 403


class InvalidAttributeName(SqsError):
    """No queue, or not this one, has an attribute of this name; or a receive asks for one that
    messages do not have."""

    shape = "InvalidAttributeName"
    code = "InvalidAttributeName"

    @classmethod
    def unknown(cls, name: str) -> "InvalidAttributeName":
        """Make the error with Amazon's usual text."""
        return cls(f"Unknown Attribute {shown(name)}.")


class InvalidAttributeValue(SqsError):
    """An attribute that cannot have this value."""

    shape = "InvalidAttributeValue"
    code = "InvalidAttributeValue"

    @classmethod
    def of(cls, name: str, reason: str = "") -> "InvalidAttributeValue":
        """Make the error with Amazon's usual text."""
        tail = f" Reason: {reason}" if reason else ""
        return cls(f"Invalid value for the parameter {name}.{tail}")


class OverLimit(SqsError):
    """A limit is reached."""

    shape = "OverLimit"
    code = "OverLimit"
    status = 403


class RequestThrottled(SqsError):
    """The request exceeds a rate limit."""

    shape = "RequestThrottled"
    code = "RequestThrottled"
    status = 403


class UnsupportedOperation(SqsError):
    """The operation is not supported."""

    shape = "UnsupportedOperation"
    code = _PREFIX + "UnsupportedOperation"


class ResourceNotFound(SqsError):
    """No such source, destination or move of messages."""

    shape = "ResourceNotFoundException"
    code = "ResourceNotFoundException"
    status = 404


# Of messages.


class InvalidMessageContents(SqsError):
    """A body with characters that none may have."""

    shape = "InvalidMessageContents"
    code = "InvalidMessageContents"

    def __init__(self) -> None:
        super().__init__(FORBIDDEN_CHARACTERS)


class ReceiptHandleIsInvalid(SqsError):
    """Something that is no receipt handle of this queue."""

    shape = "ReceiptHandleIsInvalid"
    code = "ReceiptHandleIsInvalid"
    status = 404

    def __init__(self, handle: str) -> None:
        super().__init__(
            f'The input receipt handle "{shown(handle)}" is not a valid receipt handle.'
        )


class MessageNotInflight(SqsError):
    """The lease of the receipt handle is over."""

    shape = "MessageNotInflight"
    code = _PREFIX + "MessageNotInflight"

    def __init__(self) -> None:
        super().__init__("The specified message isn't in flight.")


class MessageTooLong(InvalidParameterValue):
    """A message above the queue's MaximumMessageSize."""

    def __init__(self, most: int, *, in_batch: bool = False) -> None:
        verb = "cannot be validated" if in_batch else "are invalid"
        super().__init__(
            f"One or more parameters {verb}. Reason: Message must be shorter than {most} bytes."
        )
        self.most = most


# Of batches.


class EmptyBatchRequest(SqsError):
    """A batch without entries."""

    shape = "EmptyBatchRequest"
    code = _PREFIX + "EmptyBatchRequest"

    def __init__(self, action: str) -> None:
        super().__init__(f"There should be at least one {action}RequestEntry in the request.")


class TooManyEntriesInBatchRequest(SqsError):
    """A batch with more than ten entries."""

    shape = "TooManyEntriesInBatchRequest"
    code = _PREFIX + "TooManyEntriesInBatchRequest"

    def __init__(self, count: int, most: int) -> None:
        super().__init__(
            f"Maximum number of entries per request are {most}. You have sent {count}."
        )


class InvalidBatchEntryId(SqsError):
    """A name of an entry that cannot be one."""

    shape = "InvalidBatchEntryId"
    code = _PREFIX + "InvalidBatchEntryId"

    def __init__(self) -> None:
        super().__init__(
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
            " It can be at most 80 letters long."
        )


class BatchEntryIdsNotDistinct(SqsError):
    """Two entries of a batch have the same id."""

    shape = "BatchEntryIdsNotDistinct"
    code = _PREFIX + "BatchEntryIdsNotDistinct"

    def __init__(self, entry_id: str) -> None:
        super().__init__(f"Id {entry_id} repeated.")


class BatchRequestTooLong(SqsError):
    """A batch that takes more bytes than one message may."""

    shape = "BatchRequestTooLong"
    code = _PREFIX + "BatchRequestTooLong"

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"Batch requests cannot be longer than {most} bytes. You have sent {size} bytes."
        )


FORBIDDEN_CHARACTERS = (
    "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF |"
    " #xE000 to #xFFFD | #x10000 to #x10FFFF"
)

_BY_CODE: dict[str, type[SqsError]] = {
    kind.code: kind
    for kind in (
        InvalidParameterValue,
        InvalidAttributeValue,
        OverLimit,
        QueueNameExists,
        RequestThrottled,
        ResourceNotFound,
        ServiceUnavailable,
        UnsupportedOperation,
    )
}
"""The errors that correspond to an error of the engine, by its `sqs_code`."""


def invalid_value(value: object, parameter: str, reason: str) -> InvalidParameterValue:
    """The usual words about a parameter's value."""
    return InvalidParameterValue(
        f"Value {shown(str(value))} for parameter {parameter} is invalid. Reason: {reason}"
    )


def from_penstock(error: PenstockError) -> SqsError:
    """Convert an error of the engine."""
    if isinstance(error, (UnknownPartition, UnknownWork)):  # The second while it is deleted.
        return QueueDoesNotExist()
    return _BY_CODE.get(error.sqs_code, InternalFailure)(str(error))


def shown(text: str) -> str:
    """A value of the request, shortened for an error message."""
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"
