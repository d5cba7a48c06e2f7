"""Filters that Spark hands down, for batch reads with the option `pushFilters=true`.

Spark's own setting for that, `spark.sql.python.filterPushdown.enabled`, is off by default, and
Spark refuses a source that takes filters while it is off. So it takes both: the option and the
setting.

    topic, partition    =, IN, <, <=, >, >=     others are not read
    offset              =, <, <=, >, >=         the stretch is shorter
    timestamp           =, >, >=                begins with the first message as late as that
    key                 =, IN                   others are decoded and go no further

An upper bound of the timestamp does not end a stretch: senders set their times themselves, and a
later message may be an earlier one. Everything here makes a read smaller and nothing decides what
it returns: Spark has to filter all rows again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.raw_log import RawLog
from penstock.spark.connections import client_of, run
from penstock.spark.reading.ranges import Stretch
from penstock.spark.reading.reader import PenstockReader

_OVER_PARTITIONS: Final = ("topic", "partition")
_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: lambda value, wanted: value == wanted,
    GreaterThan: lambda value, wanted: value > wanted,
    GreaterThanOrEqual: lambda value, wanted: value >= wanted,
    LessThan: lambda value, wanted: value < wanted,
    LessThanOrEqual: lambda value, wanted: value <= wanted,
    In: lambda value, wanted: value in wanted,
}


class FilteringReader(PenstockReader):
    """A reader that accepts filters."""

    _filters: Sequence[Filter] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Take note of those that help; Spark applies all of them itself, too."""
        self._filters = [one for one in filters if _attribute(one) is not None]
        return filters

    def _plan(self) -> list[Stretch]:
        stretches = narrow(super()._plan(), self._filters)
        since_ms = earliest_ms(self._filters)
        if since_ms is None or not stretches:
            return stretches
        return run(_begin_at(client_of(self._options.address).raw_log(), stretches, since_ms))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's messages, those with other keys left out."""
        keys = wanted_keys(self._filters)
        for batch in super().read(partition):
            if keys is None:
                yield batch
                continue
            kept = batch.filter(pc.is_in(batch.column("key"), value_set=keys))
            if kept.num_rows:
                yield kept


def narrow(stretches: Iterable[Stretch], filters: Sequence[Filter]) -> list[Stretch]:
    """Return the parts of stretches in which these filters can hold."""
    found = []
    for stretch in stretches:
        row = {"topic": stretch.topic, "partition": stretch.partition}
        start, end = stretch.start, stretch.end
        is_wanted = True
        for one in filters:
            name = _attribute(one)
            if name in _OVER_PARTITIONS:
                is_wanted = is_wanted and _COMPARISONS[type(one)](row[name], _value(one))
            elif name == "offset":
                start, end = _narrow_offsets(one, start, end)
        if is_wanted and start < end:
            found.append(replace(stretch, start=start, end=end))
    return found


def _narrow_offsets(one: Filter, start: int, end: int) -> tuple[int, int]:
    match one:
        case EqualTo(_, value):
            return max(start, value), min(end, value + 1)
        case GreaterThan(_, value):
            return max(start, value + 1), end
        case GreaterThanOrEqual(_, value):
            return max(start, value), end
        case LessThan(_, value):
            return start, min(end, value)
        case LessThanOrEqual(_, value):
            return start, min(end, value + 1)
    return start, end


def earliest_ms(filters: Sequence[Filter]) -> int | None:
    """No row is wanted that is earlier; None if nothing says so."""
    times = [
        _milliseconds(one.value)
        for one in filters
        if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual)
        and _attribute(one) == "timestamp"
        and isinstance(one.value, datetime)
    ]
    return max(times, default=None)


def wanted_keys(filters: Sequence[Filter]) -> pa.Array | None:
    """No row is wanted with another key; None if nothing says so."""
    keys: set[bytes] | None = None
    for one in filters:
        if _attribute(one) == "key" and isinstance(one, EqualTo | In):
            values = one.value if isinstance(one, In) else (one.value,)
            these = {bytes(value) for value in values if value is not None}
            keys = these if keys is None else keys & these
    return None if keys is None else pa.array(sorted(keys), type=pa.binary())


def _milliseconds(when: datetime) -> int:
    """Rounded down: what is cut off here, Spark filters."""
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0, int(when.timestamp() * 1_000))


def _value(one: Filter) -> Any:
    """The value that a filter compares with."""
    return one.value  # type: ignore[attr-defined]


def _attribute(one: Filter) -> str | None:
    """The column that a filter is about, if it is one of ours and of a kind that helps."""
    if type(one) not in _COMPARISONS:
        return None
    column: Sequence[str] = one.attribute  # type: ignore[attr-defined]
    return column[0] if len(column) == 1 else None


async def _begin_at(raw: RawLog, stretches: list[Stretch], since_ms: int) -> list[Stretch]:
    """Leave out what comes before the first message as late as that."""
    asked = {TopicPartition(one.topic, one.partition): since_ms for one in stretches}
    found = await raw.find_offsets(asked)
    later = [
        replace(one, start=max(one.start, found[TopicPartition(one.topic, one.partition)]))
        for one in stretches
    ]
    return [one for one in later if one.size > 0]
