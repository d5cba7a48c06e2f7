"""How stretches become tasks, and how much a micro-batch reads."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.reader.positions import TopicPartition
from penstock.spark.reading.admission import Patience, share, share_bytes
from penstock.spark.reading.ranges import Stretch, split

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200, database=None)
SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)
COUNTS = st.one_of(st.none(), st.integers(1, 40))


def stretches_of(sizes: list[int]) -> list[Stretch]:
    return [Stretch("orders", number, 7, 7 + size, b"id") for number, size in enumerate(sizes)]


@REPEATABLE
@given(SIZES, COUNTS, COUNTS, st.integers(1, 30))
def test_tasks_read_everything_once(
    sizes: list[int], partitions_min: int | None, records_max: int | None, tasks_max: int
) -> None:
    tasks = split(
        stretches_of(sizes),
        partitions_min=partitions_min,
        records_max=records_max,
        tasks_max=tasks_max,
    )
    assert len(tasks) <= tasks_max
    read = [
        (one.partition, offset)
        for task in tasks
        for one in task
        for offset in range(one.start, one.end)
    ]
    assert sorted(read) == [
        (number, 7 + offset) for number, size in enumerate(sizes) for offset in range(size)
    ]
    assert all(one.size > 0 and one.topic_id == b"id" for task in tasks for one in task)


def test_a_partition_is_a_task_unless_more_are_wanted() -> None:
    assert [len(task) for task in split(stretches_of([10, 0, 30]))] == [1, 1]
    tasks = split(stretches_of([10, 30]), partitions_min=4)
    assert [task[0].size for task in tasks] == [10, 10, 10, 10]
    tasks = split(stretches_of([10, 30]), records_max=7)
    assert max(task[0].size for task in tasks) <= 7
    assert len(tasks) == 2 + 5


def places(numbers: list[int]) -> dict[TopicPartition, int]:
    return {TopicPartition("orders", index): number for index, number in enumerate(numbers)}


@REPEATABLE
@given(SIZES, st.integers(1, 5_000))
def test_a_micro_batch_is_as_large_as_it_may_be(sizes: list[int], most: int) -> None:
    starts, ends = places([5] * len(sizes)), places([5 + size for size in sizes])
    found = share(starts, ends, most)
    given = [found[part] - starts[part] for part in found]
    assert all(0 <= got <= size for got, size in zip(given, sizes, strict=True))
    assert all(got >= 1 for got, size in zip(given, sizes, strict=True) if size)
    busy = sum(1 for size in sizes if size)
    assert sum(given) == min(sum(sizes), max(most, busy))


def test_one_far_behind_makes_room_for_those_that_get_one() -> None:
    starts, ends = places([5, 5, 5]), places([6, 6, 15])
    assert list(share(starts, ends, 6).values()) == [6, 6, 9]


def test_those_that_are_further_behind_get_more() -> None:
    assert share(places([0, 0]), places([900, 100]), 100) == places([90, 10])


def test_bytes_are_shared_by_what_messages_weigh() -> None:
    part = TopicPartition("orders", 0)
    found = share_bytes({part: 10}, {part: 1_010}, 50_000, {part: 500.0})
    assert found == {part: 110}
    assert share_bytes({part: 10}, {part: 1_010}, 50_000, {part: 5.0}) == {part: 1_010}


def test_patience_ends_with_enough_or_with_time() -> None:
    patience = Patience(10, 60.0, 100.0)
    assert not patience.is_enough(places([0, 0]), places([4, 5]), 101.0)
    assert patience.is_enough(places([0, 0]), places([5, 5]), 102.0)
    assert not patience.is_enough(places([0]), places([1]), 161.0)
    assert patience.is_enough(places([0]), places([1]), 162.0)
