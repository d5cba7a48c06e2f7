"""Every way in which something can be refused or go wrong.

    PenstockError
    ├── LocalError                 you did it: the same call will fail again
    │   ├── InvalidBatch           a record batch that is not one, or whose records are wrong
    │   │   └── CorruptBatch       it was damaged on the way
    │   ├── UnsupportedBatch       a sound batch that asks for what is not served
    │   │   └── MissingKeys        some of its records have no key, in a compacted topic
    │   ├── BatchTooLarge
    │   ├── InvalidTimestamp       a message's time is too far from now for its topic
    │   ├── UnknownPartition
    │   │   └── UnknownTopic
    │   │       └── UnknownTopicId it was deleted; the name may live on under another id
    │   ├── PartitionExists
    │   ├── TopicExists
    │   │   └── SettingsDiffer     there is a queue of the name, with other settings
    │   ├── InvalidTopicName
    │   ├── InvalidPartitions      a number of partitions that cannot be had
    │   ├── TopicProtected         the cluster's own topic, which is only read from outside
    │   ├── InvalidReplicationFactor
    │   ├── InvalidAssignment      brokers that a partition cannot be on
    │   ├── InvalidConfig          a topic config that is unknown or has a value it cannot have
    │   ├── CatalogFull            a bound of the whole cluster: delete something first
    │   ├── StateFull              a shard's state of one kind is as large as it may be
    │   ├── OffsetOutOfRange
    │   ├── OutOfOrderSequence     an idempotent producer skipped a batch
    │   ├── ProducerFenced         an older epoch of a producer that has been replaced
    │   ├── UnsupportedVersion     replicated state or a command of a later version
    │   ├── InvalidRequest         an invalid request
    │   ├── InvalidUrl             an address that `connect` cannot read
    │   ├── NotInstalled           a program or a package that this needs is not on this machine
    │   ├── InvalidBody            a message's body that its codec cannot write or read
    │   ├── ClientClosed           the client was closed: connect anew
    │   ├── MalformedRequest       a client sent bytes that are no request
    │   ├── InvalidFrame           a peer sent what is no frame, or a damaged one
    │   ├── NodeExists             a node's id that is taken, or was, by another data directory
    │   ├── UnknownNode
    │   ├── MembershipRefused      a membership change that would be unsafe or is senseless
    │   ├── InvalidGroup           a group's name that cannot be one
    │   ├── UnknownGroup
    │   │   └── UnknownWork        the queue has no such work group
    │   ├── InvalidReceipt         what was handed in to settle a message is no receipt of ours
    │   ├── QueueFull              a queue's own bound: its messages must be worked off first
    │   │   └── TooManyInFlight    so many messages are leased that no more may be
    │   ├── GroupNotEmpty          it has members, and what is asked needs it to have none
    │   ├── GroupSubscribed        its members still read what is to be deleted
    │   ├── GroupFull              it has as many members as it may have
    │   ├── UnknownMember          the group has no such member: join it again
    │   ├── FencedMember           a member's epoch that it was not given: join it again
    │   ├── IllegalGeneration      the group has moved on: join it again
    │   ├── InconsistentGroupProtocol
    │   ├── InvalidSessionTimeout
    │   ├── MemberIdRequired       join again with the id given: `member_id`
    │   ├── FencedInstance         another process has taken this static member's place
    │   ├── OffsetMetadataTooLarge
    │   ├── UnknownMove            no such move of messages, or one that is over
    │   ├── UnknownAlert           no such alert, or no such silence in force
    │   ├── MoveRunning            a queue's messages are moved by one move at a time
    │   ├── PublicationConflict    a batch that another owner of the application has published
    │   ├── StagingExpired         what is to be published was staged too long ago
    │   └── DirectoryRefused       this data directory cannot be used as asked
    │       ├── DirectoryInUse     another process has it open
    │       ├── ForeignDirectory   not a Penstock directory, or another cluster's or node's
    │       └── NewerFormat        written by a later version
    ├── Unavailable                try again: `retry_after_ms`
    │   ├── DeadlinePassed         it did not happen in the time the caller gave
    │   ├── NotLeader              another node leads; `leader` names it if known
    │   │   └── NotCoordinator     the same, of a group
    │   ├── NotEnoughReplicas      fewer nodes are up than the topic asks for
    │   ├── RebalanceInProgress    the group is changing hands
    │   ├── Overloaded             a bound was reached
    │   │   └── TooManyReceives    as many receives as may be wait on this node
    │   └── StorageFull            the disk is full: deletes and acks go on, appends do not
    ├── OutcomeUnknown             it may or may not have happened; never reported as failed
    └── StorageError               the disk broke a promise
        ├── DiskFailed             the operating system reported an error
        │   └── DiskFull           there is no space left
        ├── LogPoisoned            a write or sync failed before; nothing is acknowledged any more
        └── DamagedFile            what is on disk is not what was written

A broken promise of our own code is an `assert` and never one of these. Each class carries the codes
its front-ends answer with. Messages say what happened, to which thing, and what to do.

Long because every error that a client can get is found here, with the codes of each protocol.
"""

