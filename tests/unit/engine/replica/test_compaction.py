"""Every replica compacts by itself, and one that is sent a compacted log has the same table."""

from penstock.core.types import Offset, PartitionId
from penstock.engine.replica.compaction import Compaction
from penstock.machines.partitions import AppendBatch
from penstock.storage import CompactionPolicy
from penstock.testing.clock import ManualClock
from tests.unit.engine.places import PARTITION, Cluster, Place, ask, with_partition
from tests.unit.storage.keyed import Seen, latest, pack, parse

POLICY = CompactionPolicy(dirty_ratio=0.1, delete_retention_ms=1_000)
OPTIONS = {"snapshot_log_bytes": 20_000}


def put(cluster: Cluster, place: Place, *records: tuple[bytes, bytes | None]) -> None:
    answers = ask(place, AppendBatch(PARTITION, pack(list(records), timestamp=5)))
    cluster.settle()
    assert not isinstance(answers[0], Exception)


def fill(cluster: Cluster, place: Place, count: int = 120) -> None:
    """A few segments' worth of seven keys."""
    for number in range(count):
        put(cluster, place, (b"key %d" % (number % 7), b"%d" % number + b"x" * 500))


def everything(place: Place) -> list[Seen]:
    """What a reader of this replica's files sees."""
    found: list[Seen] = []
    offset = 0
    end = place.replica.machine.bounds(PARTITION).high_watermark
    while data := place.replica.log.read(PARTITION, Offset(offset), 1 << 20, end):
        records, offset = parse(data, offset)
        found += records
    return found


def set_policies(cluster: Cluster, policy: CompactionPolicy | None = POLICY) -> None:
    for place in cluster.places.values():
        place.replica.compaction.set_policy(PARTITION, policy)


def let_time_pass(place: Place, duration_ms: int) -> None:
    clock = place.replica._world.clock
    assert isinstance(clock, ManualClock)
    clock.advance(duration_ms)


def test_without_a_policy_nothing_is_compacted() -> None:
    cluster, place = with_partition(**OPTIONS)
    fill(cluster, place)
    cluster.tick(200)
    assert place.replica.log.statistics().compaction_rounds == 0
    assert len(everything(place)) == 120


def test_leader_and_followers_compact_by_themselves() -> None:
    cluster, leader = with_partition(3, **OPTIONS)
    set_policies(cluster)
    fill(cluster, leader)
    table = latest(everything(leader))
    cluster.tick(200)
    for place in cluster.places.values():
        assert place.replica.log.statistics().compaction_rounds > 0
        assert len(everything(place)) < 60
        assert latest(everything(place)) == table
    fill(cluster, leader)
    cluster.tick(200)
    assert len({len(everything(place)) for place in cluster.places.values()}) == 1


def test_a_policy_can_be_taken_back() -> None:
    cluster, place = with_partition(**OPTIONS)
    set_policies(cluster)
    set_policies(cluster)
    set_policies(cluster, None)
    set_policies(cluster, None)
    fill(cluster, place)
    cluster.tick(200)
    assert len(everything(place)) == 120
    compaction = place.replica.compaction
    assert isinstance(compaction, Compaction)
    assert not compaction.under_way


def test_a_restart_goes_on_where_it_was() -> None:
    cluster, place = with_partition(**OPTIONS)
    set_policies(cluster)
    fill(cluster, place)
    cluster.tick(200)
    before = everything(place)
    place = cluster.restart(1, power=True)
    cluster.elect()
    set_policies(cluster)
    cluster.tick(200)
    assert everything(place) == before
    assert place.replica.log.statistics().compaction_rounds == 0, "there is nothing new"


