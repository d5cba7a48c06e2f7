"""The publications: one decision about each batch, in order, and nobody takes another's for his."""

import msgspec
import pytest

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import (
    InvalidRequest,
    LocalError,
    Overloaded,
    UnsupportedVersion,
)
from penstock.core.limits import (
    APPLICATION_NAME_BYTES_MAX,
    PUBLICATION_COMMAND_BYTES_MAX,
    PUBLICATION_OWNER_BYTES_MAX,
    PUBLICATION_PART_RECORDS_MAX,
    PUBLICATION_RANGES_MAX,
)
from penstock.core.types import NO_PRODUCER, Index, Offset, PartitionId, ProducerId, Term, TopicId
from penstock.machines import publications
from penstock.machines.commands import DeletePartition
from penstock.machines.machine import Applied, Propose, Refused, Reply
from penstock.machines.publication_commands import (
    BeginPublication,
    ForgetApplications,
    PublicationCommand,
    PublishedPart,
    SettleParts,
    decode_publication_command,
    encode_publication_command,
)
from penstock.machines.publications import (
    BATCH_MAX,
    EPOCH_MAX,
    Application,
    ApplicationsForgotten,
    PartsSettled,
    Publication,
    PublicationReply,
    Publications,
)
from penstock.machines.shard_machine import ShardMachine

TOPIC = TopicId(b"orders".ljust(16, b"."))
STAGING = PartitionId(90)
TWO, THREE = PartitionId(2), PartitionId(3)


def part(partition: int = 2, *ranges: tuple[int, int]) -> PublishedPart:
    """A part of messages 0 to 9, or of other ranges."""
    chosen = tuple((Offset(first), Offset(end)) for first, end in ranges or [(0, 10)])
    return PublishedPart(TOPIC, PartitionId(partition), STAGING, chosen)


def begin(
    batch: int = 1,
    *parts: PublishedPart,
    application: str = "app",
    owner: str = "",
    producer: int = 700,
) -> BeginPublication:
    return BeginPublication(
        application=application,
        batch=batch,
        owner=owner,
        parts=parts,
        producer_id=ProducerId(producer),
    )


def settle(batch: int, *partitions: PartitionId) -> SettleParts:
    return SettleParts(application="app", batch=batch, partitions=partitions)


