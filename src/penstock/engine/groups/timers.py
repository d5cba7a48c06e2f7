"""The time in consumer groups: sessions of members, limits of rounds, the age of offsets.

Everything here is in the memory of a shard's leader. A timer that comes due changes nothing: it
yields a command, which names the round or the generation it was judged in, so that a late one is
harmless. One that gets lost is yielded again.

    what runs                     from                         for
    session of a member           its last sign of life        its session timeout
    id given out (KIP-394)        being given out              the session timeout asked for
    round of joins                the leader seeing it open    the longest rebalance timeout
    the round from Empty          the same                     the initial delay, again and again
                                                               as long as members keep coming
    assignments of a generation   its beginning                the longest rebalance timeout

A member with a request under way is alive. A new leader has heard of no member, so all get a
full session; and it does not know which members asked for an assignment before, so in a generation
that was assigned under another leader no member is removed for not asking.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError, Unavailable
from penstock.core.limits import GROUP_PENDING_MEMBERS_MAX, OFFSET_SWEEP_GROUPS_PER_TICK
from penstock.engine.groups.deadlines import Deadlines
from penstock.engine.groups.requests import GroupSettings
from penstock.machines.group import Group, GroupState
from penstock.machines.group_commands import (
    CompleteJoin,
    ExpireMembers,
    ExpireOffsets,
    GroupCommand,
)
from penstock.machines.groups import Groups

RETRY_MS = 1_000
"""After so long, something that was asked for and has not happened is asked for again."""

MemberKey = tuple[str, str]
"""(group, member id)."""


class Phase(msgspec.Struct):
    """The state of a group when this leader last looked, and the deadline it implies."""

    state: GroupState
    rebalance: int
    members: int = 0
    """The number of members when the initial delay was last extended."""
    extension_ms: int = 0
    """The remaining extension of the initial delay."""
    unsynced: set[str] = msgspec.field(default_factory=set)
    """The members of this generation that have not asked for their assignment."""


class GroupTimers:
    """The timeouts of the groups of one shard."""

    def __init__(self, groups: Groups, clock: Clock, settings: GroupSettings) -> None:
        self._groups = groups
        self._clock = clock
        self._settings = settings
        self._sessions: Deadlines[MemberKey] = Deadlines()
        self._pending: Deadlines[MemberKey] = Deadlines()
        self._limits: Deadlines[str] = Deadlines()
        self._phases: dict[str, Phase] = {}
        self._calls: dict[MemberKey, int] = {}
        self._sweep_ms = 0
        self._sweeping: list[str] = []

    def restart(self) -> None:
        """Leadership has changed: what was known of times is worth nothing."""
        self._sessions.clear()
        self._pending.clear()
        self._limits.clear()
        self._phases.clear()
        self._sweeping.clear()
        self._sweep_ms = self._clock.monotonic_ms() + self._settings.offset_sweep_interval_ms

    def due(self) -> Iterator[GroupCommand]:
        """Yield the commands that are due now."""
        now_ms = self._clock.monotonic_ms()
        self._pending.due(now_ms)
        yield from self._end_sessions(now_ms)
        for name in self._limits.due(now_ms):
            yield from self._end_phase(name, now_ms)
        yield from self._sweep_offsets(now_ms)

    def failed(self, command: GroupCommand) -> None:
        """Retry later: the command failed."""
        if isinstance(command, CompleteJoin):
            self._limits.set(command.group, self._clock.monotonic_ms() + RETRY_MS)

    # Signs of life.

    @contextmanager
    def under_way(self, key: MemberKey, session_ms: int) -> Iterator[None]:
        """A request of this member is being answered, so the member is alive.

        When the answer is given, or the caller goes away before, its session begins anew. It may
        go away so early that the joining client is no member yet; `session_ms` is for that."""
        self._calls[key] = self._calls.get(key, 0) + 1
        answered = False
        try:
            yield
            answered = True
        except PenstockError:
            answered = True
            raise
        finally:
            left = self._calls[key] - 1
            if left:
                self._calls[key] = left
            else:
                del self._calls[key]
                if not answered:
                    self._sessions.set(key, self._clock.monotonic_ms() + session_ms)
                self.touch(*key)

    def touch(self, name: str, member: str) -> None:
        """The member, if it is one, has shown that it is alive."""
        group = self._groups.get(name)
        found = group.members.get(member) if group is not None else None
        if found is not None:
            now_ms = self._clock.monotonic_ms()
            self._sessions.set((name, member), now_ms + found.session_timeout_ms)

    def synced(self, name: str, member: str) -> None:
        """The member has asked for its assignment of the present generation."""
        phase = self._phases.get(name)
        if phase is not None:
            phase.unsynced.discard(member)

    def hand_out(self, key: MemberKey, session_ms: int) -> None:
        """Remember a member id that was given out and has not joined yet."""
        if len(self._pending) >= GROUP_PENDING_MEMBERS_MAX:
            raise Unavailable("too many new members at once; try again later", retry_after_ms=1_000)
        self._pending.set(key, self._clock.monotonic_ms() + session_ms)

    def is_pending(self, key: MemberKey) -> bool:
        """True if this id was given out and has not joined yet."""
        return key in self._pending

    def settle_pending(self, key: MemberKey) -> bool:
        """The owner of an id has come, or has gone for good; False if it was not given out."""
        return self._pending.cancel(key)

    # Rounds and generations.

    def follow(self, name: str) -> bool:
        """The group may have changed: give it the time limit of its state, if that is a new one.

        False if it is in the same round and state as when this leader last looked."""
        group = self._groups.get(name)
        if group is None or group.state is GroupState.EMPTY:
            self._limits.cancel(name)
            return self._phases.pop(name, None) is not None
        before = self._phases.get(name)
        if before is not None:
            if before.state is group.state and before.rebalance == group.rebalance:
                return False
        now_ms = self._clock.monotonic_ms()
        phase = self._phases[name] = Phase(group.state, group.rebalance)
        limit_ms = group.rebalance_timeout_ms
        if group.state is GroupState.PREPARING:
            if group.initial:
                phase.members = len(group.members)
                phase.extension_ms = limit_ms
                limit_ms = self._take_delay(phase)
            self._limits.set(name, now_ms + limit_ms)
        elif group.state is GroupState.COMPLETING:
            phase.unsynced = set(group.members)
            self._limits.set(name, now_ms + limit_ms)
        elif before is not None and before.rebalance == group.rebalance:
            phase.unsynced = before.unsynced  # The limit goes on.
        else:
            self._limits.cancel(name)  # Another leader has seen who has its assignment.
        self._begin_sessions(group, now_ms, all_anew=group.state is GroupState.COMPLETING)
        return True

    def _begin_sessions(self, group: Group, now_ms: int, *, all_anew: bool) -> None:
        for member, found in group.members.items():
            key = (group.name, member)
            if all_anew or key not in self._sessions:
                self._sessions.set(key, now_ms + found.session_timeout_ms)

    def _take_delay(self, phase: Phase) -> int:
        """The next piece of the initial delay."""
        delay_ms = min(self._settings.initial_delay_ms, phase.extension_ms)
        phase.extension_ms -= delay_ms
        return delay_ms

    def _end_phase(self, name: str, now_ms: int) -> Iterator[GroupCommand]:
        group, phase = self._groups.get(name), self._phases.get(name)
        if group is None or phase is None:
            return
        if group.state is GroupState.PREPARING:
            if group.initial and phase.extension_ms and len(group.members) > phase.members:
                phase.members = len(group.members)
                self._limits.set(name, now_ms + self._take_delay(phase))
                return
            self._limits.set(name, now_ms + max(group.rebalance_timeout_ms, RETRY_MS))
            yield CompleteJoin(group=name, rebalance=group.rebalance)
        else:
            missing = tuple(one for one in group.members if one in phase.unsynced)
            if missing:
                self._limits.set(name, now_ms + RETRY_MS)
                yield ExpireMembers(group=name, generation=group.generation, members=missing)

    def _end_sessions(self, now_ms: int) -> Iterator[GroupCommand]:
        silent: dict[str, list[str]] = {}
        for key in self._sessions.due(now_ms):
            name, member = key
            group = self._groups.get(name)
            found = group.members.get(member) if group is not None else None
            if found is None:
                continue
            if key in self._calls:
                self._sessions.set(key, now_ms + found.session_timeout_ms)
            else:
                silent.setdefault(name, []).append(member)
                self._sessions.set(key, now_ms + RETRY_MS)
        for name, members in silent.items():
            generation = self._groups.groups[name].generation
            yield ExpireMembers(group=name, generation=generation, members=tuple(members))

    # Offsets.

    def _sweep_offsets(self, now_ms: int) -> Iterator[GroupCommand]:
        """Look through some groups at a time for offsets that are too old."""
        if not self._sweeping:
            if now_ms < self._sweep_ms:
                return
            self._sweep_ms = now_ms + self._settings.offset_sweep_interval_ms
            self._sweeping = list(self._groups.groups)
        before_ms = self._clock.wall_ms() - self._settings.offset_retention_ms
        count = min(OFFSET_SWEEP_GROUPS_PER_TICK, len(self._sweeping))
        names = [self._sweeping.pop() for _ in range(count)]
        found = tuple(name for name in names if self._groups.expirable(name, before_ms))
        if found:
            yield ExpireOffsets(before_ms=before_ms, groups=found)
