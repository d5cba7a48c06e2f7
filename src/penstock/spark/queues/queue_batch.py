"""The position of a stream in a queue, as Spark's checkpoint stores it.

    {"orders": {"0": 150, "1": 20},
     "orders:batch": {"stream": "9f0c…", "number": 3, "from": {"0": 100, "1": 20},
                      "again": {"0": "7-9 12-13"}}}

The first half is what a topic's stream has. The second says what the micro-batch is that ends here:
where it began in each partition, and which messages further back came to life again and belong to
it. So a batch is read, and settled, by what its end says and nothing else: after a crash just as it
was before. A colon is in no name of a queue.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import InvalidRequest

Range = tuple[int, int]
_RANGE = re.compile(r"(\d+)-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBatch:
    """One micro-batch of one queue."""

    queue: str
    stream: str
    """An id drawn when the query began."""
    number: int
    """Counts the batches of the stream; -1 where it began."""
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    again: Mapping[int, tuple[Range, ...]] = field(default_factory=dict)

    def ranges(self) -> list[tuple[int, Range]]:
        """All it covers: partitions and ranges of offsets, what came again first."""
        found = [(index, one) for index, ranges in self.again.items() for one in ranges]
        found += [(index, (self.starts.get(index, end), end)) for index, end in self.ends.items()]
        return [(index, (first, end)) for index, (first, end) in found if first < end]

    def to_offset(self) -> dict[str, Any]:
        """Convert it to the form that Spark stores."""
        batch = {
            "stream": self.stream,
            "number": self.number,
            "from": _texts(self.starts),
            "again": {
                str(index): " ".join(f"{first}-{end}" for first, end in ranges)
                for index, ranges in sorted(self.again.items())
                if ranges
            },
        }
        return {self.queue: _texts(self.ends), f"{self.queue}:batch": batch}


def read_batch(queue: str, offset: Mapping[str, Any]) -> QueueBatch:
    """Read the batch of a checkpoint; raise `InvalidRequest` if it belongs to another source."""
    try:
        batch = offset[f"{queue}:batch"]
        return QueueBatch(
            queue=queue,
            stream=str(batch["stream"]),
            number=int(batch["number"]),
            starts={int(index): int(at) for index, at in batch["from"].items()},
            ends={int(index): int(at) for index, at in offset[queue].items()},
            again={
                int(index): tuple((int(a), int(b)) for a, b in _RANGE.findall(text))
                for index, text in batch["again"].items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequest(
            f"the checkpoint is not that of a stream of queue {queue} ({error!r}): use another"
            " checkpointLocation"
        ) from error


def _texts(places: Mapping[int, int]) -> dict[str, int]:
    return {str(index): at for index, at in sorted(places.items())}
