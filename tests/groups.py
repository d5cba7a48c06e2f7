"""Consumer groups without Raft, disk or network: commands become entries and are applied at once.

`GroupsShard` is one leader's machine with its log, beside a second replica that is fed the same
entries and must come out equal. The functions below make commands of a few words.
"""

from collections.abc import Mapping

import msgspec

from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Term, TopicId
from penstock.machines.group import Group, Member
from penstock.machines.group_commands import (
    AssignMembers,
    ExpireMembers,
    GroupCommand,
    JoinMember,
    RemoveMembers,
    StoreOffsets,
)
from penstock.machines.groups import Groups
from penstock.machines.machine import Applied, Effect, Propose, Refused, Reply

ORDERS = TopicId(b"orders".ljust(16, b"."))
BILLS = TopicId(b"bills".ljust(16, b"."))


def subscription(*topics: str, rest: bytes = b"") -> bytes:
    """A consumer's metadata: version, topics, and whatever the client adds."""
    text = b"\x00\x01" + len(topics).to_bytes(4, "big")
    for topic in topics:
        text += len(topic.encode()).to_bytes(2, "big") + topic.encode()
    return text + rest


RANGE = (("range", subscription("orders")),)


class GroupsShard:
    """A leader's groups, and a follower's."""

    def __init__(self) -> None:
        self.machine = Groups()
        self.follower = Groups()
        self.log: list[Entry] = []
        self.now_ms = 1_000
        self.effects: tuple[Effect, ...] = ()

    def write(self, command: GroupCommand) -> Entry:
        """The entry of a command, planned and not applied."""
        plan = self.machine.plan(command, now_ms=self.now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        entry = Entry(Index(len(self.log) + 1), Term(1), EntryKind.COMMAND, plan.payload)
        self.log.append(entry)
        return entry

    def apply(self, entry: Entry) -> Applied:
        """What an entry does, on both replicas."""
        applied = self.machine.apply(entry)
        assert self.follower.apply(entry) == applied
        self.effects = applied.effects
        return applied

    def do(self, command: GroupCommand) -> Reply:
        """Write and apply, with nothing else under way."""
        return self.apply(self.write(command)).replies[0]

    def refuse(self, command: GroupCommand) -> str:
        """The error that a command is refused with; nothing may have changed but time."""
        before = self.state()
        reply = self.do(command)
        assert isinstance(reply, Refused), f"it was accepted: {reply}"
        assert self.state() == before
        return reply.code

    def state(self) -> object:
        """Everything but log time."""
        return msgspec.msgpack.decode(self.machine.snapshot(), strict=False)[2]

    def group(self, name: str = "g") -> Group:
        group = self.machine.get(name)
        assert group is not None, f"there is no group {name}"
        return group


def member(
    *,
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = RANGE,
    session_timeout_ms: int = 10_000,
    rebalance_timeout_ms: int = 60_000,
) -> Member:
    return Member(instance, "client", "/host", session_timeout_ms, rebalance_timeout_ms, protocols)


def join(
    member: str,
    *,
    group: str = "g",
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = RANGE,
    protocol_type: str = "consumer",
    new: bool = False,
    members_max: int = 100,
) -> JoinMember:
    return JoinMember(
        group=group,
        member=member,
        instance=instance,
        client_id="client",
        client_host="/host",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type=protocol_type,
        protocols=protocols,
        new=new,
        members_max=members_max,
    )


def assign(
    member: str,
    generation: int,
    parts: Mapping[str, bytes] | None = None,
    *,
    group: str = "g",
    instance: str | None = None,
) -> AssignMembers:
    """The leader's sync: what it gives to whom."""
    return AssignMembers(
        group=group,
        member=member,
        instance=instance,
        generation=generation,
        protocol_type=None,
        protocol=None,
        assignments=tuple((parts or {}).items()),
    )


def remove(*members: str, group: str = "g") -> RemoveMembers:
    return RemoveMembers(group=group, members=tuple((one, None) for one in members))


def expire(*members: str, generation: int, group: str = "g") -> ExpireMembers:
    return ExpireMembers(group=group, generation=generation, members=members)


def store(
    offset: int,
    *,
    group: str = "g",
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    topic: TopicId = ORDERS,
    partition: int = 0,
) -> StoreOffsets:
    return StoreOffsets(
        group=group,
        member=member,
        instance=instance,
        generation=generation,
        offsets=((topic, partition, offset, 5, "note"),),
    )
