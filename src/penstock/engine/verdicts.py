"""What workers say about single messages, joined where neighbours share a fate.

A worker that acks a thousand messages of one lease hands in a thousand receipts; they become one
settlement, which costs as much as one message does.
"""

from collections.abc import Sequence

import msgspec

from penstock.core.types import Offset
from penstock.engine.queue_requests import Receipt
from penstock.machines.queue_commands import Settlement, Verdict

Verdicts = Sequence[tuple[Receipt, Verdict, int, str]]
"""(receipt, verdict, delay in milliseconds, reason)"""


def settlement_of(receipt: Receipt, verdict: Verdict, delay_ms: int, reason: str) -> Settlement:
    """A verdict on a single message."""
    end = Offset(receipt.offset + 1)
    return Settlement(receipt.offset, end, receipt.epoch, verdict, delay_ms, reason)


def join_verdicts(numbers: list[int], verdicts: Verdicts) -> list[tuple[Settlement, list[int]]]:
    """Settlements with the verdicts each stands for: equal ones on neighbours become one."""
    joined: list[tuple[Settlement, list[int]]] = []
    for number in sorted(numbers, key=lambda number: verdicts[number][0].offset):
        one = settlement_of(*verdicts[number])
        if joined:
            last, members = joined[-1]
            if msgspec.structs.replace(last, first=last.end, end=one.end) == one:
                longer = msgspec.structs.replace(last, end=one.end)
                joined[-1] = (longer, [*members, number])
                continue
        joined.append((one, [number]))
    return joined
