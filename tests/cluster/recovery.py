"""How long a partition could not be written after its leader was harmed.

A fault that strikes a leader is noted in the history together with the partitions it led. The time
runs until every one of them has acknowledged a message that was sent after the strike: what was
sent before may have been acknowledged already, with the answer on its way.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.cluster.history import Event


@dataclass
class Recovery:
    """One strike and what came after it."""

    note: str
    struck_at: int
    waiting: set[str]
    seconds: float = float("inf")


def recoveries(history: Iterable[Event]) -> list[Recovery]:
    """Every strike, in order; one that was never got over has an endless time."""
    strikes: list[Recovery] = []
    invoked: dict[tuple[str, int], int] = {}
    for event in history:
        if event.f == "fault" and event.type == "ok" and event.positions:
            strikes.append(Recovery(event.note, event.at, set(event.positions)))
        elif event.f == "send":
            identity = (event.process, event.op)
            if event.type == "invoke":
                invoked[identity] = event.at
                continue
            began = invoked.pop(identity)
            if event.type == "ok":
                for strike in strikes:
                    if strike.waiting and began > strike.struck_at:
                        strike.waiting -= {key for key, _, _ in event.sends}
                        if not strike.waiting:
                            strike.seconds = (event.at - strike.struck_at) / 1e9
    return strikes


def describe(strikes: list[Recovery]) -> str:
    """How many, the median, the worst; and each of them."""
    times = sorted(strike.seconds for strike in strikes)
    if not times:
        return "no leader was harmed"
    each = ", ".join(f"{strike.note} {strike.seconds:.2f}" for strike in strikes)
    return (
        f"{len(times)} strikes; writable again after"
        f" {times[len(times) // 2]:.2f} s (median), {times[-1]:.2f} s (worst): {each}"
    )
