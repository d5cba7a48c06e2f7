"""The coordinator of a shard's consumer groups: what front-ends ask, and the leader's half of it.

What a group is, is replicated (`machines.groups`); all replicas decide alike about it. The other
half lives in the leader's memory only: the requests that wait for their group (`group_waiting`),
and everything that runs out (`group_timers`). The coordinator joins the two halves. It decides
nothing about a group itself; it asks, by command.

Rules that hold here:

- After every change the group is looked at: first its time limits, then its waiting requests. The
  request that made the change does it, and so does the effect of the machine, and every tick: one
  of them may be cancelled or get lost.
- A request that cannot be valid (a zombie of an old generation, an id that was never given out) is
  refused from the applied state, without a write. Any other is decided in the log.
- A request that gets lost with the leadership ends as `NotCoordinator`: the client looks for the
  new leader and asks again, and asking a group again does no harm. Only where it might (offsets
  deleted or committed) an unknown outcome is called unknown.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import (
    IllegalGeneration,
    MemberIdRequired,
    NotCoordinator,
    NotLeader,
    OffsetMetadataTooLarge,
    OutcomeUnknown,
    PenstockError,
    RebalanceInProgress,
    StorageError,
    Unavailable,
    UnknownMember,
)
from penstock.core.limits import (
    GROUP_MEMBERS_MAX,
    OFFSETS_PER_COMMAND_MAX,
    OFFSETS_PER_COMMIT_MAX,
)
from penstock.core.types import TopicId
from penstock.engine.groups.checks import (
    bound_rebalance_timeout,
    check_count,
    check_join,
    check_names,
    check_sync,
)
from penstock.engine.groups.pending_rounds import PendingRounds, RoundClosed, SharedOut, joined
from penstock.engine.groups.requests import (
    CommitOffsets,
    GroupDescription,
    GroupOverview,
    GroupSettings,
    Joined,
    JoinGroup,
    LeavingMember,
    MemberDescription,
    MemberLeft,
    OffsetKey,
    Synced,
    SyncGroup,
)
from penstock.engine.groups.timers import GroupTimers
from penstock.machines.group import CommittedOffset, Group, GroupState
from penstock.machines.group_commands import (
    AssignMembers,
    CompleteJoin,
    DeleteGroup,
    DropOffsets,
    ExpireMembers,
    ForgetTopics,
    GroupCommand,
    JoinMember,
    RemoveMembers,
    StoreOffsets,
)
from penstock.machines.groups import (
    GroupChanged,
    GroupOffset,
    Groups,
    MemberJoined,
    MembersRemoved,
    OffsetsDropped,
)
from penstock.machines.machine import Effect, Refused, Reply, Request, refusal_error

_CLIENT_CHARACTERS_MAX = 255
"""The number of characters of a client's name in its member ids."""


