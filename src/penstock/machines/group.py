"""One consumer group: who is in it, in which generation, and what became of a rebalance.

This is Kafka's classic group protocol as a state machine without time and without waiting:

    Empty ──▶ PreparingRebalance ──▶ CompletingRebalance ──▶ Stable
      ▲ │         │   ▲                        │                │
      └─┼─────────┘   └────────────────────────┴────────────────┘
        ▼
       Dead

    Empty                 no members; offsets may remain
    PreparingRebalance    all members must join again: a round of joins is open
    CompletingRebalance   the round is closed, a new generation has begun, its leader shares out
    Stable                every member has its assignment of this generation
    Dead                  deleted

Rules that hold here:

- A round closes as soon as every member has joined in it. The round that starts from Empty does
  not: it is closed by the coordinator's timer (`complete`), so that members who start together end
  up in one generation. The same call closes a round for which members were waited for in vain.
- Rounds are numbered (`rebalance`). What is decided from the outside about a round names it, and
  comes to nothing if that round is over.
- The generation grows by one whenever a round closes, and never otherwise.
- The leader is always a member, and one that joined the last round while there was one.
- Members are kept in the order in which they came. That order is state: leaders and votes are
  chosen by it, so it must be the same on all replicas.
- Every method either raises and has changed nothing, or does what it says.

A static member (KIP-345) has a name of its own, its instance. A new process under the same name
takes over its place: the old member id is worth nothing from then on, and in a stable group the
assignment goes along without a rebalance.

Nothing waits in here: which requests wait for an answer, and since when, only the coordinator
knows.
"""

from dataclasses import dataclass, field
from enum import Enum

import msgspec

from penstock.core.errors import (
    FencedInstance,
    GroupFull,
    GroupNotEmpty,
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMember,
)
from penstock.core.types import Offset, TopicId
from penstock.machines.subscription import CONSUMER_PROTOCOL_TYPE, read_topics


class GroupState(Enum):
    """Kafka's names, as clients see them; they are in snapshots, too."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


NEXT_STATES: dict[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING, GroupState.DEAD),
    GroupState.PREPARING: (GroupState.COMPLETING, GroupState.EMPTY),
    GroupState.COMPLETING: (GroupState.STABLE, GroupState.PREPARING),
    GroupState.STABLE: (GroupState.PREPARING,),
    GroupState.DEAD: (),
}
"""Every transition there is."""


class Member(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One member. The order of fields is in snapshots."""

    instance: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), the one it likes best first."""
    assignment: bytes = b""
    joined: bool = False
    """It has joined in the round that is open."""

    def metadata(self, protocol: str) -> bytes:
        """What it says about itself in this protocol."""
        return next((data for name, data in self.protocols if name == protocol), b"")


class CommittedOffset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a group has got in one partition."""

    offset: Offset
    leader_epoch: int
    metadata: str
    commit_ms: int
    """Log time of the commit."""


GROUP_BYTES, MEMBER_BYTES, OFFSET_BYTES = 64, 64, 24
"""What they count for in a shard's state, beside names, texts and metadata."""


def member_bytes(name: str, member: Member) -> int:
    """What a member takes of the shard's state."""
    texts = (name, member.instance or "", member.client_id, member.client_host)
    return (
        MEMBER_BYTES
        + sum(len(text.encode()) for text in texts)
        + sum(len(protocol.encode()) + len(metadata) for protocol, metadata in member.protocols)
        + len(member.assignment)
    )


def offset_bytes(metadata: str) -> int:
    """What a committed offset takes of it."""
    return OFFSET_BYTES + len(metadata.encode())


class JoinOutcome(msgspec.Struct, frozen=True):
    """A join was accepted."""

    rebalance: int
    """The round it counts for: the member's answer is due when this round is not open (any more).
    """
    former: str | None = None
    """A static member took over from this member id without a rebalance."""


class GroupRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A group as it stands in a snapshot."""

    state: GroupState
    since_ms: int
    generation: int
    rebalance: int
    initial: bool
    protocol_type: str
    protocol: str
    leader: str
    members: dict[str, Member]
    offsets: dict[TopicId, dict[int, CommittedOffset]]


@dataclass(slots=True)
class Group:
    """One group, applied; see the top of this module."""

    name: str
    state: GroupState = GroupState.EMPTY
    since_ms: int = 0
    """Log time at which it came into this state."""
    generation: int = 0
    rebalance: int = 0
    initial: bool = False
    """The open round started from Empty."""
    protocol_type: str = ""
    """Empty for a group that has never had members and only keeps offsets."""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    offsets: dict[TopicId, dict[int, CommittedOffset]] = field(default_factory=dict)
    # What follows from the members, kept so that a join does not cost a look at all of them.
    instances: dict[str, str] = field(default_factory=dict)
    supporters: dict[str, int] = field(default_factory=dict)
    """For each protocol, how many members know it."""
    awaited: int = 0
    """How many members have not joined in the open round."""
    members_bytes: int = 0
    offsets_bytes: int = 0
    """What they take of the shard's state."""

    # Questions.

    @property
    def size_bytes(self) -> int:
        """What the group takes of the shard's state."""
        return GROUP_BYTES + len(self.name.encode()) + self.members_bytes + self.offsets_bytes

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a round waits for its members: as long as the most patient one asks for."""
        return max((one.rebalance_timeout_ms for one in self.members.values()), default=0)

    def describe(self) -> str:
        """`Stable generation 3 round 4 leader a members 2 protocol range`."""
        return (
            f"{self.state.value} generation {self.generation} round {self.rebalance}"
            f" leader {self.leader or '-'} members {len(self.members)}"
            f" protocol {self.protocol or '-'}"
        )

    def round_open(self, rebalance: int) -> bool:
        """This round still waits for members."""
        return self.state is GroupState.PREPARING and self.rebalance == rebalance

    def check_member(self, member: str, instance: str | None) -> None:
        """Raise unless this is a member, and the one that has this instance name."""
        if instance is not None:
            current = self.instances.get(instance)
            if current is not None and current != member:
                raise FencedInstance(
                    f"static member {instance} of group {self.name} has been taken over by another"
                    " process; stop this one"
                )
            if current is None:
                raise self._unknown(member)
        if member not in self.members:
            raise self._unknown(member)

    def check_generation(self, generation: int) -> None:
        """Raise unless this is the generation."""
        if generation != self.generation:
            raise IllegalGeneration(
                f"group {self.name} is at generation {self.generation}, not {generation}; join it"
                " again"
            )

    def check_heartbeat(self, member: str, instance: str | None, generation: int) -> None:
        """Raise unless this member may go on as it does."""
        self.check_member(member, instance)
        self.check_generation(generation)
        # A member that has its answer to a join may well send heartbeats before it asks for its
        # assignment: CompletingRebalance is no reason to send it away.
        if self.state is GroupState.PREPARING:
            raise self.rebalancing()

    def check_sync(
        self,
        member: str,
        instance: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
    ) -> None:
        """Raise unless this member may ask for its assignment. KIP-559: of this protocol."""
        self.check_member(member, instance)
        self.check_generation(generation)
        if protocol_type not in (None, self.protocol_type) or protocol not in (None, self.protocol):
            raise InconsistentGroupProtocol(
                f"group {self.name} uses {self.protocol_type} {self.protocol}, not"
                f" {protocol_type} {protocol}"
            )
        if self.state is GroupState.PREPARING:
            raise self.rebalancing()

    def check_commit(self, member: str, instance: str | None, generation: int) -> None:
        """Raise unless these may commit: a member of the generation, or any client if it is
        empty."""
        if generation < 0 and self.state is GroupState.EMPTY:
            return
        if generation < 0 and not member and instance is None:
            raise UnknownMember(f"group {self.name} has members; only they may commit")
        self.check_member(member, instance)
        self.check_generation(generation)
        if self.state is GroupState.COMPLETING:
            raise self.rebalancing()

    def subscribes(self, topic: str) -> bool:
        """Its members read this topic, or may do so for all that is known."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        for member in self.members.values():
            for _, metadata in member.protocols:
                topics = read_topics(metadata)
                if topics is None or topic in topics:
                    return True
        return False

    def rebalancing(self) -> RebalanceInProgress:
        """The error for a member that must join again."""
        return RebalanceInProgress(f"group {self.name} shares out its work anew; join again")

    def _unknown(self, member: str) -> UnknownMember:
        return UnknownMember(
            f"group {self.name} has no member {member or '(no id)'}; join again, as a new one"
        )

    # Joining.

    def join(
        self,
        member: str,
        joining: Member,
        *,
        protocol_type: str,
        new: bool,
        members_max: int,
        now_ms: int,
    ) -> JoinOutcome:
        """A member joins, for the first time or again.

        `new`: the id was drawn for this member, so it need not be known. Otherwise it must be."""
        former = self.instances.get(joining.instance) if joining.instance is not None else None
        known = member in self.members
        if known or not new:
            self.check_member(member, joining.instance)
        elif former is None and len(self.members) >= members_max:
            raise GroupFull(
                f"group {self.name} has {len(self.members)} members, {members_max} at most"
            )
        self._check_protocols(protocol_type, joining, besides=member if known else former)
        self.protocol_type = protocol_type
        if known:
            return self._rejoin(member, joining, now_ms)
        if former is not None:
            return self._replace(former, member, joining, now_ms)
        if self.state is not GroupState.PREPARING:
            self._prepare(now_ms)
        joining.joined = True
        self._add(member, joining)
        return self._counted(now_ms)

    def _check_protocols(self, protocol_type: str, joining: Member, *, besides: str | None) -> None:
        """There must be a protocol that all members know, with this one in place of `besides`."""
        names = {name for name, _ in joining.protocols}
        own = {name for name, _ in self.members[besides].protocols} if besides is not None else ()
        others = len(self.members) - (besides is not None)
        if protocol_type and names:
            if others == 0:
                return
            if protocol_type == self.protocol_type:
                if any(self.supporters.get(name, 0) - (name in own) == others for name in names):
                    return
        raise InconsistentGroupProtocol(
            f"group {self.name} of type {self.protocol_type or protocol_type or 'none'} has no"
            f" protocol in common with {', '.join(sorted(names)) or 'a member that names none'}"
        )

    def _rejoin(self, member: str, joining: Member, now_ms: int) -> JoinOutcome:
        known = self.members[member]
        if known.protocols == joining.protocols:
            # It has missed our answer, or has nothing new to say: it gets the generation there is.
            # A leader of a stable group is different: topics may have changed that only it watches.
            if self.state is GroupState.COMPLETING or (
                self.state is GroupState.STABLE and member != self.leader
            ):
                return JoinOutcome(self.rebalance)
        if self.state is not GroupState.PREPARING:
            self._prepare(now_ms)
        self._update(known, joining)
        return self._counted(now_ms, known)

    def _replace(self, former: str, member: str, joining: Member, now_ms: int) -> JoinOutcome:
        """A static member has come back under a new id."""
        known = self.members.pop(former)
        assert known.instance is not None, f"{former} is no static member"
        self.members[member] = known
        self.members_bytes += len(member.encode()) - len(former.encode())
        self.instances[known.instance] = member
        if self.leader == former:
            self.leader = member
        before = read_topics(known.metadata(self.protocol))
        self._update(known, joining)
        if self.state is GroupState.STABLE:
            # The rest of the metadata may differ, as it does when it names partitions owned before
            # the restart: a static member exists so that this is no reason for a rebalance.
            same_topics = before == read_topics(known.metadata(self.protocol))
            if same_topics and self._select_protocol() == self.protocol:
                return JoinOutcome(self.rebalance, former)
        # KIP-345: in CompletingRebalance the leader may be sharing out to the old id already.
        if self.state is not GroupState.PREPARING:
            self._prepare(now_ms)
        return self._counted(now_ms, known)

    def _counted(self, now_ms: int, member: Member | None = None) -> JoinOutcome:
        """The member has joined in the open round, which may have been the last to wait for."""
        if member is not None and not member.joined:
            member.joined = True
            self.awaited -= 1
        rebalance = self.rebalance
        self._complete_if_all_joined(now_ms)
        return JoinOutcome(rebalance)

    def _add(self, member: str, joining: Member) -> None:
        self.members[member] = joining
        self.members_bytes += member_bytes(member, joining)
        if joining.instance is not None:
            self.instances[joining.instance] = member
        self._support(joining, 1)
        self.leader = self.leader or member

    def _update(self, member: Member, joining: Member) -> None:
        self.members_bytes -= member_bytes("", member)
        self._support(member, -1)
        member.protocols = joining.protocols
        self._support(member, 1)
        member.client_id = joining.client_id
        member.client_host = joining.client_host
        self.members_bytes += member_bytes("", member)
        member.session_timeout_ms = joining.session_timeout_ms
        member.rebalance_timeout_ms = joining.rebalance_timeout_ms

    def _support(self, member: Member, change: int) -> None:
        for name in {name for name, _ in member.protocols}:
            count = self.supporters.get(name, 0) + change
            if count:
                self.supporters[name] = count
            else:
                del self.supporters[name]

    # Rounds.

    def complete(self, rebalance: int, *, now_ms: int) -> bool:
        """Wait no longer in this round; False if it is over, or if no member has joined in it.

        Dynamic members who have not joined are out. Static ones stay until their session ends, but
        a generation needs at least one member that has joined."""
        if not self.round_open(rebalance):
            return False
        absent = [name for name, one in self.members.items() if not one.joined]
        for name in absent:
            if self.members[name].instance is None:
                self._drop(name)
        if self.members and self.awaited == len(self.members):
            return False
        self._begin_generation(now_ms)
        return True

    def _prepare(self, now_ms: int) -> None:
        self.initial = self.state is GroupState.EMPTY
        self._become(GroupState.PREPARING, now_ms)
        self.rebalance += 1
        self.awaited = len(self.members)

    def _complete_if_all_joined(self, now_ms: int) -> None:
        if self.awaited == 0 and (not self.initial or not self.members):
            self._begin_generation(now_ms)

    def _begin_generation(self, now_ms: int) -> None:
        """The round is closed: choose leader and protocol, or be empty."""
        self.generation += 1
        self.initial = False
        self.awaited = 0
        if self.members:
            if not self.members[self.leader].joined:
                self.leader = next(name for name, one in self.members.items() if one.joined)
            self.protocol = self._select_protocol()
            self._become(GroupState.COMPLETING, now_ms)
        else:
            self.protocol = ""
            self._become(GroupState.EMPTY, now_ms)
        for member in self.members.values():
            member.joined = False
            self.members_bytes -= len(member.assignment)
            member.assignment = b""

    def _select_protocol(self) -> str:
        """What most members like best among what all know; of equals, what the eldest voted for."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(
                name
                for name, _ in member.protocols
                if self.supporters.get(name) == len(self.members)
            )
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _become(self, state: GroupState, now_ms: int) -> None:
        assert state in NEXT_STATES[self.state], f"{self.name}: from {self.state} to {state}"
        self.state = state
        self.since_ms = now_ms

    # Sharing out, leaving, ending.

    def assign(self, member: str, assignments: dict[str, bytes], *, now_ms: int) -> bool:
        """The leader has shared out the work; who was forgotten gets nothing.

        To be asked after `check_sync`. False if there was nothing to decide any more."""
        if self.state is not GroupState.COMPLETING or member != self.leader:
            return False
        for name, one in self.members.items():
            assignment = assignments.get(name, b"")
            self.members_bytes += len(assignment) - len(one.assignment)
            one.assignment = assignment
        self._become(GroupState.STABLE, now_ms)
        return True

    def remove(self, names: list[str], *, now_ms: int) -> None:
        """These members are gone; the others share out anew."""
        for name in names:
            self._drop(name)
        if names and self.state is not GroupState.PREPARING:
            self._prepare(now_ms)
        if self.state is GroupState.PREPARING:
            self._complete_if_all_joined(now_ms)

    def expire(self, names: tuple[str, ...], generation: int, *, now_ms: int) -> list[str]:
        """Remove members that were silent, if the group is still in the generation that was
        judged."""
        if generation != self.generation:
            return []
        gone = [name for name in names if name in self.members]
        self.remove(gone, now_ms=now_ms)
        return gone

    def mark_dead(self, *, now_ms: int) -> None:
        """The group is deleted; only an empty one can be."""
        if self.state is not GroupState.EMPTY:
            raise GroupNotEmpty(
                f"group {self.name} has {len(self.members)} members; stop them first"
            )
        self._become(GroupState.DEAD, now_ms)

    def _drop(self, name: str) -> None:
        member = self.members.pop(name)
        self.members_bytes -= member_bytes(name, member)
        if member.instance is not None:
            del self.instances[member.instance]
        self._support(member, -1)
        if self.state is GroupState.PREPARING and not member.joined:
            self.awaited -= 1
        if self.leader == name:
            self.leader = next(iter(self.members), "")

    # Offsets.

    def commit(self, topic: TopicId, partition: int, committed: CommittedOffset) -> None:
        """Remember how far the group has got in a partition."""
        partitions = self.offsets.setdefault(topic, {})
        before = partitions.get(partition)
        partitions[partition] = committed
        self.offsets_bytes += offset_bytes(committed.metadata)
        if before is not None:
            self.offsets_bytes -= offset_bytes(before.metadata)

    def forget(self, topic: TopicId, partition: int) -> None:
        """Forget it, if it is known."""
        partitions = self.offsets.get(topic)
        if partitions is None or partition not in partitions:
            return
        self.offsets_bytes -= offset_bytes(partitions.pop(partition).metadata)
        if not partitions:
            del self.offsets[topic]

    def forget_topic(self, topic: TopicId) -> None:
        """Forget it for a whole topic."""
        gone = self.offsets.pop(topic, {})
        self.offsets_bytes -= sum(offset_bytes(one.metadata) for one in gone.values())

    # Snapshots.

    def record(self) -> GroupRecord:
        """The group for a snapshot. Offsets are sorted: the order they came in is not state."""
        return GroupRecord(
            state=self.state,
            since_ms=self.since_ms,
            generation=self.generation,
            rebalance=self.rebalance,
            initial=self.initial,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            members=self.members,
            offsets={
                topic: dict(sorted(partitions.items()))
                for topic, partitions in sorted(self.offsets.items())
            },
        )

    @classmethod
    def from_record(cls, name: str, record: GroupRecord) -> "Group":
        """The group of a snapshot."""
        group = cls(
            name=name,
            state=record.state,
            since_ms=record.since_ms,
            generation=record.generation,
            rebalance=record.rebalance,
            initial=record.initial,
            protocol_type=record.protocol_type,
            protocol=record.protocol,
            leader=record.leader,
            offsets=record.offsets,
        )
        for name_of_member, member in record.members.items():
            group._add(name_of_member, member)
        group.offsets_bytes = sum(
            offset_bytes(one.metadata)
            for table in record.offsets.values()
            for one in table.values()
        )
        if group.state is GroupState.PREPARING:
            group.awaited = sum(not one.joined for one in group.members.values())
        return group
