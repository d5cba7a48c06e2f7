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
    """The messages of one stage; pass it to `Client.publish`, in this process or another."""

    parts: tuple[StagedPart, ...] = ()

    @property
    def records(self) -> int:
        """The number of messages."""
        return sum(end - first for part in self.parts for first, end in part.ranges)

    def to_json(self) -> str:
        """Serialise it for another process."""
        return msgspec.json.encode(self.parts).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text that `to_json` returned."""
        try:
            return cls(decode_json(text.encode(), tuple[StagedPart, ...]))
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"this is not a text of staged messages: {error}") from error


@dataclass(frozen=True, slots=True)
class Publication:
    """A batch of an application is published."""

    application: str
    batch: int
    is_new: bool
    """True if this call published the batch. False if it was published before, perhaps by an
    attempt of this call whose answer was lost; the messages staged for this call are then not used.
    """


def join_parts(staged: Iterable[Staged]) -> tuple[StagedPart, ...]:
    """Merge parts so that there is one for each partition, with all ranges in the order given."""
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