from collections.abc import Sequence
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
    """A record batch, or one of its records, is malformed."""

    kafka_code = 87  # INVALID_RECORD: unlike CORRUPT_MESSAGE, clients do not send it again.


class CorruptBatch(InvalidBatch):
    """A record batch's checksum does not match: it may have been damaged in transit."""

    kafka_code = 2  # CORRUPT_MESSAGE


class UnsupportedBatch(LocalError):
    """A sound record batch that asks for something that is not served."""

    kafka_code = 87  # INVALID_RECORD


class MissingKeys(UnsupportedBatch):
    """A batch for a compacted topic in which some records have no key."""

    def __init__(self, message: str, *, records: Sequence[int] = ()) -> None:
        """`records`: which, by their number in the batch; not all of very many."""
        super().__init__(message)
        self.records = tuple(records)


class BatchTooLarge(LocalError):
    """A record batch above the size limit."""

    kafka_code = 10  # MESSAGE_TOO_LARGE
    http_status = 413


class InvalidTimestamp(LocalError):
    """A message's time is too far from now for its topic."""

    kafka_code = 32  # INVALID_TIMESTAMP


class UnknownPartition(LocalError):
    """The shard holds no such partition."""

    kafka_code = 3  # UNKNOWN_TOPIC_OR_PARTITION
    sqs_code = "AWS.SimpleQueueService.NonExistentQueue"
    http_status = 404


class UnknownTopic(UnknownPartition):
    """No topic has this name."""


class UnknownTopicId(UnknownTopic):
    """No topic has this id. Another topic of the same name may exist."""

    kafka_code = 100  # UNKNOWN_TOPIC_ID


class PartitionExists(LocalError):
    """The partition is there already."""

    kafka_code = 36  # TOPIC_ALREADY_EXISTS
    http_status = 409


class TopicExists(LocalError):
    """A topic of this name is there already."""

    kafka_code = 36  # TOPIC_ALREADY_EXISTS
    sqs_code = "QueueAlreadyExists"
    http_status = 409


class SettingsDiffer(TopicExists):
    """A queue of this name is there already, with other settings than those that were asked for."""


class InvalidTopicName(LocalError):
    """A name that no topic may have, or one that is too much like another topic's."""

    kafka_code = 17  # INVALID_TOPIC_EXCEPTION


class InvalidPartitions(LocalError):
    """A number of partitions that a topic cannot have, or cannot be changed to."""

    kafka_code = 37  # INVALID_PARTITIONS


class TopicProtected(LocalError):
    """A topic that the cluster keeps for itself: it is only read from outside."""

    kafka_code = 29  # TOPIC_AUTHORIZATION_FAILED
    sqs_code = "AccessDenied"
    http_status = 403


class InvalidReplicationFactor(LocalError):
    """A number of replicas that this cluster cannot give."""

    kafka_code = 38  # INVALID_REPLICATION_FACTOR


class InvalidAssignment(LocalError):
    """An assignment of replicas to brokers that no cluster could carry out."""

    kafka_code = 39  # INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(LocalError):
    """A topic config that is not known, or a value that it cannot have."""

    kafka_code = 40  # INVALID_CONFIG
    sqs_code = "InvalidAttributeValue"


class CatalogFull(LocalError):
    """A bound of the whole cluster is reached; trying again does not help, deleting does."""

    # Not the code of `Overloaded`, which clients answer by trying for ever.
    kafka_code = 44  # POLICY_VIOLATION
    sqs_code = "OverLimit"
    http_status = 409


class StateFull(LocalError):
    """A shard's state of one kind is as large as it may be; the message says how to make room."""

    kafka_code = 44  # POLICY_VIOLATION: clients report it and do not retry.
    sqs_code = "OverLimit"
    http_status = 507


class OffsetOutOfRange(LocalError):
    """An offset before the log's start or after its end."""

    kafka_code = 1  # OFFSET_OUT_OF_RANGE
    http_status = 416