class PublicationsShard:
    """A leader's publications and a follower's, fed with the same entries."""

    def __init__(self) -> None:
        self.machine = Publications()
        self.follower = Publications()
        self.entries = 0
        self.now_ms = 1_000

    def write(self, command: PublicationCommand) -> Entry:
        plan = self.machine.plan(command, now_ms=self.now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        self.entries += 1
        return Entry(Index(self.entries), Term(1), EntryKind.COMMAND, plan.payload)

    def do(self, command: PublicationCommand) -> Reply:
        entry = self.write(command)
        applied = self.machine.apply(entry)
        assert self.follower.apply(entry) == applied
        assert self.follower.snapshot() == self.machine.snapshot()
        return applied.replies[0]

    def decide(self, command: BeginPublication) -> PublicationReply:
        reply = self.do(command)
        assert isinstance(reply, PublicationReply), f"it was refused: {reply}"
        return reply

    def refuse(self, command: PublicationCommand) -> Refused:
        before = self.state()
        reply = self.do(command)
        assert isinstance(reply, Refused), f"it was accepted: {reply}"
        assert self.state() == before
        return reply

    def app(self) -> Application:
        found = self.machine.get("app")
        assert found is not None
        return found

    def state(self) -> object:
        """Everything but log time."""
        return msgspec.msgpack.decode(self.machine.snapshot())[2]


@pytest.fixture
def shard() -> PublicationsShard:
    return PublicationsShard()


# Deciding.


def test_first_batch_is_decided_with_its_parts(shard: PublicationsShard) -> None:
    reply = shard.decide(begin(4, part(2), part(3)))
    assert reply.is_new
    assert reply.application == shard.machine.get("app")
    assert reply.application.under_way == Publication(4, ProducerId(700), 0, (part(2), part(3)))
    assert [one.name for one in shard.machine.under_way()] == ["app"]
    assert (shard.app().last_batch, shard.app().last_ms) == (4, 1_000)


def test_first_decision_stands(shard: PublicationsShard) -> None:
    first = shard.decide(begin(4, part(2)))
    again = shard.decide(begin(4, part(3), producer=800))
    assert (again.is_new, again.application) == (False, first.application)


@pytest.mark.parametrize("batch", [0, 3, 4])
def test_batch_that_is_not_above_the_last_is_not_new(shard: PublicationsShard, batch: int) -> None:
    shard.decide(begin(4, part(2)))
    shard.do(settle(4, TWO))
    reply = shard.decide(begin(batch, part(2)))
    assert not reply.is_new
    assert reply.application.under_way is None
    assert shard.app().last_batch == 4


def test_batches_may_leave_gaps(shard: PublicationsShard) -> None:
    shard.decide(begin(4))
    assert shard.decide(begin(BATCH_MAX)).is_new


def test_publication_without_parts_is_over_at_once(shard: PublicationsShard) -> None:
    assert shard.decide(begin(0)).application.under_way is None
    assert list(shard.machine.under_way()) == []
    assert shard.app().last_batch == 0


def test_one_at_a_time(shard: PublicationsShard) -> None:
    shard.decide(begin(4, part(2)))
    assert shard.refuse(begin(5, part(2))).code == "Unavailable"
    shard.do(settle(4, TWO))
    assert shard.decide(begin(5, part(2))).is_new


def test_applications_do_not_wait_for_each_other(shard: PublicationsShard) -> None:
    shard.decide(begin(4, part(2)))
    assert shard.decide(begin(1, part(2), application="other", producer=701)).is_new
    assert {one.name for one in shard.machine.under_way()} == {"app", "other"}


# Owners.


def test_another_owner_may_not_repeat(shard: PublicationsShard) -> None:
    shard.decide(begin(4, owner="ann"))
    refused = shard.refuse(begin(4, owner="bob"))
    assert refused.code == "PublicationConflict"
    assert "ann" in refused.message
    assert not shard.decide(begin(4, owner="ann")).is_new


def test_another_owner_may_go_on(shard: PublicationsShard) -> None:
    shard.decide(begin(4, owner="ann"))
    assert shard.decide(begin(5, owner="bob")).is_new
    assert shard.refuse(begin(5, owner="ann")).code == "PublicationConflict"


# Epochs.


def test_every_publication_has_an_epoch_of_its_own(shard: PublicationsShard) -> None:
    epochs = []
    for batch in range(3):
        reply = shard.decide(begin(batch, part(2), producer=700 + batch))
        assert reply.application.under_way is not None
        epochs.append((reply.application.under_way.producer_id, reply.application.under_way.epoch))
        shard.do(settle(batch, TWO))
    assert epochs == [(700, 0), (700, 1), (700, 2)]


def test_after_the_last_epoch_comes_another_producer(shard: PublicationsShard) -> None:
    shard.decide(begin(1))
    _set_epoch(shard, EPOCH_MAX)
    assert shard.refuse(begin(2, producer=NO_PRODUCER)).code == "Unavailable"
    shard.decide(begin(2, producer=800))
    assert (shard.app().producer_id, shard.app().epoch) == (800, 0)


def test_first_publication_needs_a_producer(shard: PublicationsShard) -> None:
    assert shard.refuse(begin(1, producer=NO_PRODUCER)).code == "Unavailable"


def _set_epoch(shard: PublicationsShard, epoch: int) -> None:
    state = msgspec.msgpack.decode(shard.machine.snapshot())
    state[2][0][4] = epoch
    for machine in (shard.machine, shard.follower):
        machine.restore(msgspec.msgpack.encode(state))


# Settling.


def test_parts_arrive_one_by_one(shard: PublicationsShard) -> None:
    shard.decide(begin(4, part(2), part(3)))
    assert shard.do(settle(4, THREE)) == PartsSettled(False)
    assert shard.app().under_way == Publication(4, ProducerId(700), 0, (part(2),))
    assert shard.do(settle(4, THREE)) == PartsSettled(False)
    assert shard.do(settle(4, TWO)) == PartsSettled(True)
    assert shard.app().under_way is None


def test_late_news_of_another_batch_changes_nothing(shard: PublicationsShard) -> None:
    shard.decide(begin(4, part(2)))
    for batch in (3, 5):
        assert shard.do(settle(batch, TWO)) == PartsSettled(True)
    assert shard.app().under_way is not None


def test_news_of_nobody_changes_nothing(shard: PublicationsShard) -> None:
    assert shard.do(settle(4, TWO)) == PartsSettled(True)
    assert shard.machine.get("app") is None


# Forgetting.


def test_silent_applications_are_forgotten(shard: PublicationsShard) -> None:
    shard.decide(begin(4))
    shard.now_ms = 2_000
    shard.decide(begin(4, application="later"))
    assert shard.do(ForgetApplications(before_ms=2_000)) == ApplicationsForgotten(1)
    assert shard.machine.get("app") is None
    assert shard.machine.get("later") is not None


def test_what_is_under_way_is_not_forgotten(shard: PublicationsShard) -> None:
    shard.decide(begin(4, part(2)))
    shard.now_ms = 9_000
    shard.do(begin(1, application="clock"))
    assert shard.do(ForgetApplications(before_ms=9_000)) == ApplicationsForgotten(0)
    assert shard.machine.get("app") is not None


def test_nothing_is_forgotten_by_a_clock_that_is_ahead(shard: PublicationsShard) -> None:
    shard.decide(begin(4))
    assert shard.do(ForgetApplications(before_ms=1 << 50)) == ApplicationsForgotten(0)


def test_forgotten_application_begins_anew(shard: PublicationsShard) -> None:
    shard.decide(begin(4))
    shard.now_ms = 2_000
    shard.do(begin(1, application="clock"))
    shard.do(ForgetApplications(before_ms=2_000))
    assert shard.refuse(begin(1, producer=NO_PRODUCER)).code == "Unavailable"
    assert shard.decide(begin(1, producer=800)).is_new


# What is refused before it is written.


@pytest.mark.parametrize(
    "command",
    [
        begin(application=""),
        begin(application="x" * (APPLICATION_NAME_BYTES_MAX + 1)),
        begin(application="é" * (APPLICATION_NAME_BYTES_MAX // 2 + 1)),
        begin(-1),
        begin(BATCH_MAX + 1),
        begin(owner="x" * (PUBLICATION_OWNER_BYTES_MAX + 1)),
        begin(1, part(2), part(2)),
        begin(1, PublishedPart(TOPIC, TWO, STAGING, ())),
        begin(1, part(2, (5, 5))),
        begin(1, part(2, (6, 5))),
        begin(1, part(2, (-1, 5))),
        begin(1, part(-2)),
        begin(1, PublishedPart(TOPIC, TWO, PartitionId(-1), ((Offset(0), Offset(1)),))),
        begin(1, part(2, (0, 10), (9, 12))),
        begin(1, part(2, (0, 10), (0, 10))),
        begin(1, part(2, (20, 30), (0, 21))),
        begin(1, part(2, (0, PUBLICATION_PART_RECORDS_MAX + 1))),
        begin(1, part(2, *((n, n + 1) for n in range(0, 2 * PUBLICATION_RANGES_MAX + 2, 2)))),
    ],
    ids=lambda command: repr(command)[:60],
)
def test_meaningless_publication(shard: PublicationsShard, command: BeginPublication) -> None:
    with pytest.raises(InvalidRequest):
        shard.write(command)
    assert shard.machine.snapshot() == Publications().snapshot()


def test_largest_publication_fits(shard: PublicationsShard) -> None:
    high = (1 << 62) + 1
    ranges = ((high + n, high + n + 1) for n in range(0, 2 * PUBLICATION_RANGES_MAX, 2))
    assert shard.decide(begin(1, part(2, *ranges))).is_new


def test_most_parts_fit(shard: PublicationsShard) -> None:
    parts = (part((1 << 31) + number) for number in range(PUBLICATION_RANGES_MAX))
    command = begin(BATCH_MAX, *parts, application="x" * APPLICATION_NAME_BYTES_MAX)
    encoded = encode_publication_command(command, stamp_ms=1 << 41)
    assert len(encoded) < PUBLICATION_COMMAND_BYTES_MAX


def test_ranges_in_another_order_are_kept_so(shard: PublicationsShard) -> None:
    turned = part(2, (10, 20), (0, 10))
    assert shard.decide(begin(1, turned)).application.under_way is not None
    (app,) = shard.machine.under_way()
    assert app.under_way is not None
    assert app.under_way.parts == (turned,)
    assert turned.records == 20


def test_applications_are_bounded(
    shard: PublicationsShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "APPLICATIONS_PER_SHARD_MAX", 1)
    shard.decide(begin(1))
    with pytest.raises(Overloaded):
        shard.write(begin(1, application="other"))
    assert shard.decide(begin(2)).is_new


def test_ranges_under_way_are_bounded(
    shard: PublicationsShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publications, "PUBLICATION_RANGES_UNDER_WAY_MAX", 3)
    shard.decide(begin(1, part(2, (0, 1), (2, 3)), part(3)))
    with pytest.raises(Overloaded):
        shard.write(begin(1, part(2), application="other"))
    shard.machine.restore(shard.machine.snapshot())
    with pytest.raises(Overloaded):
        shard.write(begin(1, part(2), application="other"))
    shard.do(settle(1, THREE))
    assert shard.decide(begin(1, part(2), application="other", producer=701)).is_new


def test_stranger_is_no_request(shard: PublicationsShard) -> None:
    with pytest.raises(LocalError):
        shard.machine.plan(DeletePartition(partition=TWO), now_ms=0, term=Term(1))


# Time, snapshots, other versions.


def test_log_time_never_goes_back(shard: PublicationsShard) -> None:
    shard.decide(begin(1))
    shard.now_ms = 10
    assert shard.decide(begin(2)).application.last_ms == 1_000


def test_plans_that_came_to_nothing_are_forgotten(shard: PublicationsShard) -> None:
    shard.now_ms = 5_000
    shard.write(begin(1))
    shard.machine.forget_plans()
    shard.now_ms = 10
    assert shard.decide(begin(1)).application.last_ms == 10


def test_snapshot_is_the_whole_state(shard: PublicationsShard) -> None:
    shard.decide(begin(4, part(2), part(3)))
    shard.do(settle(4, THREE))
    shard.decide(begin(1, application="other", owner="ann", producer=701))
    copy = Publications()
    copy.restore(shard.machine.snapshot())
    assert copy.snapshot() == shard.machine.snapshot()
    assert copy.describe() == shard.machine.describe()
    assert list(copy.under_way()) == list(shard.machine.under_way())
    copy.restore(Publications().snapshot())
    assert list(copy.under_way()) == []
    assert copy.describe() == "version 1 time 0 applications 0 under way 0"


def test_snapshots_of_before_there_were_publications(shard: PublicationsShard) -> None:
    machine = ShardMachine()
    old = msgspec.msgpack.decode(machine.snapshot())[:-1]
    machine.publications.apply(shard.write(begin(1)))
    machine.restore(msgspec.msgpack.encode(old))
    assert machine.publications.get("app") is None


def test_shard_hands_its_publications_on(shard: PublicationsShard) -> None:
    machine, copy = ShardMachine(), ShardMachine()
    machine.apply(shard.write(begin(4, part(2))))
    copy.restore(machine.snapshot())
    assert copy.publications.get("app") == machine.publications.get("app")
    assert copy.publications.get("app") is not None


@pytest.mark.parametrize("data", [msgspec.msgpack.encode([2, 0, []]), b"", b"\x93\x01\x00\xc0"])
def test_snapshot_of_another_version(shard: PublicationsShard, data: bytes) -> None:
    shard.decide(begin(1))
    before = shard.machine.snapshot()
    with pytest.raises(UnsupportedVersion, match="version"):
        shard.machine.restore(data)
    assert shard.machine.snapshot() == before


def test_other_entries_mean_nothing(shard: PublicationsShard) -> None:
    assert shard.machine.apply(Entry(Index(1), Term(1), EntryKind.NOOP, b"")) == Applied()
    assert shard.machine.log_starts() == {}


# What is in the log stays readable.

ON_DISK: list[tuple[PublicationCommand, list[object]]] = [
    (
        begin(4, part(2, (0, 10), (20, 30)), owner="ann"),
        ["begin_publication", 9, "app", 4, "ann", [[TOPIC, 2, 90, [[0, 10], [20, 30]]]], 700],
    ),
    (settle(4, TWO, THREE), ["settle_parts", 9, "app", 4, [2, 3]]),
    (ForgetApplications(before_ms=7), ["forget_applications", 9, 7]),
]


@pytest.mark.parametrize(("command", "encoded"), ON_DISK, ids=lambda one: type(one).__name__)
def test_encoding(command: PublicationCommand, encoded: list[object]) -> None:
    payload = encode_publication_command(command, stamp_ms=9)
    assert msgspec.msgpack.decode(payload) == encoded
    assert decode_publication_command(payload) == msgspec.structs.replace(command, stamp_ms=9)


def test_every_command_is_named_here() -> None:
    from typing import get_args

    assert {type(command) for command, _ in ON_DISK} == set(get_args(PublicationCommand))


def test_snapshot_on_disk(shard: PublicationsShard) -> None:
    shard.decide(begin(4, part(2), owner="ann"))
    parts = [[TOPIC, 2, 90, [[0, 10]]]]
    assert msgspec.msgpack.decode(shard.machine.snapshot()) == [
        1,
        1_000,
        [["app", "ann", 4, 700, 0, 1_000, [4, 700, 0, parts]]],
    ]
