"""The bounds of commands to queues: what is written must be of a size that can be."""

from penstock.core.errors import InvalidRequest
from penstock.core.limits import (
    ACQUIRE_MESSAGES_MAX,
    CUMULATIVE_ACK_DEAD_MAX,
    DEAD_REASON_CHARACTERS_MAX,
    GROUP_NAME_BYTES_MAX,
    RECEIVER_CHARACTERS_MAX,
    SETTLEMENTS_MAX,
    STREAM_NAME_CHARACTERS_MAX,
)
from penstock.core.queue_rules import PRIORITIES
from penstock.machines.queue_commands import (
    Acquire,
    CumulativeAck,
    OpenWork,
    QueueCommand,
    Recall,
    Settle,
)


def check_queue_command(request: QueueCommand) -> None:
    """What is written must be bounded; what it says is decided when it is applied."""
    match request:
        case Acquire(messages_max=most) if not 0 < most <= ACQUIRE_MESSAGES_MAX:
            raise InvalidRequest(f"{most} messages at once; from 1 to {ACQUIRE_MESSAGES_MAX}")
        case Acquire(receiver=receiver) if len(receiver) > RECEIVER_CHARACTERS_MAX:
            raise InvalidRequest(f"a receiver's name of {len(receiver)} characters is too long")
        case Settle(settlements=settlements):
            if len(settlements) > SETTLEMENTS_MAX:
                raise InvalidRequest(f"{len(settlements)} verdicts; {SETTLEMENTS_MAX} at most")
            for one in settlements:
                if not 0 <= one.first < one.end:
                    raise InvalidRequest(f"a verdict on offsets {one.first} to {one.end}")
                _check_reason(one.reason)
        case CumulativeAck(first=first, end=end, dead=dead, stream=stream):
            if len(stream) > STREAM_NAME_CHARACTERS_MAX:
                raise InvalidRequest(f"a stream's name of {len(stream)} characters is too long")
            if not 0 <= first <= end:
                raise InvalidRequest(f"offsets {first} to {end} cannot be covered")
            if len(dead) > CUMULATIVE_ACK_DEAD_MAX:
                raise InvalidRequest(f"{len(dead)} die at once; {CUMULATIVE_ACK_DEAD_MAX} at most")
            for _, reason in dead:
                _check_reason(reason)
        case Recall(delivery_headers=delivery_headers):
            if any(not 0 <= level < PRIORITIES for _, level, *_ in delivery_headers):
                raise InvalidRequest(f"priorities are 0 to {PRIORITIES - 1}")
        case OpenWork(group=group):
            if not 0 < len(group.encode(errors="replace")) <= GROUP_NAME_BYTES_MAX:
                raise InvalidRequest(f"a work group's name has 1 to {GROUP_NAME_BYTES_MAX} bytes")
        case _:
            pass


def _check_reason(reason: str) -> None:
    if len(reason) > DEAD_REASON_CHARACTERS_MAX:
        raise InvalidRequest(
            f"a reason of {len(reason)} characters; {DEAD_REASON_CHARACTERS_MAX} at most"
        )
