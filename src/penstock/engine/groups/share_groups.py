"""The membership of share groups (KIP-932): members, their epochs, and the partitions they read.

A share group hands out messages, not partitions: who reads what only spreads the load, and two
members on one partition do no harm. So membership is the memory of the group's coordinator, the
leader of its shard, and nowhere else. A new coordinator knows no member; each learns that with its
next heartbeat and joins again, and what it has leased meanwhile stays leased. What must not be
forgotten, how far a group has got with which message, is a work group and replicated.

    epoch of a heartbeat     means
    0                        I join, or join again
    -1                       I leave
    any other                I am here; this is the last epoch I received

A group's epoch grows whenever its members, what they subscribe to, or the partitions of that
change. A member that is behind gets the new epoch and its partitions with its next heartbeat,
and may come once more with the epoch before, because answers get lost. Any other epoch is not one
it was given: it is fenced, and joins again.

Sharing out is even: with fewer members than partitions each partition has one member, otherwise
each member one partition. Members are in the order in which they came, and topics take turns in who
is first, so that many small topics do not all go to the same member.
"""

from collections.abc import Callable, Mapping

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import (
    FencedMember,
    GroupFull,
    InvalidRequest,
    Overloaded,
    PenstockError,
    UnknownMember,
)
from penstock.core.limits import (
    MIB,
    SHARE_GROUP_MEMBERS_MAX,
    SHARE_GROUP_SUBSCRIPTIONS_MAX,
    SHARE_GROUPS_BYTES_MAX,
    SHARE_GROUPS_MAX,
)
from penstock.core.types import Term, TopicId
from penstock.engine.groups.checks import check_names
from penstock.engine.groups.deadlines import Deadlines
from penstock.machines.catalog import Catalog

ASSIGNOR = "simple"
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
_EPOCH_MAX = (1 << 31) - 1
_MEMBER_BYTES = 1_000
"""With its session, and its group if it is the only member."""
_TEXT_BYTES = 60
_PARTITION_BYTES = 16
"""In the target and in what the member was sent last: most numbers are shared."""

Assignment = dict[TopicId, tuple[int, ...]]
"""The partitions of each topic that a member reads."""
Gone = Callable[[str, str], None]
"""Called with a group and a member that has left it, or was silent for too long."""


class ShareHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The heartbeat of a member."""

    group: str
    member: str
    epoch: int
    topics: tuple[str, ...] | None = None
    """The topics it subscribes to; None: as before."""
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""


class ShareAssigned(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a member's heartbeat."""

    epoch: int
    heartbeat_ms: int
    assignment: Assignment | None = None
    """The assignment; None: as before."""


class ShareMember(msgspec.Struct, kw_only=True):
    """The state of a member in the coordinator: its subscription and its epochs."""

    member: str
    client_id: str
    client_host: str
    rack: str | None
    topics: tuple[str, ...]
    epoch: int = 0
    former_epoch: int = 0
    assignment: Assignment = {}
    """The last assignment that was sent to it."""

    def size_bytes(self) -> int:
        """About how much memory it takes, without its partitions."""
        texts = (self.member, self.client_id, self.client_host, self.rack or "", *self.topics)
        return _MEMBER_BYTES + sum(map(len, texts)) + _TEXT_BYTES * len(texts)


class ShareGroup(msgspec.Struct, kw_only=True):
    """A share group that has members."""

    name: str
    term: Term
    """In which this node leads the group's shard: in another it would know nothing of it."""
    epoch: int = 0
    members: dict[str, ShareMember] = {}
    shape: dict[str, tuple[TopicId, int]] = {}
    """Of the topics that are subscribed to and there: the id and the number of partitions."""
    revision: int = -1
    """Of the catalog, when `shape` was looked up."""
    target: dict[str, Assignment] = {}
    """What each member should read."""
    target_bytes: int = 0
    """What `target` takes, as it is counted."""


