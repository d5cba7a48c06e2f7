"""From our errors to Kafka's error codes, by what clients do when they see a code.

Most errors have one code, `PenstockError.kafka_code`. What may pass by itself needs more care: a
client repeats a request only for the codes it knows to be passing, and these differ between APIs.
Checked against librdkafka's `rd_kafka_err_action`, Java's RetriableException and the `retriable`
marks of aiokafka and kafka-python:

    code                              librdkafka           Java     aiokafka  kafka-python
     5 LEADER_NOT_AVAILABLE           refresh, retry       retry    retry     retry
     6 NOT_LEADER_OR_FOLLOWER         refresh, retry       retry    retry     retry
     7 REQUEST_TIMED_OUT              retry, may be there  retry    retry     retry
    14 COORDINATOR_LOAD_IN_PROGRESS   retry                retry    retry     retry
    15 COORDINATOR_NOT_AVAILABLE      refresh, retry       retry    retry     retry
    16 NOT_COORDINATOR                refresh, retry       retry    retry     retry
    19 NOT_ENOUGH_REPLICAS            retry                retry    retry     retry
    56 KAFKA_STORAGE_ERROR            refresh, retry       retry    retry     retry
    89 THROTTLING_QUOTA_EXCEEDED      fails                retry    fails     retry

In a table the first class that fits counts.
"""

from collections.abc import Callable
from typing import Final

from penstock.core.errors import (
    NotEnoughReplicas,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    RebalanceInProgress,
    StorageError,
    StorageFull,
    Unavailable,
)

OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER_OR_FOLLOWER: Final = 6
REQUEST_TIMED_OUT: Final = 7
COORDINATOR_NOT_AVAILABLE: Final = 15
NOT_COORDINATOR: Final = 16
NOT_ENOUGH_REPLICAS: Final = 19
INVALID_REQUIRED_ACKS: Final = 21
INVALID_REQUEST: Final = 42
UNSUPPORTED_VERSION: Final = 35
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
SECURITY_DISABLED: Final = 54
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75
INVALID_RECORD: Final = 87
UNKNOWN_TOPIC_ID: Final = 100

_Table = tuple[tuple[type[PenstockError], int], ...]

_PRODUCE: Final[_Table] = (
    (NotLeader, NOT_LEADER_OR_FOLLOWER),
    (NotEnoughReplicas, NOT_ENOUGH_REPLICAS),
    # Nothing was written, and asking for metadata would only add to the load.
    (Overloaded, NOT_ENOUGH_REPLICAS),
    (StorageFull, 56),
    # No leader yet, or not ready: ask again who leads.
    (Unavailable, LEADER_NOT_AVAILABLE),
    # It may be written. Idempotent producers repeat it safely, others choose by their settings.
    (OutcomeUnknown, 7),
    (StorageError, 56),
)
_READ: Final[_Table] = (
    (NotLeader, NOT_LEADER_OR_FOLLOWER),
    (Unavailable, LEADER_NOT_AVAILABLE),
    (OutcomeUnknown, LEADER_NOT_AVAILABLE),
    # The replica has stopped; another one will lead.
    (StorageError, 56),
)
_SHARE_FETCH: Final[_Table] = (
    # All that may pass by itself: share consumers know few codes, and report the others as errors.
    (NotLeader, NOT_LEADER_OR_FOLLOWER),
    (Unavailable, NOT_LEADER_OR_FOLLOWER),
    # What was leased, if anything was, comes free again by itself.
    (OutcomeUnknown, NOT_LEADER_OR_FOLLOWER),
    (StorageError, 56),
)
_SHARE_ACKNOWLEDGE: Final[_Table] = (
    # It may be settled; if not, the message is delivered again.
    (OutcomeUnknown, REQUEST_TIMED_OUT),
    *_SHARE_FETCH,
)
_GROUP: Final[_Table] = (
    (RebalanceInProgress, 27),
    (NotLeader, NOT_COORDINATOR),
    # Members wait and repeat; they do not look for another coordinator.
    (Overloaded, 14),
    (Unavailable, COORDINATOR_NOT_AVAILABLE),
    # As Kafka has it: repeated, a join or a commit changes nothing that happened.
    (OutcomeUnknown, COORDINATOR_NOT_AVAILABLE),
    (StorageError, NOT_COORDINATOR),
)
_PRODUCER_ID: Final[_Table] = (
    # Java and aiokafka look for a transaction coordinator at 15 and 16; at 14 they ask again.
    (Unavailable, 14),
    (OutcomeUnknown, 14),
    (StorageError, 14),
)
_ADMIN: Final[_Table] = (
    (NotLeader, 41),  # NOT_CONTROLLER: asked again until there is one.
    (Overloaded, 89),  # Made for this API: admin clients wait as long as the answer says.
    (Unavailable, 7),
    (OutcomeUnknown, 7),
    (StorageError, 56),
)


def _chooser(table: _Table) -> Callable[[PenstockError], int]:
    def code(error: PenstockError) -> int:
        for kind, number in table:
            if isinstance(error, kind):
                return number
        return error.kafka_code

    return code


produce_code = _chooser(_PRODUCE)
"""For appending."""
read_code = _chooser(_READ)
"""For what a partition's leader is asked without changing anything."""
share_fetch_code = _chooser(_SHARE_FETCH)
"""For a partition that a share consumer reads."""
share_acknowledge_code = _chooser(_SHARE_ACKNOWLEDGE)
"""For messages that it acknowledges."""
group_code = _chooser(_GROUP)
"""For what a group's coordinator is asked."""
producer_id_code = _chooser(_PRODUCER_ID)
"""For an idempotent producer's id."""
code_of = _chooser(_ADMIN)
"""For everything else: topics, configurations, the cluster."""
