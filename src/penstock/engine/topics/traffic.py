"""How many messages come and go, by topic and by the protocol that brings or fetches them.

One call for each batch and each answer; the numbers are plain ints in dictionaries. A message is
counted as produced on the node that appends it, which leads its partition, and as delivered on the
node that hands it to a client: so the counts of all nodes add up.

The number of topics that are counted separately is bounded; what is above it is counted as `OTHER`,
and so is, from the next reading on, what was counted for topics that are gone. So no sum ever
falls.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from penstock.core.limits import COUNTED_TOPICS_MAX
from penstock.core.request_times import OTHER

INTERNAL: Final = "internal"
"""The protocol of what the cluster sends to itself: dead letters, moves, reports."""


class FlowReading(msgspec.Struct, frozen=True):
    """What went through one topic by one protocol."""

    produced: int
    produced_bytes: int
    delivered: int
    batches: int = 0
    """In which messages were appended."""


class Flow:
    """The traffic of one protocol."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def produced(self, topic: str, messages: int, size: int) -> None:
        """A batch of messages was appended to a topic; `size` is what they take up in the log."""
        counts = self._counts.get(topic)
        if counts is None:
            counts = self._begin(topic)
        counts[0] += messages
        counts[1] += size
        counts[3] += 1

    def delivered(self, topic: str, messages: int) -> None:
        """Messages of a topic were handed out."""
        counts = self._counts.get(topic)
        if counts is None:
            counts = self._begin(topic)
        counts[2] += messages

    def _begin(self, topic: str) -> list[int]:
        if len(self._counts) >= COUNTED_TOPICS_MAX:
            topic = OTHER
        return self._counts.setdefault(topic, [0, 0, 0, 0])

    def read(self, is_there: Callable[[str], bool]) -> dict[str, FlowReading]:
        """What was counted, by topic; those that are gone are counted among the others."""
        gone = [topic for topic in self._counts if topic != OTHER and not is_there(topic)]
        for topic in gone:
            counts = self._counts.pop(topic)
            others = self._counts.setdefault(OTHER, [0, 0, 0, 0])
            for place, count in enumerate(counts):
                others[place] += count
        return {topic: FlowReading(*counts) for topic, counts in self._counts.items()}


class Traffic:
    """All protocols of a node."""

    def __init__(self) -> None:
        self._flows: dict[str, Flow] = {}

    def of(self, protocol: str) -> Flow:
        """Where the traffic of one protocol is counted."""
        flow = self._flows.get(protocol)
        if flow is None:
            flow = self._flows[protocol] = Flow()
        return flow

    def statistics(
        self, is_there: Callable[[str], bool] = lambda _topic: True
    ) -> Mapping[str, Mapping[str, FlowReading]]:
        """By protocol and topic; `is_there` tells whether a topic still exists."""
        return {protocol: flow.read(is_there) for protocol, flow in self._flows.items()}