class ShareGroups:
    """The share groups that this node coordinates."""

    def __init__(
        self, clock: Clock, catalog: Callable[[], Catalog], term: Callable[[str], Term]
    ) -> None:
        """`term`: in which this node leads a group's shard; raises `NotCoordinator`."""
        self._clock = clock
        self._catalog = catalog
        self._term = term
        self._groups: dict[str, ShareGroup] = {}
        self.bytes = 0
        """About what all members take; see `SHARE_GROUPS_BYTES_MAX`."""
        self._empty: dict[str, Term] = {}
        """Groups that had members or offsets, the last ones last, and when that was seen."""
        self._sessions: Deadlines[tuple[str, str]] = Deadlines()
        self._listeners: list[Gone] = []

    def on_gone(self, listener: Gone) -> None:
        """Call this for every member that goes."""
        self._listeners.append(listener)

    def heartbeat(self, beat: ShareHeartbeat) -> ShareAssigned:
        """Join, stay or leave; raises what a member must know to go on."""
        check_names(beat.group, beat.member, beat.rack)
        if not beat.member:
            raise InvalidRequest("a member of a share group must choose its own id")
        if beat.epoch < LEAVE_EPOCH:
            raise InvalidRequest(f"{beat.epoch} is not an epoch of a member")
        topics = beat.topics or ()
        if len(topics) > SHARE_GROUP_SUBSCRIPTIONS_MAX:
            raise InvalidRequest(
                f"{len(topics)} topics are subscribed to, {SHARE_GROUP_SUBSCRIPTIONS_MAX} at most"
            )
        check_names(beat.group, *topics)
        group = self._group(beat.group)
        if beat.epoch == LEAVE_EPOCH:
            if group is None or beat.member not in group.members:
                raise UnknownMember(f"group {beat.group} has no member {beat.member}")
            self._remove(group, beat.member)
            return ShareAssigned(epoch=LEAVE_EPOCH, heartbeat_ms=0)
        if beat.epoch == JOIN_EPOCH:
            group = self._join(group, beat)
        elif group is None or beat.member not in group.members:
            raise UnknownMember(f"group {beat.group} has no member {beat.member}; join it again")
        return self._beat(group, beat)

    def tick(self) -> None:
        """Time has passed: members that were silent for too long are out."""
        for name, member in self._sessions.due(self._clock.monotonic_ms()):
            if name in self._groups and self._is_led(name):
                self._remove(self._groups[name], member)

    def names(self) -> list[str]:
        """The groups that have members."""
        return sorted(name for name in list(self._groups) if self._is_led(name))

    def get(self, name: str) -> ShareGroup | None:
        """A group, if it has members; raises `NotCoordinator` where another node would know."""
        return self._group(name)

    # Groups that have nothing.

    def note_empty(self, name: str) -> None:
        """The group has no members any more, or no offsets. It is there, as in Kafka, until it is
        deleted; another coordinator would not know of it."""
        self._empty.pop(name, None)
        if len(self._empty) >= SHARE_GROUPS_MAX:
            del self._empty[next(iter(self._empty))]
        self._empty[name] = self._term(name)

    def is_empty(self, name: str) -> bool:
        """Whether the group is known to be there, without members."""
        return self._empty.get(name) == self._term(name) and self._group(name) is None

    def empty_names(self) -> set[str]:
        """All of these groups that this node still coordinates."""
        return {name for name in list(self._empty) if self._is_known_empty(name)}

    def _is_known_empty(self, name: str) -> bool:
        try:
            return self.is_empty(name)
        except PenstockError:
            return False  # Another node coordinates it now.

    def forget(self, name: str) -> None:
        """Forget a group that was deleted."""
        self._empty.pop(name, None)

    # Members.

    def _group(self, name: str) -> ShareGroup | None:
        term = self._term(name)
        group = self._groups.get(name)
        if group is not None and group.term != term:
            self._drop(group)
            return None
        return group

    def _is_led(self, name: str) -> bool:
        try:
            return self._group(name) is not None
        except PenstockError:
            self._drop(self._groups[name])
            return False

    def _drop(self, group: ShareGroup) -> None:
        """Another node has coordinated the group since: nothing is known of its members."""
        del self._groups[group.name]
        self.bytes -= group.target_bytes
        for name, member in group.members.items():
            self.bytes -= member.size_bytes()
            self._sessions.cancel((group.name, name))

    def _join(self, group: ShareGroup | None, beat: ShareHeartbeat) -> ShareGroup:
        if beat.topics is None:
            raise InvalidRequest("a member that joins a share group must name its topics")
        joining = ShareMember(
            member=beat.member,
            client_id=beat.client_id,
            client_host=beat.client_host,
            rack=beat.rack,
            topics=tuple(sorted(set(beat.topics))),
        )
        if group is None or beat.member not in group.members:
            self._check_room(beat.group, joining.size_bytes())
        if group is None:
            if len(self._groups) >= SHARE_GROUPS_MAX:
                raise Overloaded(f"this node coordinates {SHARE_GROUPS_MAX} share groups already")
            group = ShareGroup(name=beat.group, term=self._term(beat.group))
            self._groups[beat.group] = group
        if beat.member not in group.members:
            if len(group.members) >= SHARE_GROUP_MEMBERS_MAX:
                raise GroupFull(
                    f"share group {group.name} has {SHARE_GROUP_MEMBERS_MAX} members, as many as"
                    " may be"
                )
            group.members[beat.member] = joining
            self.bytes += joining.size_bytes()
            group.revision = -1
        return group

    def _check_room(self, group: str, size: int) -> None:
        if self.bytes + size > SHARE_GROUPS_BYTES_MAX:
            raise GroupFull(
                f"the members of all share groups take {self.bytes / MIB:.1f} MiB of this node's"
                f" memory, as much as they may; {group} gets no more now: use fewer members, or"
                " subscribe to fewer topics"
            )

    def _beat(self, group: ShareGroup, beat: ShareHeartbeat) -> ShareAssigned:
        member = group.members[beat.member]
        if beat.epoch not in (JOIN_EPOCH, member.epoch, member.former_epoch):
            raise FencedMember(
                f"member {beat.member} of group {group.name} is in epoch {member.epoch}, not"
                f" {beat.epoch}; join again"
            )
        if beat.topics is not None:
            topics = tuple(sorted(set(beat.topics)))
            if topics != member.topics:
                grown = msgspec.structs.replace(member, topics=topics).size_bytes()
                grown -= member.size_bytes()
                if grown > 0:
                    self._check_room(group.name, grown)
                self.bytes += grown
                member.topics = topics
                group.revision = -1
        settings = self._catalog().group_settings(group.name)
        self._sessions.set(
            (group.name, beat.member), self._clock.monotonic_ms() + settings.session_ms
        )
        self._share_out(group)
        knows = beat.epoch == member.epoch
        if member.epoch != group.epoch:
            member.former_epoch, member.epoch = member.epoch, group.epoch
            wanted = group.target.get(beat.member, {})
            knows = knows and wanted == member.assignment
            member.assignment = wanted
        return ShareAssigned(
            epoch=member.epoch,
            heartbeat_ms=settings.heartbeat_ms,
            assignment=None if knows and beat.topics is None else member.assignment,
        )

    def _remove(self, group: ShareGroup, member: str) -> None:
        self.bytes -= group.members.pop(member).size_bytes()
        self._sessions.cancel((group.name, member))
        group.revision = -1
        if not group.members:
            self.bytes -= group.target_bytes
            del self._groups[group.name]
            self.note_empty(group.name)
        for listener in self._listeners:
            listener(group.name, member)

    # Sharing out.

    def _share_out(self, group: ShareGroup) -> None:
        """Begin a new epoch if the partitions or the members have changed."""
        catalog = self._catalog()
        if group.revision == catalog.revision:
            return
        names = {name for member in group.members.values() for name in member.topics}
        found = ((name, catalog.topic(name)) for name in sorted(names))
        group.shape = {
            name: (topic.topic_id, len(topic.partitions))
            for name, topic in found
            if topic is not None
        }
        target = share_out(group.members, group.shape)
        if group.revision == -1 or target != group.target:
            # At the end of the numbers they begin anew; 0 is for joining.
            group.epoch = group.epoch % _EPOCH_MAX + 1
        group.target = target
        self.bytes -= group.target_bytes
        group.target_bytes = _PARTITION_BYTES * sum(
            len(indexes) for assignment in target.values() for indexes in assignment.values()
        )
        self.bytes += group.target_bytes
        group.revision = catalog.revision


def share_out(
    members: Mapping[str, ShareMember], shape: Mapping[str, tuple[TopicId, int]]
) -> dict[str, Assignment]:
    """Assign partitions to members; see the top of this module."""
    target: dict[str, dict[TopicId, list[int]]] = {name: {} for name in members}
    turn = 0
    wanted: dict[str, list[str]] = {topic: [] for topic in shape}
    for name, member in members.items():
        for topic in member.topics:
            if topic in wanted:
                wanted[topic].append(name)
    for topic, (topic_id, partitions) in shape.items():
        readers = wanted[topic]
        for number in range(max(len(readers), partitions)):
            reader = readers[(number + turn) % len(readers)]
            target[reader].setdefault(topic_id, []).append(number % partitions)
        turn += partitions
    return {
        name: {topic_id: tuple(sorted(indexes)) for topic_id, indexes in found.items()}
        for name, found in target.items()
    }
