"""What is forgotten, by age and by size, and what is not."""

from penstock.core.types import Offset, PartitionId
from penstock.engine.replica.retention import RetentionPolicy
from penstock.machines.commands import CreatePartition
from penstock.machines.partitions import AppendBatch
from penstock.testing.clock import ManualClock
from tests.simulation.history import build_batch
from tests.unit.engine.places import PARTITION, Cluster, Place, ask, with_partition

SECOND = 1_000


def fill(cluster: Cluster, place: Place, *, partition: PartitionId = PARTITION) -> None:
    """Ten batches of a kilobyte, a second apart, each in an entry of its own."""
    for number in range(10):
        batch = build_batch(b"x" * 939, 1, number * SECOND, -1, -1, -1)
        ask(place, AppendBatch(partition, batch))
        cluster.settle()


def log_start(place: Place, partition: PartitionId = PARTITION) -> int:
    return place.replica.machine.bounds(partition).log_start


def trims(place: Place, now_ms: int) -> dict[int, int]:
    return {trim.partition: trim.before for trim in place.replica.retention.due(now_ms)}


def test_without_a_policy_nothing_is_forgotten() -> None:
    cluster, place = with_partition()
    fill(cluster, place)
    assert trims(place, 10**15) == {}


def test_what_is_too_old_is_due() -> None:
    cluster, place = with_partition()
    fill(cluster, place)
    place.replica.retention.default = RetentionPolicy(age_ms=4 * SECOND)
    assert trims(place, 9 * SECOND) == {0: 5}
    assert trims(place, 4 * SECOND) == {}
    assert trims(place, 1_000 * SECOND) == {0: 10}


def test_a_message_dated_ahead_stops_nothing() -> None:
    cluster, place = with_partition()
    appended_ms = ManualClock().wall_ms()
    for _ in range(3):
        ask(place, AppendBatch(PARTITION, build_batch(b"x", 1, 1 << 60, -1, -1, -1)))
        cluster.settle()
    place.replica.retention.default = RetentionPolicy(age_ms=4 * SECOND)
    assert trims(place, appended_ms + 4 * SECOND) == {}
    assert trims(place, appended_ms + 5 * SECOND) == {0: 3}


def test_what_is_too_much_is_due_and_the_size_is_never_undercut() -> None:
    cluster, place = with_partition()
    fill(cluster, place)
    place.replica.retention.default = RetentionPolicy(size_bytes=3_500)
    assert trims(place, 0) == {0: 6}
    assert place.replica.log.partition_bytes(PARTITION, Offset(6)) >= 3_500
    place.replica.retention.default = RetentionPolicy(size_bytes=1 << 30)
    assert trims(place, 0) == {}


def test_a_partition_may_have_a_policy_of_its_own() -> None:
    cluster, place = with_partition()
    other = PartitionId(1)
    ask(place, CreatePartition(partition=other))
    cluster.settle()
    fill(cluster, place)
    fill(cluster, place, partition=other)
    retention = place.replica.retention
    retention.set_policy(other, RetentionPolicy(age_ms=0))
    assert trims(place, 100 * SECOND) == {1: 10}
    retention.set_policy(other, None)
    assert trims(place, 100 * SECOND) == {}


def test_only_a_leader_forgets_and_everyone_follows() -> None:
    cluster, leader = with_partition(3)
    fill(cluster, leader)
    for place in cluster.places.values():
        place.replica.retention.default = RetentionPolicy(size_bytes=2_000)
    cluster.tick(110)
    assert [log_start(place) for place in cluster.places.values()] == [8, 8, 8]