class OutOfOrderSequence(LocalError):
    """An idempotent producer's batch does not follow its last one."""

    kafka_code = 45  # OUT_OF_ORDER_SEQUENCE_NUMBER
    http_status = 409

    def __init__(
        self,
        message: str,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        ahead: bool = False,
    ) -> None:
        """`ahead`: there is a gap before the batch; otherwise it comes too late."""
        super().__init__(message)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ahead = ahead


class ProducerFenced(LocalError):
    """A newer instance of this producer has taken over."""

    kafka_code = 47  # INVALID_PRODUCER_EPOCH
    http_status = 409


class UnsupportedVersion(LocalError):
    """Replicated state, or a command in the log, of a version this build does not know."""

    kafka_code = 35  # UNSUPPORTED_VERSION


class InvalidRequest(LocalError):
    """A request with a wrong value; it is refused however often it is made."""

    kafka_code = 42  # INVALID_REQUEST


class InvalidUrl(LocalError):
    """An address that `connect` cannot read, or one of another system."""


class NotInstalled(LocalError):
    """A program or a package that this needs is not on this machine; the message says which."""

    http_status = 501


class InvalidBody(LocalError):
    """The codec cannot encode a body, or cannot decode bytes as the expected type."""

    kafka_code = 87  # INVALID_RECORD


class ClientClosed(LocalError):
    """The client, or an object made by it, has been closed: connect again."""

    http_status = 409


class MalformedRequest(LocalError):
    """Bytes from a client that are not the request they claim to be."""


class InvalidFrame(LocalError):
    """Bytes from another node that are no frame, or a damaged one."""


class NodeExists(LocalError):
    """The node's id is taken, or was once, by another data directory."""

    http_status = 409


class UnknownNode(LocalError):
    """The cluster has no such node."""

    http_status = 404


class MembershipRefused(LocalError):
    """A membership change that would be unsafe or changes nothing."""

    http_status = 409


class InvalidGroup(LocalError):
    """A name that no group may have."""

    kafka_code = 24  # INVALID_GROUP_ID


class UnknownGroup(LocalError):
    """No group has this name."""

    kafka_code = 69  # GROUP_ID_NOT_FOUND
    http_status = 404


class UnknownWork(UnknownGroup):
    """The queue has no such work group: it was never opened, or was closed."""


class InvalidReceipt(LocalError):
    """The receipt that should settle a message is not a receipt of Penstock."""

    kafka_code = 121  # INVALID_RECORD_STATE
    sqs_code = "ReceiptHandleIsInvalid"


class QueueFull(LocalError):
    """The queue holds as much as it may: its messages must be worked off first."""

    kafka_code = 44  # POLICY_VIOLATION: clients report it and do not retry.
    sqs_code = "OverLimit"
    http_status = 403


class TooManyInFlight(QueueFull):
    """The limit of leased messages is reached: settle some first."""


class GroupNotEmpty(LocalError):
    """The group has members, and the operation needs it to have none."""

    kafka_code = 68  # NON_EMPTY_GROUP
    http_status = 409


class GroupSubscribed(LocalError):
    """Members of the group still read the topic whose offsets are to be deleted."""

    kafka_code = 86  # GROUP_SUBSCRIBED_TO_TOPIC
    http_status = 409


class GroupFull(LocalError):
    """The group has as many members as it may have."""

    kafka_code = 81  # GROUP_MAX_SIZE_REACHED
    sqs_code = "OverLimit"
    http_status = 409


class UnknownMember(LocalError):
    """The group has no such member; it may have been silent for too long. It must join again."""

    kafka_code = 25  # UNKNOWN_MEMBER_ID
    http_status = 404


class FencedMember(LocalError):
    """The member comes with an epoch that it was not given. It must join again."""

    kafka_code = 110  # FENCED_MEMBER_EPOCH
    http_status = 409


class IllegalGeneration(LocalError):
    """The group has moved on to another generation. The member must join again."""

    kafka_code = 22  # ILLEGAL_GENERATION
    http_status = 409


class InconsistentGroupProtocol(LocalError):
    """The member knows no way of sharing the work that all the others know too."""

    kafka_code = 23  # INCONSISTENT_GROUP_PROTOCOL
    http_status = 409


class InvalidSessionTimeout(LocalError):
    """A session timeout outside of what the cluster allows."""

    kafka_code = 26  # INVALID_SESSION_TIMEOUT


class MemberIdRequired(LocalError):
    """A new member has been given an id and must join again with it."""

    kafka_code = 79  # MEMBER_ID_REQUIRED

    def __init__(self, message: str, *, member_id: str = "") -> None:
        super().__init__(message)
        self.member_id = member_id


class FencedInstance(LocalError):
    """Another process has taken the place of this static member."""

    kafka_code = 82  # FENCED_INSTANCE_ID
    http_status = 409