def test_a_follower_that_was_away_is_sent_a_compacted_log() -> None:
    cluster, leader = with_partition(3, **OPTIONS)
    set_policies(cluster)
    fill(cluster, leader, 30)
    cluster.cut = {3}
    fill(cluster, leader)
    cluster.tick(300)
    assert len(everything(leader)) < 80
    cluster.cut = set()
    cluster.tick(50)
    follower = cluster.places[3]
    assert any("installed the snapshot" in line for line in follower.lines)
    assert latest(everything(follower)) == latest(everything(leader))
    assert follower.replica.machine.snapshot() == leader.replica.machine.snapshot()
    fill(cluster, leader)
    cluster.tick(300)
    assert latest(everything(follower)) == latest(everything(leader))
    assert len(everything(follower)) < 80


def test_a_follower_that_missed_a_tombstone_begins_anew() -> None:
    """Otherwise what was deleted would live on there, and in the cluster once it leads."""
    cluster, leader = with_partition(3, **OPTIONS)
    set_policies(cluster)
    put(cluster, leader, (b"doomed", b"value"))
    fill(cluster, leader, 30)
    cluster.tick(5)
    cluster.cut = {3}
    put(cluster, leader, (b"doomed", None))
    for _ in range(3):
        fill(cluster, leader, 60)
        cluster.tick(300)
        let_time_pass(leader, 2_000)
    log = leader.replica.log
    assert log.erased_through > 30
    assert not any(record.key == b"doomed" for record in everything(leader))
    follower = cluster.places[3]
    assert b"doomed" in latest(everything(follower))
    cluster.cut = set()
    cluster.tick(100)
    assert len([line for line in follower.lines if "fetches the snapshot" in line]) >= 2
    assert latest(everything(follower)) == latest(everything(leader))
    assert not any(record.key == b"doomed" for record in everything(follower))
    assert follower.replica.log.erased_through == log.erased_through
    follower = cluster.restart(3)
    assert follower.replica.log.erased_through == log.erased_through


def test_a_follower_that_saw_the_tombstone_need_not() -> None:
    cluster, leader = with_partition(3, **OPTIONS)
    set_policies(cluster)
    put(cluster, leader, (b"doomed", b"value"))
    put(cluster, leader, (b"doomed", None))
    fill(cluster, leader, 30)
    cluster.tick(5)
    cluster.cut = {3}
    for _ in range(3):
        fill(cluster, leader, 60)
        cluster.tick(300)
        let_time_pass(leader, 2_000)
    assert 0 < leader.replica.log.erased_through < 30
    cluster.cut = set()
    cluster.tick(100)
    follower = cluster.places[3]
    assert len([line for line in follower.lines if "fetches the snapshot" in line]) == 1
    assert latest(everything(follower)) == latest(everything(leader))


def test_a_longest_lag_seals_the_segment_in_time() -> None:
    cluster, leader = with_partition(3)
    set_policies(cluster, CompactionPolicy(dirty_ratio=1.1, max_lag_ms=30_000))
    put(cluster, leader, (b"a", b"1"), (b"b", b"1"))
    put(cluster, leader, (b"a", b"2"))
    cluster.tick(100)
    segments = leader.replica.log.statistics().segments
    let_time_pass(leader, 29_999)
    put(cluster, leader, (b"a", b"3"))
    cluster.tick(100)
    assert leader.replica.log.statistics().segments == segments
    let_time_pass(leader, 1)
    put(cluster, leader, (b"a", b"4"))
    cluster.tick(100)
    for place in cluster.places.values():
        found = [(record.key, record.value) for record in everything(place)]
        assert found == [(b"b", b"1"), (b"a", b"4")]
    before = leader.replica.log.statistics()
    let_time_pass(leader, 100_000)
    cluster.tick(100)
    assert leader.replica.log.statistics() == before, "there is nothing new to seal"


def test_other_partitions_are_left_alone() -> None:
    cluster, place = with_partition(**OPTIONS)
    place.replica.compaction.set_policy(PartitionId(77), POLICY)
    fill(cluster, place)
    cluster.tick(200)
    assert len(everything(place)) == 120
