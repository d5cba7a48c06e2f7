"""Messages that kill whoever works on them.

A message that fails with an error is the retry policy's business. A poisonous one leaves no error
behind: the process dies (out of memory, a crash in native code), its lease runs out, the next
process gets it and dies too. All that is left is a delivery count that grows without anybody having
reported a failure. Such deliveries are *silent*, and they are counted:

    silent = deliveries before this one − failures reported here,
             and no more than leases can have run out since the first delivery

The second line matters where several processes share a queue: a failure that another process
reported looks silent here, but a retry usually comes sooner than a lease runs out.

    silent < after − 1     ordinary
    silent = after − 1     worked on alone: nothing else is in hand in this process meanwhile
    silent ≥ after         rejected, with a reason that begins with "poison"

Alone, because whatever the process held beside the poison has silent deliveries too; so it gives
back everything else before (see `solitude`). An innocent message is done when it is worked on
alone, and only the guilty one comes back again. So one bad message costs `after` processes, and
never the queue, nor its neighbours.

What this cannot know: where the waits between retries are longer than the lease and several
processes take turns, their reported failures count as silent. Give such workers a larger
`poison_after`, or none.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum

from penstock.core.errors import InvalidRequest

REPORTED_MAX = 10_000
"""So many messages' failures are remembered; the one that failed longest ago is forgotten."""


class Suspicion(Enum):
    """How a message is to be treated."""

    NONE = "ordinary"
    ALONE = "alone"
    POISON = "poison"


@dataclass(slots=True)
class PoisonWatch:
    """Counts what was reported and judges what comes. One per queue and process."""

    after: int | None = 3
    """None: nothing is ever suspected."""
    _reported: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if self.after is not None and self.after < 1:
            raise InvalidRequest(f"poison_after is {self.after}: it is at least 1, or None")

    def reported(self, message_id: str) -> None:
        """A failure of this message was reported to the broker."""
        self._reported[message_id] = self._reported.pop(message_id, 0) + 1
        if len(self._reported) > REPORTED_MAX:
            self._reported.popitem(last=False)

    def forget(self, message_id: str) -> None:
        """The message is dealt with."""
        self._reported.pop(message_id, None)

    def silent(self, message_id: str, deliveries: int, *, age: float, lease: float) -> int:
        """How many earlier deliveries ended without a word. `age` is the time since the first."""
        unexplained = deliveries - 1 - self._reported.get(message_id, 0)
        run_out = int(age / lease) if lease > 0 else unexplained
        return max(0, min(unexplained, run_out))

    def judge(self, message_id: str, deliveries: int, *, age: float, lease: float) -> Suspicion:
        """How to treat a message that was just received."""
        if self.after is None or deliveries == 1:
            return Suspicion.NONE
        silent = self.silent(message_id, deliveries, age=age, lease=lease)
        if silent >= self.after:
            return Suspicion.POISON
        return Suspicion.ALONE if silent and silent == self.after - 1 else Suspicion.NONE


def poison_reason(deliveries: int) -> str:
    """What the dead-letter queue shows."""
    return (
        f"poison: {deliveries - 1} earlier deliveries, too many of them without a word, as if the"
        " worker had died of it"
    )