class Coordinator:
    """The groups of one shard, as long as this node leads it; see the top of this module."""

    def __init__(
        self,
        groups: Groups,
        change: Callable[[Request], Awaitable[Reply]],
        clock: Clock,
        settings: GroupSettings | None = None,
        *,
        draw: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        """`change` proposes a command and returns the reply once it is applied.

        `draw` gives a unique word; member ids are made of it."""
        self._groups = groups
        self._change = change
        self._settings = settings or GroupSettings()
        self._draw = draw
        self._leads = False
        self._timers = GroupTimers(groups, clock, self._settings)
        self._waiting = PendingRounds(groups)
        self._tasks: dict[GroupCommand, asyncio.Task[None]] = {}

    # What happens to a coordinator.

    def leadership(self, leads: bool) -> None:
        """Leadership was won, and everything committed before is applied; or it was lost."""
        self._leads = leads
        self._waiting.end(_not_leading())
        self._timers.restart()
        if leads:
            for name in self._groups.groups:
                self._timers.follow(name)

    def on_effect(self, effect: Effect) -> None:
        """The machine has applied something."""
        if isinstance(effect, GroupChanged):
            self._look(effect.group)

    def tick(self) -> None:
        """Time has passed: ask for what is due."""
        if self._leads:
            for name in self._waiting.groups():
                self._look(name, closely=False)  # An effect may have got lost.
            for command in self._timers.due():
                self._ask(command)

    async def close(self) -> None:
        """End every waiting request, and all background proposals."""
        self.leadership(False)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Joining and sharing out.

    async def join(self, request: JoinGroup) -> Joined:
        """Take part in the next generation; returns when it has begun, which may take minutes.

        If the client goes away, cancel: its member then has a session's time to come back."""
        self._check_leading()
        check_join(request, self._settings)
        name, member = request.group, request.member
        if member:
            new = self._timers.is_pending((name, member))
            if not new:
                self._require(name).check_member(member, request.instance)
        else:
            new = True
            member = self._draw_member(request)
            if request.require_known_member and request.instance is None:
                self._timers.hand_out((name, member), request.session_timeout_ms)
                raise MemberIdRequired(f"join group {name} again as {member}", member_id=member)
        with self._timers.under_way((name, member), request.session_timeout_ms):
            try:
                reply = await self._propose(self._join_command(request, member, new=new))
                assert isinstance(reply, MemberJoined), f"a join was answered with {reply}"
                self._timers.settle_pending((name, member))
                self._look(name, closely=request.instance is not None)
                if reply.former is not None:
                    return self._take_over(request, reply)
                condition = RoundClosed(reply.rebalance)
                answer = await self._waiting.wait(name, member, request.instance, condition)
            except asyncio.CancelledError:
                if not request.member and request.instance is None and self._leads:
                    # A member that never received its id cannot come back with it.
                    self._ask(RemoveMembers(group=name, members=((member, None),)))
                raise
        assert isinstance(answer, Joined), f"a join was answered with {answer}"
        return answer

    async def sync(self, request: SyncGroup) -> Synced:
        """The member's assignment; returns when the leader of the generation has brought it."""
        self._check_leading()
        check_sync(request)
        name, member = request.group, request.member
        group = self._require(name)
        group.check_sync(
            member, request.instance, request.generation, request.protocol_type, request.protocol
        )
        session_ms = group.members[member].session_timeout_ms
        with self._timers.under_way((name, member), session_ms):
            self._timers.synced(name, member)
            if group.state is GroupState.COMPLETING and member == group.leader:
                command = AssignMembers(
                    group=name,
                    member=member,
                    instance=request.instance,
                    generation=request.generation,
                    protocol_type=request.protocol_type,
                    protocol=request.protocol,
                    assignments=request.assignments,
                )
                await self._propose(command)
                self._look(name)
            condition = SharedOut(request.generation)
            answer = await self._waiting.wait(name, member, request.instance, condition)
        assert isinstance(answer, Synced), f"a sync was answered with {answer}"
        return answer

    def heartbeat(
        self, group: str, *, member: str, generation: int, instance: str | None = None
    ) -> None:
        """The member is alive. Raises `RebalanceInProgress` when it must join again."""
        self._check_leading()
        check_names(group, member, instance)
        try:
            self._require(group).check_heartbeat(member, instance, generation)
        except RebalanceInProgress:
            self._timers.touch(group, member)
            raise
        self._timers.touch(group, member)

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> list[MemberLeft]:
        """Remove members; return the outcome of each, in order."""
        self._check_leading()
        check_names(group)
        check_count("members that leave at once", len(members), GROUP_MEMBERS_MAX)
        errors: list[PenstockError | None] = [None] * len(members)
        others: list[int] = []
        for number, one in enumerate(members):
            check_names(group, one.member, one.instance)
            if not self._timers.settle_pending((group, one.member)):
                others.append(number)
        if others and self._groups.get(group) is None:
            for number in others:
                errors[number] = UnknownMember(f"there is no group {group}")
        elif others:
            leaving = tuple((members[number].member, members[number].instance) for number in others)
            reply = await self._propose(RemoveMembers(group=group, members=leaving))
            assert isinstance(reply, MembersRemoved), f"a leave was answered with {reply}"
            self._look(group)
            for number, refused in zip(others, reply.refusals, strict=True):
                errors[number] = None if refused is None else refusal_error(refused)
        return [
            MemberLeft(one.member, one.instance, error)
            for one, error in zip(members, errors, strict=True)
        ]

    def _join_command(self, request: JoinGroup, member: str, *, new: bool) -> JoinMember:
        return JoinMember(
            group=request.group,
            member=member,
            instance=request.instance,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=bound_rebalance_timeout(request.rebalance_timeout_ms),
            protocol_type=request.protocol_type,
            protocols=request.protocols,
            new=new,
            members_max=min(self._settings.members_max, GROUP_MEMBERS_MAX),
        )

    def _draw_member(self, request: JoinGroup) -> str:
        return f"{(request.instance or request.client_id)[:_CLIENT_CHARACTERS_MAX]}-{self._draw()}"

    def _take_over(self, request: JoinGroup, reply: MemberJoined) -> Joined:
        """The answer to a static member that took over its own place without a rebalance."""
        group = self._require(request.group)
        group.check_member(reply.member, request.instance)
        answer = joined(group, reply.member)
        if answer.leader != reply.member:
            return answer
        if request.skips_assignment:
            return msgspec.structs.replace(answer, skip_assignment=True)
        # Before KIP-814 the only way to keep a leader from assigning a stable group anew was to
        # hide from it that it leads.
        assert reply.former is not None, f"no member was replaced: {reply}"
        return msgspec.structs.replace(answer, leader=reply.former, members=())

    # Offsets.

    async def commit_offsets(self, request: CommitOffsets) -> dict[OffsetKey, PenstockError | None]:
        """Remember offsets; raises what concerns all of them, returns what concerns one."""
        self._check_leading()
        name, member = request.group, request.member
        check_names(name, member, request.instance, empty=True)
        check_count("offsets in one commit", len(request.offsets), OFFSETS_PER_COMMIT_MAX)
        group = self._groups.get(name)
        if group is not None:
            group.check_commit(member, request.instance, request.generation)
        elif request.generation >= 0:
            raise IllegalGeneration(f"there is no group {name} yet; join it first")
        self._timers.touch(name, member)
        outcome: dict[OffsetKey, PenstockError | None] = {}
        stored = []
        size_max = self._settings.offset_metadata_bytes_max
        for one in request.offsets:
            size = len(one.metadata.encode())
            if size > size_max:
                outcome[one.topic_id, one.partition] = OffsetMetadataTooLarge(
                    f"{size} bytes of metadata with an offset, {size_max} at most"
                )
            else:
                outcome[one.topic_id, one.partition] = None
                stored.append(
                    (one.topic_id, one.partition, one.offset, one.leader_epoch, one.metadata)
                )
        # Every replica applies a command in one piece: a large commit is stored by several.
        for place in range(0, len(stored), OFFSETS_PER_COMMAND_MAX):
            command = StoreOffsets(
                group=name,
                member=member,
                instance=request.instance,
                generation=request.generation,
                offsets=tuple(stored[place : place + OFFSETS_PER_COMMAND_MAX]),
            )
            await self._propose(command, repeatable=False)
        return outcome

    def offsets(
        self, group: str, keys: Iterable[OffsetKey] | None = None
    ) -> dict[OffsetKey, CommittedOffset]:
        """Return the committed offsets of these partitions, or of all."""
        self._check_leading()
        return self._groups.offsets(group, keys)

    async def delete_offsets(
        self, group: str, names: Mapping[OffsetKey, str]
    ) -> dict[OffsetKey, PenstockError | None]:
        """Forget the offsets of partitions that no member reads.

        `names` has the topic's name for each: what members say they read, they say by name."""
        self._check_leading()
        check_names(group, *names.values(), empty=True)
        check_count("offsets to delete at once", len(names), OFFSETS_PER_COMMIT_MAX)
        dropped = [(topic, partition, name) for (topic, partition), name in names.items()]
        outcome: dict[OffsetKey, PenstockError | None] = {}
        for place in range(0, len(dropped), OFFSETS_PER_COMMAND_MAX):
            portion = tuple(dropped[place : place + OFFSETS_PER_COMMAND_MAX])
            reply = await self._propose(DropOffsets(group=group, offsets=portion), repeatable=False)
            assert isinstance(reply, OffsetsDropped), f"a delete was answered with {reply}"
            for (topic, partition, _), refused in zip(portion, reply.refusals, strict=True):
                outcome[topic, partition] = None if refused is None else refusal_error(refused)
        return outcome

    async def forget_topics(self, topic_ids: Iterable[TopicId]) -> None:
        """Topics were deleted: forget the committed offsets in them."""
        self._check_leading()
        topics = tuple(topic_ids)
        if topics:
            await self._propose(ForgetTopics(topics=topics), repeatable=False)

    async def delete_group(self, group: str) -> None:
        """Delete a group that has no members, with its offsets."""
        self._check_leading()
        check_names(group, empty=True)
        await self._propose(DeleteGroup(group=group), repeatable=False)

    def committed(self) -> Iterator[GroupOffset]:
        """Every committed offset of every group: what lag is counted from."""
        self._check_leading()
        return self._groups.committed()

    # For people.

    def groups(self) -> list[GroupOverview]:
        """All groups of the shard, by name."""
        self._check_leading()
        return [
            GroupOverview(name, group.protocol_type, group.state.value)
            for name, group in sorted(self._groups.groups.items())
        ]

    def describe(self, group: str) -> GroupDescription:
        """Describe a group. Metadata and assignments are included only while they are in force, as
        in Kafka."""
        self._check_leading()
        found = self._groups.get(group)
        if found is None:
            return GroupDescription(group=group, state=GroupState.DEAD.value)
        stable = found.state is GroupState.STABLE
        return GroupDescription(
            group=group,
            state=found.state.value,
            protocol_type=found.protocol_type,
            protocol=found.protocol if stable else "",
            generation=found.generation,
            leader=found.leader,
            members=tuple(
                MemberDescription(
                    member=name,
                    instance=member.instance,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    metadata=member.metadata(found.protocol) if stable else b"",
                    assignment=member.assignment if stable else b"",
                )
                for name, member in found.members.items()
            ),
        )

    # Asking.

    async def _propose(self, command: GroupCommand, *, repeatable: bool = True) -> Reply:
        """Propose a command. Errors that Kafka clients do not expect are replaced.

        `repeatable`: asking again does no harm, so an unknown outcome only means to ask elsewhere.
        """
        try:
            reply = await self._change(command)
        except NotLeader as error:
            raise NotCoordinator(str(error), leader=error.leader) from error
        except RebalanceInProgress:
            raise
        except Unavailable as error:
            raise Unavailable(str(error), retry_after_ms=error.retry_after_ms) from error
        except (OutcomeUnknown, StorageError) as error:
            if not repeatable:
                raise
            raise NotCoordinator(f"the outcome is unknown, try again: {error}") from error
        if isinstance(reply, Refused):
            raise refusal_error(reply)
        if repeatable:
            self._check_leading()
        return reply

    def _ask(self, command: GroupCommand) -> None:
        """Propose in the background, unless the very same is under way."""
        if command not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._carry(command))
            self._tasks[command] = task
            task.add_done_callback(lambda _task: self._tasks.pop(command))

    async def _carry(self, command: GroupCommand) -> None:
        try:
            await self._propose(command)
        except PenstockError:
            self._timers.failed(command)
        if isinstance(command, CompleteJoin | ExpireMembers | RemoveMembers):
            self._look(command.group)

    def _look(self, name: str, *, closely: bool = True) -> None:
        """The group may have changed.

        Looking `closely` costs as much as there are requests waiting: a thousand members that join
        one round must not look at each other a thousand times."""
        if self._leads:
            changed = self._timers.follow(name)
            if changed or closely:
                self._waiting.look(name)

    # Refusing.

    def _check_leading(self) -> None:
        if not self._leads:
            raise _not_leading()

    def _require(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            raise UnknownMember(f"there is no group {name}; join as a new member")
        return group


def _not_leading() -> NotCoordinator:
    return NotCoordinator("this node does not coordinate the group (any more); find the new one")
