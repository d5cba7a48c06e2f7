"""The watch over publications: each of its promises can be broken, and a good log breaks none."""

from collections.abc import Callable

import msgspec
import pytest

from penstock.core.types import Offset, PartitionId, ProducerId, Term, TopicId
from penstock.machines.commands import CreatePartition
from penstock.machines.machine import Applied, Reply, Request
from penstock.machines.partitions import AppendBatch
from penstock.machines.publication_commands import BeginPublication, PublishedPart, SettleParts
from penstock.machines.publications import PublicationReply
from penstock.machines.shard_machine import ShardMachine
from tests.planned_entry import planned_entry
from tests.simulation.checkers import Violation
from tests.simulation.history import build_batch
from tests.simulation.publishing_watch import STAGING, TARGETS, PublishingWatch


class Rig:
    """A machine whose log is watched."""

    def __init__(self) -> None:
        self.machine = ShardMachine()
        self.watch = PublishingWatch(lambda _what: None)
        self.index = 0
        for partition in (STAGING, *TARGETS):
            self.do(CreatePartition(partition=partition))
        for value in (b"a/0/x/21/0", b"a/0/x/21/1", b"a/1/x/21/0"):
            self.append(STAGING, value)

    def do(self, request: Request, change: Callable[[Reply], Reply] = lambda reply: reply) -> Reply:
        plan = self.machine.plan(request, now_ms=1_000, term=Term(1))
        self.index += 1
        entry = planned_entry(plan, self.index)
        (reply,) = self.machine.apply(entry).replies
        self.watch.saw_applied(entry, Applied((change(reply),)))
        return reply

    def append(self, partition: PartitionId, *values: bytes) -> None:
        for value in values:
            self.do(AppendBatch(partition, build_batch(value, 1, 0, -1, -1, -1)))

    def decide(
        self,
        batch: int,
        first: int,
        end: int,
        change: Callable[[Reply], Reply] = lambda reply: reply,
    ) -> None:
        part = PublishedPart(
            TopicId(bytes(16)), TARGETS[0], STAGING, ((Offset(first), Offset(end)),)
        )
        command = BeginPublication(
            application="a", batch=batch, owner="", parts=(part,), producer_id=ProducerId(7)
        )
        self.do(command, change)

    def settle(self, batch: int) -> None:
        self.do(SettleParts(application="a", batch=batch, partitions=(TARGETS[0],)))

    def publish_all(self) -> None:
        self.decide(0, 0, 2)
        self.append(TARGETS[0], b"a/0/x/21/0", b"a/0/x/21/1")
        self.settle(0)
        self.watch.published("a", 0)


def _undecided(rig: Rig) -> None:
    rig.append(TARGETS[0], b"a/0/x/21/0")


def _twice(rig: Rig) -> None:
    rig.publish_all()
    rig.append(TARGETS[0], b"a/0/x/21/1")


def _out_of_order(rig: Rig) -> None:
    rig.decide(0, 0, 2)
    rig.append(TARGETS[0], b"a/0/x/21/1")


def _elsewhere(rig: Rig) -> None:
    rig.decide(0, 0, 2)
    rig.append(TARGETS[1], b"a/0/x/21/0")


def _decided_again(rig: Rig) -> None:
    rig.publish_all()

    def lie(reply: Reply) -> Reply:
        assert isinstance(reply, PublicationReply)
        return msgspec.structs.replace(reply, is_new=True)

    rig.decide(0, 2, 3, lie)


def _too_early(rig: Rig) -> None:
    rig.decide(0, 0, 2)
    rig.watch.index -= 1
    rig.index -= 1
    rig.machine.restore(ShardMachine().snapshot())
    rig.decide(1, 2, 3)


def _settled(rig: Rig) -> None:
    rig.decide(0, 0, 2)
    rig.append(TARGETS[0], b"a/0/x/21/0")
    rig.settle(0)


def _told(rig: Rig) -> None:
    rig.decide(0, 0, 2)
    rig.watch.published("a", 0)


def _told_of_another(rig: Rig) -> None:
    rig.publish_all()
    rig.watch.published("a", 1)


def _missing(rig: Rig) -> None:
    rig.decide(0, 0, 2)
    rig.watch.check_final()


BREAKS: list[tuple[str, Callable[[Rig], None]]] = [
    ("PublishedOnce", _undecided),
    ("PublishedOnce", _twice),
    ("PublishedOnce", _out_of_order),
    ("PublishedOnce", _elsewhere),
    ("DecidedOnce", _decided_again),
    ("DecidedInOrder", _too_early),
    ("SettledIsThere", _settled),
    ("PublishedIsThere", _told),
    ("PublishedIsThere", _told_of_another),
    ("EverythingPublished", _missing),
]


@pytest.mark.parametrize(
    ("name", "break_it"), BREAKS, ids=lambda one: getattr(one, "__name__", one)
)
def test_promise_can_be_broken(name: str, break_it: Callable[[Rig], None]) -> None:
    rig = Rig()
    with pytest.raises(Violation, match=f"^{name}:"):
        break_it(rig)


def test_log_that_keeps_its_promises_is_left_alone() -> None:
    rig = Rig()
    rig.publish_all()
    rig.decide(0, 2, 3)
    rig.decide(1, 2, 3)
    rig.append(TARGETS[0], b"a/1/x/21/0")
    rig.settle(1)
    rig.watch.published("a", 0)
    rig.watch.published("a", 1)
    rig.watch.check_final()
