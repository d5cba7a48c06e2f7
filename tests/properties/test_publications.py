"""The publications machine against a model that knows nothing of commands, stamps and snapshots.

Hypothesis plays everybody who publishes, and whoever carries publications out: batches come in any
order, again, from other owners; parts arrive in any order, more than once, or are told of late. A
replica that starts again and again from snapshots must stay equal, byte for byte.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Offset, PartitionId, ProducerId, Term, TopicId
from penstock.machines import publications
from penstock.machines.machine import Propose, Refused, Reply
from penstock.machines.publication_commands import (
    BeginPublication,
    ForgetApplications,
    PublicationCommand,
    PublishedPart,
    SettleParts,
)
from penstock.machines.publications import (
    ApplicationsForgotten,
    PartsSettled,
    PublicationReply,
    Publications,
)
from tests.slow_snapshot import SlowSnapshot

pytestmark = pytest.mark.slow

TOPIC = TopicId(bytes(16))
NAMES = st.sampled_from(["a", "b"])
OWNERS = st.sampled_from(["", "ann"])
BATCHES = st.integers(0, 6)
PARTITIONS = st.sets(st.sampled_from([1, 2, 3]))
EPOCHS = 3


@dataclass
class Known:
    """One application of the model."""

    batch: int
    owner: str
    at_ms: int
    producer: int
    epoch: int
    lacking: dict[int, int] = field(default_factory=dict)
    """Partitions that lack their part, and where that begins."""


class Playing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine, self.copy = Publications(), Publications()
        self.slow = SlowSnapshot(lambda: self.machine, Publications)
        self.model: dict[str, Known] = {}
        self.now_ms = self.log_ms = self.index = 0
        self.producers = 100
        self.used: set[tuple[int, int]] = set()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(publications, "EPOCH_MAX", EPOCHS - 1)

    def teardown(self) -> None:
        self.patch.undo()

    def _do(self, command: PublicationCommand) -> Reply:
        plan = self.machine.plan(command, now_ms=self.now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        self.index += 1
        self.log_ms = self.now_ms
        entry = Entry(Index(self.index), Term(1), EntryKind.COMMAND, plan.payload)
        applied = self.machine.apply(entry)
        assert self.copy.apply(entry) == applied
        return applied.replies[0]

    @rule(name=NAMES, owner=OWNERS, batch=BATCHES, partitions=PARTITIONS, fresh=st.booleans())
    def publish(self, name: str, owner: str, batch: int, partitions: set[int], fresh: bool) -> None:
        self.producers += fresh
        first = 10 * self.index
        parts = tuple(
            PublishedPart(
                TOPIC, PartitionId(one), PartitionId(9), ((Offset(first), Offset(first + 5)),)
            )
            for one in sorted(partitions)
        )
        producer = ProducerId(self.producers if fresh else -1)
        reply = self._do(
            BeginPublication(
                application=name, batch=batch, owner=owner, parts=parts, producer_id=producer
            )
        )
        known = self.model.get(name)
        if known is not None and batch <= known.batch:
            if owner == known.owner:
                assert isinstance(reply, PublicationReply)
                assert not reply.is_new
            else:
                assert isinstance(reply, Refused)
                assert reply.code == "PublicationConflict"
            return
        needs_producer = known is None or known.epoch == EPOCHS - 1
        if (known is not None and known.lacking) or (needs_producer and not fresh):
            assert isinstance(reply, Refused)
            assert reply.code == "Unavailable"
            return
        assert isinstance(reply, PublicationReply)
        assert reply.is_new
        one = self.model[name] = Known(
            batch,
            owner,
            self.now_ms,
            self.producers if needs_producer or known is None else known.producer,
            0 if needs_producer or known is None else known.epoch + 1,
            dict.fromkeys(partitions, first),
        )
        assert (one.producer, one.epoch) not in self.used, "an epoch is used twice"
        self.used.add((one.producer, one.epoch))

    @rule(name=NAMES, batch=BATCHES, partitions=PARTITIONS)
    def settle(self, name: str, batch: int, partitions: set[int]) -> None:
        arrived = tuple(PartitionId(one) for one in sorted(partitions))
        reply = self._do(SettleParts(application=name, batch=batch, partitions=arrived))
        known = self.model.get(name)
        is_over = True
        if known is not None and known.batch == batch:
            for one in partitions:
                known.lacking.pop(one, None)
            is_over = not known.lacking
        assert reply == PartsSettled(is_over)

    @rule(name=NAMES)
    def complete(self, name: str) -> None:
        known = self.model.get(name)
        if known is not None and known.lacking:
            self.settle(name, known.batch, set(known.lacking))

    @rule(ago_ms=st.integers(-2, 6))
    def forget(self, ago_ms: int) -> None:
        before_ms = max(0, self.now_ms - ago_ms)
        limit_ms = min(before_ms, self.log_ms)
        idle = [
            name
            for name, known in self.model.items()
            if not known.lacking and known.at_ms < limit_ms
        ]
        assert self._do(ForgetApplications(before_ms=before_ms)) == ApplicationsForgotten(len(idle))
        for name in idle:
            del self.model[name]

    @rule(duration_ms=st.integers(1, 4))
    def wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    @rule()
    def restart(self) -> None:
        snapshot = self.copy.snapshot()
        self.copy = Publications()
        self.copy.restore(snapshot)

    @rule()
    def lose_plans(self) -> None:
        self.machine.forget_plans()

    @invariant()
    def the_machine_is_as_the_model(self) -> None:
        found = {}
        for name in ("a", "b"):
            one = self.machine.get(name)
            if one is None:
                continue
            lacking: dict[int, int] = {}
            if one.under_way is not None:
                assert one.under_way.batch == one.last_batch
                assert (one.under_way.producer_id, one.under_way.epoch) == (
                    one.producer_id,
                    one.epoch,
                )
                lacking |= {part.partition: part.ranges[0][0] for part in one.under_way.parts}
            found[name] = Known(
                one.last_batch, one.owner, one.last_ms, one.producer_id, one.epoch, lacking
            )
        assert found == self.model
        under_way = {one.name for one in self.machine.under_way()}
        assert under_way == {name for name, one in self.model.items() if one.lacking}
        assert self.copy.snapshot() == self.machine.snapshot()
        self.slow.step()


TestPlaying = Playing.TestCase
TestPlaying.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
