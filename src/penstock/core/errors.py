"""Every way in which something can be refused or go wrong.

    PenstockError
    ├── LocalError                 you did it: the same call will fail again
    │   ├── InvalidBatch           a record batch that is not one, or is damaged
    │   ├── UnsupportedBatch       a sound batch that asks for what is not served
    │   ├── BatchTooLarge
    │   ├── UnknownPartition
    │   ├── PartitionExists
    │   ├── OffsetOutOfRange
    │   ├── OutOfOrderSequence     an idempotent producer skipped a batch
    │   ├── ProducerFenced         an older epoch of a producer that has been replaced
    │   ├── UnsupportedVersion     replicated state or a command of a later version
    │   ├── MembershipRefused      a membership change that would be unsafe or is senseless
    │   └── DirectoryRefused       this data directory cannot be used as asked
    │       ├── DirectoryInUse     another process has it open
    │       ├── ForeignDirectory   not a Penstock directory, or another cluster's or node's
    │       └── NewerFormat        written by a later version
    ├── Unavailable                try again: `retry_after_ms`
    │   ├── NotLeader              another node leads; `leader` names it if known
    │   ├── Overloaded             a bound was reached
    │   └── StorageFull            the disk is full: deletes and acks go on, appends do not
    ├── OutcomeUnknown             it may or may not have happened; never reported as failed
    └── StorageError               the disk broke a promise
        ├── DiskFailed             the operating system reported an error
        │   └── DiskFull           there is no space left
        ├── LogPoisoned            a write or sync failed before; nothing is acknowledged any more
        └── DamagedFile            what is on disk is not what was written

A broken promise of our own code is an `assert` and never one of these. Each class carries the codes
its front-ends answer with. Messages say what happened, to which thing, and what to do.
"""

from typing import ClassVar

from penstock.core.types import NO_NODE, NodeId


class PenstockError(Exception):
    """Anything Penstock reports on purpose."""

    kafka_code: ClassVar[int] = -1  # UNKNOWN_SERVER_ERROR
    sqs_code: ClassVar[str] = "InternalFailure"
    http_status: ClassVar[int] = 500


class LocalError(PenstockError):
    """The caller's mistake: the same call will fail again."""

    kafka_code = 42  # INVALID_REQUEST
    sqs_code = "InvalidParameterValue"
    http_status = 400


class InvalidBatch(LocalError):
    """A record batch that is malformed or whose checksum does not match."""

    kafka_code = 2  # CORRUPT_MESSAGE


class UnsupportedBatch(LocalError):
    """A sound record batch that asks for something that is not served."""

    kafka_code = 87  # INVALID_RECORD: unlike CORRUPT_MESSAGE, clients do not retry it.


class BatchTooLarge(LocalError):
    """A record batch above the size limit."""

    kafka_code = 10  # MESSAGE_TOO_LARGE
    http_status = 413


class UnknownPartition(LocalError):
    """The shard holds no such partition."""

    kafka_code = 3  # UNKNOWN_TOPIC_OR_PARTITION
    sqs_code = "AWS.SimpleQueueService.NonExistentQueue"
    http_status = 404


class PartitionExists(LocalError):
    """The partition is there already."""

    kafka_code = 36  # TOPIC_ALREADY_EXISTS
    http_status = 409


class OffsetOutOfRange(LocalError):
    """An offset before the log's start or after its end."""

    kafka_code = 1  # OFFSET_OUT_OF_RANGE
    http_status = 416


class OutOfOrderSequence(LocalError):
    """An idempotent producer's batch does not follow its last one."""

    kafka_code = 45  # OUT_OF_ORDER_SEQUENCE_NUMBER
    http_status = 409


class ProducerFenced(LocalError):
    """A newer instance of this producer has taken over."""

    kafka_code = 47  # INVALID_PRODUCER_EPOCH
    http_status = 409


class UnsupportedVersion(LocalError):
    """Replicated state, or a command in the log, of a version this build does not know."""

    kafka_code = 35  # UNSUPPORTED_VERSION


class MembershipRefused(LocalError):
    """A membership change that would be unsafe or changes nothing."""

    http_status = 409


class DirectoryRefused(LocalError):
    """This data directory cannot be used as asked."""


class DirectoryInUse(DirectoryRefused):
    """Another process has the directory open."""


class ForeignDirectory(DirectoryRefused):
    """Not a Penstock directory, or one of another cluster, shard or node."""


class NewerFormat(DirectoryRefused):
    """Written by a later version of Penstock."""


class Unavailable(PenstockError):
    """Not now. The call had no effect and may be repeated."""

    kafka_code = 15  # COORDINATOR_NOT_AVAILABLE
    sqs_code = "ServiceUnavailable"
    http_status = 503

    def __init__(self, message: str, *, retry_after_ms: int = 100) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class NotLeader(Unavailable):
    """This node does not lead the shard."""

    kafka_code = 6  # NOT_LEADER_OR_FOLLOWER

    def __init__(self, message: str, *, leader: NodeId = NO_NODE) -> None:
        super().__init__(message)
        self.leader = leader


class Overloaded(Unavailable):
    """A bound was reached; the caller must slow down."""

    kafka_code = 89  # THROTTLING_QUOTA_EXCEEDED
    sqs_code = "RequestThrottled"


class StorageFull(Unavailable):
    """The disk is full. Deleting and acknowledging go on; appending does not."""

    kafka_code = 56  # KAFKA_STORAGE_ERROR


class OutcomeUnknown(PenstockError):
    """The request was under way when leadership or the process was lost: it may have happened."""

    kafka_code = 7  # REQUEST_TIMED_OUT
    http_status = 504


class StorageError(PenstockError):
    """The disk broke a promise."""

    kafka_code = 56  # KAFKA_STORAGE_ERROR


class DiskFailed(StorageError):
    """The operating system reported an error for a file."""


class DiskFull(DiskFailed):
    """No space left on the device, or a quota was reached."""


class LogPoisoned(StorageError):
    """A write or sync failed earlier; what the disk holds is unknown until it is reopened."""


class DamagedFile(StorageError):
    """A file does not hold what was written to it."""

    def __init__(self, *, path: str, position: int, problem: str, way_out: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {problem}. {way_out}")
        self.path = path
        self.position = position
        self.problem = problem
        self.way_out = way_out
