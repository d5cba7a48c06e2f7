"""When the oldest message of a work group was sent, without reading it again and again.

Where the oldest one is, the work group knows; when it was sent stands in its batch. That is looked
up when the place has changed, for so many groups at a time; the others follow the next time and
keep what was known until then.
"""

from itertools import islice

from penstock.core.errors import PenstockError
from penstock.core.records import read_header
from penstock.core.types import Offset, PartitionId
from penstock.engine.replica.shard import Shard
from penstock.machines.run import State
from penstock.machines.work import WorkGroup

LOOKS_MAX = 200
"""How many batches one round looks at."""
LOG_APPEND_TIME = 0x08
"""In the attributes of a batch: the broker's time is the time of all its messages."""
DEAD_RUNS_MAX = 100
"""How many dead messages are passed over to find the oldest that lives."""

Key = tuple[PartitionId, str]


class OldestMessages:
    """For all work groups of the partitions one node leads."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Offset, int]] = {}
        self._met: set[Key] = set()
        self._looks = 0

    def begin(self) -> None:
        """A round begins."""
        self._looks = 0
        self._met = set()

    def end(self) -> None:
        """It is over: what was not met is gone."""
        for key in self._known.keys() - self._met:
            del self._known[key]

    def time_ms(self, running: Shard, partition: PartitionId, group: str, work: WorkGroup) -> int:
        """When the oldest message that lives was sent, of a group that has some; -1 if that is not
        known."""
        key = (partition, group)
        self._met.add(key)
        offset = oldest_offset(work)
        before = self._known.get(key)
        if before is not None and (before[0] == offset or self._looks >= LOOKS_MAX):
            return before[1]
        if self._looks >= LOOKS_MAX:
            return -1
        self._looks += 1
        found_ms = _sent_ms(running, partition, offset)
        self._known[key] = (offset, found_ms)
        return found_ms


def oldest_offset(work: WorkGroup) -> Offset:
    """Of the first message that lives; of a dead one if very many of those come first."""
    if work.start == work.cursor:
        return work.cursor
    runs = islice(work.runs_from(work.start), DEAD_RUNS_MAX)
    first = next((run.first for run in runs if run.state is not State.DEAD), None)
    if work.waiting and (first is None or work.cursor < first):
        return work.cursor
    return work.start if first is None else first


def _sent_ms(running: Shard, partition: PartitionId, offset: Offset) -> int:
    """Within a batch the time of its first message is taken: early, never late."""
    try:
        data = running.fetch(partition, offset, 1)
    except PenstockError:
        return -1
    if not data:
        return -1
    header = read_header(data)
    if header.last_offset == offset or header.attributes & LOG_APPEND_TIME:
        return header.max_timestamp
    return header.base_timestamp
