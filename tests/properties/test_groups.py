"""The groups machine against a model that says the rules once more, as shortly as possible.

Hypothesis plays everybody: members that join with ids old, new and of others, leaders that share
out, timers that are late, zombies that commit. Commands are applied late, a leader loses what it
has planned, and replicas start again from snapshots. The model decides about each command when it
is applied; reply, state and offsets must be the same, and what must always hold is looked at after
every step.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Term
from penstock.machines.group import Group, GroupState
from penstock.machines.group_commands import (
    CompleteJoin,
    DeleteGroup,
    DropOffsets,
    ExpireMembers,
    ExpireOffsets,
    ForgetTopics,
    GroupCommand,
    RemoveMembers,
)
from penstock.machines.groups import Groups, MembersRemoved, OffsetsDropped
from penstock.machines.machine import Propose, Refused, Reply
from tests.groups import BILLS, ORDERS, assign, join, store, subscription
from tests.slow_snapshot import SlowSnapshot

pytestmark = pytest.mark.slow

MEMBERS_MAX = 4
ORDERS_ONLY, BOTH_TOPICS = subscription("orders"), subscription("orders", "bills")
PROTOCOLS = st.sampled_from(
    [
        (("range", ORDERS_ONLY),),
        (("range", ORDERS_ONLY),),
        (("range", subscription("orders", rest=b"owned")),),
        (("range", BOTH_TOPICS),),
        (("range", ORDERS_ONLY), ("sticky", ORDERS_ONLY)),
        (("sticky", ORDERS_ONLY), ("range", ORDERS_ONLY)),
        (("sticky", b"?"),),
        (),
    ]
)

COMPATIBLE = PROTOCOLS.filter(lambda protocols: "range" in dict(protocols))
NAMES = st.sampled_from("abcdef")
INSTANCES = st.sampled_from([None, None, None, "X", "Y"])
OWN_INSTANCE = {"a": None, "b": None, "c": None, "d": "X", "e": "X", "f": "Y"}
"""Two ids for X: one takes over from the other."""
IDENTITIES = st.sampled_from([*OWN_INSTANCE.items(), ("a", "X"), ("d", None), ("e", "Y")])
GROUPS = st.sampled_from(["g"] * 9 + ["h"])
STEPS = st.sampled_from([0, 0, 0, 0, -1, 1])
TOPICS = {"orders": ORDERS, "bills": BILLS}
Protocols = tuple[tuple[str, bytes], ...]


class No(Exception):
    """The model refuses."""


class ModelGroup:
    """A group as its rules have it; members in their order: id -> [instance, protocols, work]."""

    def __init__(self) -> None:
        self.state = "Empty"
        self.generation = self.round = 0
        self.initial = False
        self.members: dict[str, list[Any]] = {}
        self.joined: set[str] = set()
        self.leader = self.protocol = ""
        self.since = 0
        self.offsets: dict[tuple[bytes, int], tuple[int, int]] = {}

    def holder(self, instance: str | None) -> str | None:
        if instance is None:
            return None
        return next((one for one, data in self.members.items() if data[0] == instance), None)

    def must_know(self, member: str, instance: str | None) -> None:
        if instance is not None and self.holder(instance) not in (None, member):
            raise No("FencedInstance")
        if member not in self.members or (instance is not None and not self.holder(instance)):
            raise No("UnknownMember")

    def best(self) -> str:
        names = [[name for name, _ in data[1]] for data in self.members.values()]
        common = set(names[0]).intersection(*names)
        votes: list[str] = [next(name for name in one if name in common) for one in names]
        return max(votes, key=lambda name: (votes.count(name), -votes.index(name)))

    def join(self, member: str, instance: str | None, protocols: Protocols, new: bool) -> None:
        holder = self.holder(instance)
        if member in self.members or not new:
            self.must_know(member, instance)
        elif holder is None and len(self.members) >= MEMBERS_MAX:
            raise No("GroupFull")
        place = member if member in self.members else holder
        others = [data[1] for one, data in self.members.items() if one != place]
        names = {name for name, _ in protocols}
        if not names.intersection(*({name for name, _ in one} for one in others)):
            raise No("InconsistentGroupProtocol")
        if place == member and self.members[member][1] == protocols:
            if self.state == "CompletingRebalance":
                return
            if self.state == "Stable" and member != self.leader:
                return
        data = self.members.get(place or "", [instance, protocols, b""])
        before = topics_of(data[1], self.protocol)
        if place != member:
            self.members.pop(place or "", None)
            self.joined.discard(place or "")
            self.leader = member if self.leader in ("", place) else self.leader
        data[1] = protocols
        if place is not None:
            self.members[member] = data
            if place != member and self.state == "Stable":
                if topics_of(protocols, self.protocol) == before and self.best() == self.protocol:
                    return
        self.open_round()
        self.members[member] = data
        self.joined.add(member)
        self.close_if_complete()

    def open_round(self) -> None:
        if self.state != "PreparingRebalance":
            self.initial = self.state == "Empty"
            self.state = "PreparingRebalance"
            self.round += 1
            self.joined = set()

    def close_if_complete(self) -> None:
        if not self.members or (not self.initial and self.joined == set(self.members)):
            self.close()

    def close(self) -> None:
        self.generation += 1
        self.initial = False
        for data in self.members.values():
            data[2] = b""
        if self.members:
            self.state = "CompletingRebalance"
            if self.leader not in self.joined:
                self.leader = next(one for one in self.members if one in self.joined)
            self.protocol = self.best()
        else:
            self.state, self.protocol = "Empty", ""
        self.joined = set()

    def complete(self, number: int) -> None:
        if self.state == "PreparingRebalance" and number == self.round:
            for one in [one for one in self.members if one not in self.joined]:
                if self.members[one][0] is None:
                    self.forget(one)
            if self.joined or not self.members:
                self.close()

    def forget(self, member: str) -> None:
        del self.members[member]
        self.joined.discard(member)
        if self.leader == member:
            self.leader = next(iter(self.members), "")

    def remove(self, members: list[str]) -> None:
        for one in members:
            self.forget(one)
        if members:
            self.open_round()
            self.close_if_complete()

    def assign(self, member: str, instance: str | None, generation: int, work: bytes) -> None:
        self.must_know(member, instance)
        if generation != self.generation:
            raise No("IllegalGeneration")
        if self.state == "PreparingRebalance":
            raise No("RebalanceInProgress")
        if self.state == "CompletingRebalance" and member == self.leader:
            self.state = "Stable"
            for one in self.members.values():
                one[2] = work

    def may_commit(self, member: str, instance: str | None, generation: int) -> None:
        if generation < 0 and self.state == "Empty":
            return
        self.must_know(member, instance)
        if generation != self.generation:
            raise No("IllegalGeneration")
        if self.state == "CompletingRebalance":
            raise No("RebalanceInProgress")

    def subscribes(self, topic: str) -> bool:
        said = [topics_of(data[1], name) for data in self.members.values() for name, _ in data[1]]
        return any(topics is None or topic in topics for topics in said)


def topics_of(protocols: Protocols, name: str) -> tuple[str, ...] | None:
    """By the few metadata that are played with."""
    metadata = dict(protocols).get(name, b"?")
    if metadata == b"?":
        return None
    return ("orders", "bills") if metadata == BOTH_TOPICS else ("orders",)


class GroupsPlay(RuleBasedStateMachine):
    """One leader, one follower, one replica restored over and over; a model of what is applied."""

    def __init__(self) -> None:
        super().__init__()
        self.leader, self.follower, self.restored = Groups(), Groups(), Groups()
        self.slow = SlowSnapshot(lambda: self.leader, Groups)
        self.model: dict[str, ModelGroup] = {}
        self.under_way: list[tuple[Entry, Callable[[], object]]] = []
        self.reached: dict[str, tuple[int, int]] = {}
        self.index = 0
        self.term = 1
        self.now_ms = 1_000

    # What anybody may ask for.

    @rule(
        name=GROUPS, who=IDENTITIES, protocols=PROTOCOLS, new=st.sampled_from([True, True, False])
    )
    def join(self, name: str, who: tuple[str, str | None], protocols: Protocols, new: bool) -> None:
        member, instance = who

        def decide() -> object:
            group = self.model.get(name)
            if group is None and not new:
                raise No("UnknownMember")
            group = group or ModelGroup()
            group.join(member, instance, protocols, new)
            self.model[name] = group
            return None

        command = join(
            member,
            group=name,
            instance=instance,
            protocols=protocols,
            new=new,
            members_max=MEMBERS_MAX,
        )
        self.ask(command, decide)

    @rule(
        crowd=st.lists(st.tuples(IDENTITIES, COMPATIBLE), min_size=2, max_size=4),
        settled=st.booleans(),
    )
    def come_together(
        self, crowd: list[tuple[tuple[str, str | None], Protocols]], settled: bool
    ) -> None:
        """What well-behaved members do; without it no group would ever be stable."""
        for who, protocols in crowd:
            self.join("g", who, protocols, True)
        if settled:
            self.settle("g")

    @rule(protocols=COMPATIBLE)
    def come_back(self, protocols: Protocols) -> None:
        """A static member restarts."""
        group = self.leader.get("g")
        for instance, member in list(group.instances.items())[:1] if group else ():
            self.join("g", ("e" if member == "d" else "d", instance), protocols, True)

    @rule(name=GROUPS, absent=st.sets(st.integers(0, MEMBERS_MAX), max_size=MEMBERS_MAX))
    def end_round(self, name: str, absent: set[int]) -> None:
        """Some join again, and the others are waited for in vain."""
        self.apply_all()
        group = self.leader.get(name)
        for number, (member, found) in enumerate(list(group.members.items()) if group else ()):
            if number not in absent:
                self.join(name, (member, found.instance), found.protocols, False)
        self.apply_all()
        self.complete(name, 0)
        self.apply_all()

    @rule(name=GROUPS)
    def settle(self, name: str) -> None:
        """All goes well for once."""
        self.end_round(name, set())
        self.share_out(name, "a", 0, True)
        self.apply_all()

    @rule(name=GROUPS, step=STEPS)
    def complete(self, name: str, step: int) -> None:
        group = self.leader.get(name)
        number = (group.rebalance if group else 0) + step

        def decide() -> object:
            if name in self.model:
                self.model[name].complete(number)
            return None

        self.ask(CompleteJoin(group=name, rebalance=number), decide)

    @rule(name=GROUPS, member=NAMES, step=STEPS, by_leader=st.booleans())
    def share_out(self, name: str, member: str, step: int, by_leader: bool) -> None:
        group = self.leader.get(name)
        instance = None
        if group is not None and by_leader and group.leader:
            member = group.leader
            instance = group.members[member].instance
        generation = (group.generation if group else 0) + step
        work = b"%d" % generation

        def decide() -> object:
            if name not in self.model:
                raise No("UnknownMember")
            self.model[name].assign(member, instance, generation, work)
            return None

        parts = dict.fromkeys(OWN_INSTANCE, work)
        self.ask(assign(member, generation, parts, group=name, instance=instance), decide)

    @rule(
        name=GROUPS,
        leaving=st.lists(st.tuples(st.sampled_from(["", *OWN_INSTANCE]), INSTANCES), max_size=3),
    )
    def leave(self, name: str, leaving: list[tuple[str, str | None]]) -> None:
        def decide() -> object:
            group = self.model.get(name)
            gone: list[str] = []
            codes = []
            for member, instance in leaving:
                try:
                    if group is None:
                        raise No("UnknownMember")
                    who = member or group.holder(instance) or ""
                    if who in gone:
                        raise No("UnknownMember")
                    group.must_know(who, instance)
                    gone.append(who)
                    codes.append("")
                except No as no:
                    codes.append(str(no))
            if group is not None:
                group.remove(gone)
            return codes

        self.ask(RemoveMembers(group=name, members=tuple(leaving)), decide)

    @rule(name=GROUPS, silent=st.lists(NAMES, max_size=3, unique=True), step=STEPS)
    def expire(self, name: str, silent: list[str], step: int) -> None:
        group = self.leader.get(name)
        generation = (group.generation if group else 0) + step

        def decide() -> object:
            found = self.model.get(name)
            if found is not None and found.generation == generation:
                found.remove([one for one in silent if one in found.members])
            return None

        command = ExpireMembers(group=name, generation=generation, members=tuple(silent))
        self.ask(command, decide)

    @rule(
        name=GROUPS,
        member=st.sampled_from(["", "", *OWN_INSTANCE]),
        instance=INSTANCES,
        step=STEPS,
        topic=st.sampled_from(sorted(TOPICS)),
        offset=st.integers(0, 99),
    )
    def commit(
        self, name: str, member: str, instance: str | None, step: int, topic: str, offset: int
    ) -> None:
        group = self.leader.get(name)
        generation = max(0, (group.generation if group else 0) + step) if member else -1

        def decide() -> object:
            found = self.model.get(name)
            if found is None and generation >= 0:
                raise No("IllegalGeneration")
            found = found or ModelGroup()
            found.may_commit(member, instance, generation)
            if name not in self.model:
                found.since = self.leader.time_ms
                self.model[name] = found
            found.offsets[TOPICS[topic], 0] = (offset, self.leader.time_ms)
            return None

        command = store(
            offset,
            group=name,
            member=member,
            instance=instance,
            generation=generation,
            topic=TOPICS[topic],
        )
        self.ask(command, decide)

    @rule(topic=st.sampled_from(sorted(TOPICS)), step=STEPS)
    def member_commits(self, topic: str, step: int) -> None:
        group = self.leader.get("g")
        for member, found in list(group.members.items())[:1] if group else ():
            self.commit("g", member, found.instance, step, topic, 7)

    @rule(topic=st.sampled_from(sorted(TOPICS)))
    def commit_without_members(self, topic: str) -> None:
        self.commit("h", "", None, 0, topic, 7)

    @rule(name=GROUPS, topics=st.lists(st.sampled_from(sorted(TOPICS)), unique=True))
    def drop_offsets(self, name: str, topics: list[str]) -> None:
        def decide() -> object:
            if name not in self.model:
                raise No("UnknownGroup")
            group = self.model[name]
            codes = ["GroupSubscribed" if group.subscribes(topic) else "" for topic in topics]
            for topic, code in zip(topics, codes, strict=True):
                if not code:
                    group.offsets.pop((TOPICS[topic], 0), None)
            return codes

        offsets = tuple((TOPICS[topic], 0, topic) for topic in topics)
        self.ask(DropOffsets(group=name, offsets=offsets), decide)

    @rule(name=st.sampled_from(["g", "h"]))
    def delete(self, name: str) -> None:
        def decide() -> object:
            if name not in self.model:
                raise No("UnknownGroup")
            if self.model[name].members:
                raise No("GroupNotEmpty")
            del self.model[name]
            return None

        self.ask(DeleteGroup(group=name), decide)

    @rule(topic=st.sampled_from(sorted(TOPICS)))
    def forget_topic(self, topic: str) -> None:
        def decide() -> object:
            for group in self.model.values():
                group.offsets.pop((TOPICS[topic], 0), None)
            return None

        self.ask(ForgetTopics(topics=(TOPICS[topic],)), decide)

    @rule(name=st.sampled_from(["g", "h"]), later=st.booleans())
    def grow_old(self, name: str, later: bool) -> None:
        """Time passes; the members may leave only after it has."""
        self.now_ms = max(self.now_ms, self.leader.time_ms) + 10 * later
        group = self.leader.get(name)
        if group is not None:
            self.leave(name, [(member, one.instance) for member, one in group.members.items()])
        self.commit("h", "", None, 0, "orders" if later else "bills", 9)
        self.now_ms += 10

    @rule(age=st.sampled_from([-5, 0, 1, 5, 10, 15, 25]))
    def sweep(self, age: int) -> None:
        before_ms = max(self.now_ms, self.leader.time_ms) - age

        def decide() -> object:
            for name, group in list(self.model.items()):
                if group.state == "Empty":
                    for key, (_, stamp) in list(group.offsets.items()):
                        if max(stamp, group.since) < before_ms:
                            del group.offsets[key]
                    if not group.offsets:
                        del self.model[name]
            return None

        self.ask(ExpireOffsets(before_ms=before_ms, groups=("g", "h", "nobody")), decide)

    # What a shell does.

    @rule(step=st.sampled_from([-20, 1, 5, 10]))
    def let_time_pass(self, step: int) -> None:
        self.now_ms += step

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def change_leader(self, data: st.DataObject) -> None:
        """Some of what is under way was committed; the rest never was."""
        for _ in range(data.draw(st.integers(0, len(self.under_way)))):
            self.apply_next()
        self.under_way = []
        self.leader, self.follower = self.follower, self.leader
        self.leader.forget_plans()
        self.follower.forget_plans()
        self.term += 1

    @rule()
    def apply_all(self) -> None:
        while self.under_way:
            self.apply_next()

    @rule()
    def restore_from_snapshot(self) -> None:
        state = self.follower.snapshot()
        self.restored = Groups()
        self.restored.restore(state)
        assert self.restored.snapshot() == state

    # What must hold.

    @invariant()
    def replicas_are_equal(self) -> None:
        state = self.leader.snapshot()
        assert self.follower.snapshot() == state
        assert self.restored.snapshot() == state
        self.slow.step()

    @invariant()
    def the_state_is_the_models(self) -> None:
        assert set(self.leader.groups) == set(self.model)
        for name, group in self.leader.groups.items():
            model = self.model[name]
            assert (group.state.value, group.generation, group.rebalance) == (
                model.state,
                model.generation,
                model.round,
            )
            assert (group.leader, group.protocol) == (model.leader, model.protocol)
            members = [
                (one, found.instance, found.protocols, found.assignment)
                for one, found in group.members.items()
            ]
            assert members == [(one, *data) for one, data in model.members.items()]
            assert {one for one, found in group.members.items() if found.joined} == model.joined
            offsets = {
                key: (one.offset, one.commit_ms) for key, one in self.leader.offsets(name).items()
            }
            assert offsets == model.offsets

    @invariant()
    def a_group_is_in_order(self) -> None:
        for name, group in self.leader.groups.items():
            assert bool(group.members) == (group.state is not GroupState.EMPTY)
            assert (group.leader in group.members) or not group.members
            names = [one.instance for one in group.members.values() if one.instance is not None]
            assert len(names) == len(set(names)), "an instance is one member"
            if group.state is GroupState.STABLE:
                work = {one.assignment for one in group.members.values()}
                assert work == {b"%d" % group.generation}, "of this generation, everybody"
            if group.state is GroupState.PREPARING:
                assert group.initial or group.awaited > 0, "nobody is waited for in vain"
            assert Group.from_record(name, group.record()) == group, "the tallies are right"

    # The machinery.

    def ask(self, command: GroupCommand, decide: Callable[[], object]) -> None:
        plan = self.leader.plan(command, now_ms=self.now_ms, term=Term(self.term))
        assert isinstance(plan, Propose)
        self.index += 1
        entry = Entry(Index(self.index), Term(self.term), EntryKind.COMMAND, plan.payload)
        self.under_way.append((entry, decide))
        # Most of the time something is under way, but not much: it would be decided too late.
        while len(self.under_way) > self.index % 3:
            self.apply_next()

    def apply_next(self) -> None:
        entry, decide = self.under_way.pop(0)
        states = {name: one.state for name, one in self.model.items()}
        results = [one.apply(entry) for one in (self.leader, self.follower, self.restored)]
        assert results[0] == results[1] == results[2]
        (reply,) = results[0].replies
        try:
            expected: object = decide()
        except No as no:
            expected = str(no)
        assert said(reply) == expected
        for name, group in self.model.items():
            if states.get(name) != group.state:
                group.since = self.leader.time_ms
        self.only_forward()

    def only_forward(self) -> None:
        """As long as a group lives, its generations and rounds only grow."""
        now = {name: (one.generation, one.rebalance) for name, one in self.leader.groups.items()}
        for name, (generation, number) in now.items():
            before = self.reached.get(name, (0, 0))
            assert before[0] <= generation <= before[0] + 1
            assert before[1] <= number <= before[1] + 1
        self.reached = now


def said(reply: Reply) -> object:
    """A reply in the model's words."""
    match reply:
        case Refused(code=code):
            return code
        case MembersRemoved(refusals=refusals) | OffsetsDropped(refusals=refusals):
            return [refused.code if refused else "" for refused in refusals]
        case _:
            return None


TestGroups = GroupsPlay.TestCase
TestGroups.settings = settings(
    derandomize=True, deadline=None, database=None, max_examples=200, stateful_step_count=60
)
