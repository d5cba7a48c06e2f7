"""Poison messages: messages that kill the process that works on them.

A message that fails with an error is the retry policy's business. A poisonous one leaves no error
behind: the process dies (out of memory, a crash in native code), its lease runs out, the next
process gets it and dies too. All that is left is a delivery count that grows without a reported
failure. Such deliveries are *silent*, and they are counted:

    silent = deliveries before this one, if no failure of the message was reported here,
             and no more than leases can have run out since the first delivery

    silent < after − 1     ordinary
    silent = after − 1     worked on alone
    silent ≥ after         rejected, with a reason that begins with "poison"

Alone, because whatever the process held beside the poison has silent deliveries too; so it gives
back everything else before (see `exclusive_slot`). An innocent message is done when it is worked on
alone, and only the guilty one comes back again. So one bad message costs `after` processes, and
never the queue, nor its neighbours.

The broker does not tell how a delivery ended. A failure that another process reported looks silent
here, if the wait until the retry was longer than the lease. So a process learns: when some suspects
in a row turned out to be innocent, the next ones are ordinary, and what would have been rejected is
worked on alone. One that really is poison ends the process and all its trust; the process after it
knows nothing yet, and rejects. What remains is that a fresh process may reject a message that
others failed at loudly, with long waits, more often than `after`: where retries are meant to go on
for that long, give the worker a larger `poison_after`, or none.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum

from penstock.core.errors import InvalidRequest

REPORTED_MAX = 10_000
"""The number of failed messages that are remembered; above it the oldest failure is forgotten."""
INNOCENT_ENOUGH = 5
"""The number of innocent suspects after which a process trusts the next ones."""


class PoisonVerdict(Enum):
    """The treatment of a message."""

    NONE = "ordinary"
    ALONE = "alone"
    POISON = "poison"


@dataclass(slots=True)
class PoisonWatch:
    """Remembers reported failures and judges messages. One per task and process."""

    after: int | None = 3
    """None: nothing is ever suspected."""
    _reported: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _innocent: int = 0

    def __post_init__(self) -> None:
        if self.after is not None and self.after < 1:
            raise InvalidRequest(f"poison_after is {self.after}: it is at least 1, or None")

    def reported(self, message_id: str) -> None:
        """A failure of this message was reported to the broker: it fails, it does not kill."""
        self._reported.pop(message_id, None)
        self._reported[message_id] = None
        if len(self._reported) > REPORTED_MAX:
            self._reported.popitem(last=False)

    def forget(self, message_id: str) -> None:
        """Forget a message that was settled."""
        self._reported.pop(message_id, None)

    def survived(self) -> None:
        """A suspect was worked on alone, and here we are."""
        self._innocent += 1

    def judge(self, message_id: str, deliveries: int, *, age: float, lease: float) -> PoisonVerdict:
        """Decide on the treatment of a message that was just received. `age` is the time since it
        was first."""
        if self.after is None or deliveries == 1 or message_id in self._reported:
            return PoisonVerdict.NONE
        silent = deliveries - 1
        if lease > 0:
            silent = min(silent, int(age / lease))
        trusts = self._innocent >= INNOCENT_ENOUGH
        if silent >= self.after:
            return PoisonVerdict.ALONE if trusts else PoisonVerdict.POISON
        if silent == 0 or silent < self.after - 1 or trusts:
            return PoisonVerdict.NONE
        return PoisonVerdict.ALONE


def poison_reason(deliveries: int) -> str:
    """The reason shown in the dead-letter queue."""
    return (
        f"poison: {deliveries - 1} earlier deliveries, too many of them without a word, as if the"
        " worker had died of it"
    )
