"""The redrive policies of queues, as two JSON attributes: the dead-letter queue, and the queues
that may use one.

    RedrivePolicy         {"deadLetterTargetArn": ARN, "maxReceiveCount": 1 to 1000}
    RedriveAllowPolicy    {"redrivePermission": "allowAll" | "denyAll"}
                          {"redrivePermission": "byQueue", "sourceQueueArns": [1 to 10 ARNs]}

The first one is kept as topic configs, so that a dead-letter queue that was set up through Kafka is
seen here and the other way round; the second one only means something when the first is set.
"""

import msgspec

from penstock.core.decoders import decode_json
from penstock.sqs.errors import InvalidAttributeValue, SqsError, invalid_value
from penstock.sqs.names import name_of_arn, queue_arn

RECEIVES_MAX = 1_000
SOURCES_MAX = 10
REDRIVE = "RedrivePolicy"
ALLOW = "RedriveAllowPolicy"
_TARGET, _COUNT = "deadLetterTargetArn", "maxReceiveCount"
_PERMISSION, _SOURCES = "redrivePermission", "sourceQueueArns"


class Redrive(msgspec.Struct, frozen=True):
    """The dead-letter queue of a queue, and the number of receives before a message moves there."""

    target: str
    """The name of the dead-letter queue."""
    receives_max: int

    def write(self, region: str) -> str:
        """Format it as an attribute."""
        document = {_TARGET: queue_arn(region, self.target), _COUNT: self.receives_max}
        return msgspec.json.encode(document).decode()


class RedriveAllow(msgspec.Struct, frozen=True):
    """The queues that may send dead letters here."""

    permission: str
    sources: tuple[str, ...] = ()
    """Names of queues, if they are named one by one."""

    def allows(self, source: str) -> bool:
        """Whether the queue of this name may."""
        return self.permission == "allowAll" or source in self.sources


def read_redrive(text: str) -> Redrive:
    """Parse a RedrivePolicy; refuse an invalid one."""
    document = _read_map(REDRIVE, text, "Redrive policy is not a valid JSON map.")
    for name in (_TARGET, _COUNT):
        if name not in document:
            raise _refused(text, f"Redrive policy does not contain mandatory attribute: {name}.")
    if len(document) > 2:
        raise _refused(text, f"Only following attributes are supported: [{_TARGET}, {_COUNT}].")
    target, count = document[_TARGET], document[_COUNT]
    queue = name_of_arn(target) if isinstance(target, str) else None
    if queue is None:
        raise _refused(text, "Invalid value for deadLetterTargetArn.")
    if isinstance(count, str) and count.isascii() and count.isdecimal() and len(count) < 10:
        count = int(count)
    if type(count) is not int or not 1 <= count <= RECEIVES_MAX:
        raise _refused(
            text,
            f"Invalid value for maxReceiveCount: {count}, valid values are from 1 to"
            f" {RECEIVES_MAX} both inclusive.",
        )
    return Redrive(queue, count)


def read_allow(text: str) -> RedriveAllow:
    """Parse a RedriveAllowPolicy; refuse an invalid one."""
    document = _read_map(ALLOW, text, "Redrive allow policy is not a valid JSON map.")
    permission, arns = document.get(_PERMISSION), document.get(_SOURCES)
    if permission not in ("allowAll", "denyAll", "byQueue"):
        raise invalid_value(text, ALLOW, "redrivePermission is allowAll, denyAll or byQueue.")
    if permission != "byQueue":
        if arns is not None:
            raise invalid_value(text, ALLOW, "sourceQueueArns needs redrivePermission byQueue.")
        return RedriveAllow(str(permission))
    if not isinstance(arns, list) or not 1 <= len(arns) <= SOURCES_MAX:
        raise invalid_value(text, ALLOW, f"sourceQueueArns has 1 to {SOURCES_MAX} ARNs of queues.")
    names = [name_of_arn(arn) if isinstance(arn, str) else None for arn in arns]
    if None in names:
        raise invalid_value(text, ALLOW, "sourceQueueArns has ARNs of queues.")
    return RedriveAllow("byQueue", tuple(name for name in names if name is not None))


def check_target(
    text: str, source: str, *, fifo: bool, target_fifo: bool | None, allow: str | None
) -> None:
    """Refuse a dead-letter queue that a source cannot have. `target_fifo` is None if it does not
    exist; `allow` is its RedriveAllowPolicy, if it has one."""
    if target_fifo is None:
        raise _refused(text, "Dead letter target does not exist.")
    if target_fifo is not fifo:
        raise _refused(text, "Dead-letter queue must be same type of queue as the source.")
    if allow is not None and not _allowed(allow, source):
        raise _refused(
            text, "The dead-letter queue does not allow this source: see its RedriveAllowPolicy."
        )


def _allowed(allow: str, source: str) -> bool:
    try:
        return read_allow(allow).allows(source)
    except SqsError:
        return True  # It was set by hand, past all checks, and forbids nothing.


def _read_map(name: str, text: str, complaint: str) -> dict[str, object]:
    try:
        return decode_json(text, dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidAttributeValue.of(name, complaint) from error


def _refused(text: str, reason: str) -> SqsError:
    return invalid_value(text, REDRIVE, reason)
