"""The lag of a streaming query, from Spark's progress reports.

Spark's progress of a query says for each source where the micro-batch began and ended, and where
the log ended then (`latestOffset`). As rows, one for each partition:

    for row in lag(query.lastProgress):
        print(row.topic, row.partition, row.lag, row.rate)

In a `StreamingQueryListener` it is `lag(event.progress)`. Sources of other formats are passed over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.core.decoders import decode_json

_Places = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The position of one partition after one micro-batch."""

    topic: str
    partition: int
    start: int
    """The start of the micro-batch."""
    end: int
    """The end of the micro-batch."""
    latest: int
    """The end of the log when the micro-batch was planned."""
    rate: float
    """Messages a second, over the time of the trigger."""

    @property
    def lag(self) -> int:
        """The number of messages left to read."""
        return max(0, self.latest - self.end)


def lag(progress: Mapping[str, Any] | None) -> list[PartitionLag]:
    """A row for each partition of a query's progress; nothing if there is no progress yet."""
    if progress is None:
        return []
    seconds = float((progress["durationMs"] or {}).get("triggerExecution", 0)) / 1_000
    rows: list[PartitionLag] = []
    for source in progress["sources"]:
        ends = _places(source["endOffset"])
        if ends is None:
            continue
        starts = _places(source["startOffset"]) or {}
        latest = _places(source["latestOffset"]) or {}
        for topic, offsets in ends.items():
            for index, end in offsets.items():
                start = starts.get(topic, {}).get(index, end if starts else 0)
                rows.append(
                    PartitionLag(
                        topic=topic,
                        partition=int(index),
                        start=start,
                        end=end,
                        latest=latest.get(topic, {}).get(index, end),
                        rate=(end - start) / seconds if seconds > 0 else 0.0,
                    )
                )
    return rows


def _places(offsets: object) -> _Places | None:
    """Parse the offsets of a source; None if it is not one of ours."""
    try:
        found = decode_json(offsets, dict[str, Any]) if isinstance(offsets, str) else offsets
        if isinstance(found, dict):  # What else a source says has a colon in its name: `identity`.
            found = {name: said for name, said in found.items() if ":" not in str(name)}
        return msgspec.convert(found, _Places)
    except msgspec.ValidationError:
        return None
    except msgspec.DecodeError:
        return None
