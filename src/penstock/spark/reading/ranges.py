"""Stretches of partitions, and how they become tasks.

A partition's stretch is one task, unless options ask for more tasks (`minPartitions`) or smaller
ones (`maxRecordsPerPartition`): then large stretches are cut, in proportion to their sizes, as
Spark's Kafka connector cuts them. A task costs Spark some 20 ms, whatever it does. So there are
never more than `TASKS_MAX`: beyond it stretches are cut less, and small ones share a task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

TASKS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets from `start` up to `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = b""
    """The id of the topic: a topic created again under its name has another."""

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start


def split(
    stretches: Sequence[Stretch],
    *,
    partitions_min: int | None = None,
    records_max: int | None = None,
    tasks_max: int = TASKS_MAX,
) -> list[tuple[Stretch, ...]]:
    """The tasks; each reads its stretches one after the other."""
    wanted = [one for one in stretches if one.size > 0]
    if records_max is not None:
        total = sum(one.size for one in wanted)
        records_max = max(records_max, -(-total // tasks_max))
        wanted = [part for one in wanted for part in cut(one, -(-one.size // records_max))]
    if partitions_min is not None and len(wanted) < partitions_min:
        least = min(partitions_min, tasks_max)
        total = sum(one.size for one in wanted)
        wanted = [
            part for one in wanted for part in cut(one, max(1, round(one.size * least / total)))
        ]
    return _share(wanted, tasks_max)


def cut(stretch: Stretch, pieces: int) -> list[Stretch]:
    """Cut a stretch into `pieces` of about equal size, in order; none is empty."""
    pieces = max(1, min(pieces, stretch.size))
    bounds = [stretch.start + stretch.size * number // pieces for number in range(pieces + 1)]
    return [
        Stretch(stretch.topic, stretch.partition, start, end, stretch.topic_id)
        for start, end in pairwise(bounds)
    ]


def _share(stretches: Sequence[Stretch], tasks_max: int) -> list[tuple[Stretch, ...]]:
    """Assign stretches to tasks, one each; if there are too many, the largest first to the task
    with the least."""
    if len(stretches) <= tasks_max:
        return [(one,) for one in stretches]
    tasks: list[list[Stretch]] = [[] for _ in range(tasks_max)]
    for number, one in enumerate(sorted(stretches, key=lambda one: -one.size)):
        turn, place = divmod(number, tasks_max)
        tasks[place if turn % 2 == 0 else -1 - place].append(one)
    return [tuple(task) for task in tasks]