class OffsetMetadataTooLarge(LocalError):
    """The text committed along with an offset is too long."""

    kafka_code = 12  # OFFSET_METADATA_TOO_LARGE
    http_status = 413


class UnknownMove(LocalError):
    """No move of messages has this id, or it is over."""

    sqs_code = "ResourceNotFoundException"
    http_status = 404


class UnknownAlert(LocalError):
    """No alert with this key is active, or no silence with this id is in force."""

    http_status = 404


class MoveRunning(LocalError):
    """The queue's messages are being moved already, by another move."""

    sqs_code = "AWS.SimpleQueueService.UnsupportedOperation"
    http_status = 409


class PublicationConflict(LocalError):
    """The application's batch was published by another owner: it is not the same batch."""

    http_status = 409


class StagingExpired(LocalError):
    """The staged messages have expired: stage them again."""

    http_status = 410


class DirectoryRefused(LocalError):
    """The data directory cannot be used as requested."""


class DirectoryInUse(DirectoryRefused):
    """Another process has the directory open."""


class ForeignDirectory(DirectoryRefused):
    """The directory is not a Penstock directory, or belongs to another cluster, shard or node."""


class NewerFormat(DirectoryRefused):
    """Written by a later version of Penstock."""


class Unavailable(PenstockError):
    """The service is temporarily unavailable. The call had no effect and may be repeated."""

    kafka_code = 15  # COORDINATOR_NOT_AVAILABLE
    sqs_code = "ServiceUnavailable"
    http_status = 503

    def __init__(self, message: str, *, retry_after_ms: int = 100) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class DeadlinePassed(Unavailable):
    """The deadline has passed before the operation was started: it had no effect."""

    kafka_code = 7  # REQUEST_TIMED_OUT
    http_status = 504


class NotLeader(Unavailable):
    """This node does not lead the shard."""

    kafka_code = 6  # NOT_LEADER_OR_FOLLOWER

    def __init__(self, message: str, *, leader: NodeId = NO_NODE) -> None:
        super().__init__(message)
        self.leader = leader


class NotCoordinator(NotLeader):
    """This node does not lead the shard that holds the group."""

    kafka_code = 16  # NOT_COORDINATOR


class NotEnoughReplicas(Unavailable):
    """Fewer nodes are up than the topic asks for."""

    kafka_code = 19  # NOT_ENOUGH_REPLICAS


class RebalanceInProgress(Unavailable):
    """The members of the group are sharing out the work anew; the member must join again."""

    kafka_code = 27  # REBALANCE_IN_PROGRESS


class Overloaded(Unavailable):
    """A bound was reached; the caller must slow down."""

    kafka_code = 89  # THROTTLING_QUOTA_EXCEEDED
    sqs_code = "RequestThrottled"


class TooManyReceives(Overloaded):
    """As many receives as may be wait for messages on this node."""


class StorageFull(Unavailable):
    """The disk is full. Deleting and acknowledging go on; appending does not."""

    kafka_code = 56  # KAFKA_STORAGE_ERROR


class OutcomeUnknown(PenstockError):
    """The request was under way when leadership or the process was lost: it may have happened."""

    kafka_code = 7  # REQUEST_TIMED_OUT
    http_status = 504


class StorageError(PenstockError):
    """The disk failed, or returned damaged data."""

    kafka_code = 56  # KAFKA_STORAGE_ERROR


class DiskFailed(StorageError):
    """The operating system reported an error for a file."""


class DiskFull(DiskFailed):
    """No space left on the device, or a quota was reached."""


class LogPoisoned(StorageError):
    """A write or sync failed earlier; what the disk holds is unknown until it is reopened."""


class DamagedFile(StorageError):
    """The content of a file is not the data that was written to it."""

    def __init__(self, *, path: str, position: int, problem: str, way_out: str) -> None:
        super().__init__(f"{path} is damaged at byte {position}: {problem}. {way_out}")
        self.path = path
        self.position = position
        self.problem = problem
        self.way_out = way_out


def _name_tree(kind: type[PenstockError]) -> dict[str, type[PenstockError]]:
    named = {kind.__name__: kind}
    for one in kind.__subclasses__():
        named |= _name_tree(one)
    return named


# What is damaged and where does not fit into a message: from afar it is a broken disk.
_NAMED = {**_name_tree(PenstockError), DamagedFile.__name__: StorageError}


def error_named(name: str) -> type[PenstockError]:
    """The class of an error that came by name, from a log or from a peer, to be made of a message.

    A name of a later version is a plain `PenstockError`: refused all the same, if not so exactly.
    """
    return _NAMED.get(name, PenstockError)
