"""Messages that are staged: where they wait to be published. It can be sent to another process."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidRequest
from penstock.wire.publish_requests import StagedPart


@dataclass(frozen=True, slots=True)
class Staged:
    """What one stage has gathered; give it to `Client.publish`, here or elsewhere."""

    parts: tuple[StagedPart, ...] = ()

    @property
    def records(self) -> int:
        """How many messages."""
        return sum(end - first for part in self.parts for first, end in part.ranges)

    def to_json(self) -> str:
        """As a text, for another process."""
        return msgspec.json.encode(self.parts).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` has written."""
        try:
            return cls(decode_json(text.encode(), tuple[StagedPart, ...]))
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"this says nothing about staged messages: {error}") from error


@dataclass(frozen=True, slots=True)
class Publication:
    """A batch of an application is published."""

    application: str
    batch: int
    is_new: bool
    """This call has decided it. False: it was published before, perhaps by an attempt of this very
    call whose answer got lost; what was staged for it now is not used."""


def join_parts(staged: Iterable[Staged]) -> tuple[StagedPart, ...]:
    """One part for each partition: the ranges of all, in the order given."""
    found: dict[tuple[bytes, int], tuple[int, list[tuple[int, int]]]] = {}
    for one in staged:
        for part in one.parts:
            staging, ranges = found.setdefault((part.topic_id, part.partition), (part.staging, []))
            if staging != part.staging:
                raise InvalidRequest(
                    "what is staged for one partition lies in two places: stage it again"
                )
            for first, end in part.ranges:
                if ranges and ranges[-1][1] == first:
                    ranges[-1] = ranges[-1][0], end
                else:
                    ranges.append((first, end))
    return tuple(
        StagedPart(topic_id, partition, staging, tuple(ranges))
        for (topic_id, partition), (staging, ranges) in found.items()
    )
