"""Requests that wait for their group: joins for a generation, syncs for an assignment.

A waiting request is answered from the applied state, never from what was true when it came. It
waits for one round (a join) or in one generation (a sync), and is answered as soon as that is over,
whatever has happened since. So a join whose round has closed gets the generation that came of it
even if the next round is open already: the member's sync then tells it to join again, and it keeps
its id. Sending it away, or letting it wait for a round that it does not know of and that waits for
it, would cost the member its place; clients know that as UNKNOWN_MEMBER_ID.

One member has at most one waiting join and one waiting sync. A client that sends its request again
waits along with the first one and both get the same answer: some clients take "rebalance in
progress" as an answer to a join for a fatal error, so none gets it.
"""

import asyncio

import msgspec

from penstock.core.errors import PenstockError, UnknownMember
from penstock.engine.groups.requests import Joined, JoinedMember, Synced
from penstock.machines.group import Group, GroupState
from penstock.machines.groups import Groups

Answer = Joined | Synced


class RoundClosed(msgspec.Struct, frozen=True):
    """A join waits until this round is not open (any more)."""

    rebalance: int


class SharedOut(msgspec.Struct, frozen=True):
    """A sync waits until this generation is shared out, or over."""

    generation: int


Condition = RoundClosed | SharedOut


class _Waiting(msgspec.Struct):
    condition: Condition
    instance: str | None
    answer: asyncio.Future[Answer]
    calls: int = 0


_Kind = tuple[str, type[Condition]]


class PendingRounds:
    """Every waiting request of the groups of one shard."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._waiting: dict[str, dict[_Kind, _Waiting]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def groups(self) -> list[str]:
        """The groups with waiting requests."""
        return list(self._waiting)

    async def wait(
        self, name: str, member: str, instance: str | None, condition: Condition
    ) -> Answer:
        """The answer, when it is due. `look` must have been called since the last round closed."""
        answer = self._find_answer(name, member, instance, condition)
        if isinstance(answer, PenstockError):
            raise answer
        if answer is not None:
            return answer
        table = self._waiting.setdefault(name, {})
        kind = (member, type(condition))
        waiting = table.get(kind)
        if waiting is None:
            future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            waiting = table[kind] = _Waiting(condition, instance, future)
        assert waiting.condition == condition, f"{member} waits for {waiting.condition} as well"
        waiting.calls += 1
        try:
            return await asyncio.shield(waiting.answer)
        finally:
            waiting.calls -= 1
            if not waiting.calls and not waiting.answer.done():
                del table[kind]
                if not table:
                    del self._waiting[name]

    def look(self, name: str) -> None:
        """The group may have changed: answer the requests that need not wait any longer."""
        table = self._waiting.get(name)
        if table is None:
            return
        for kind, waiting in list(table.items()):
            answer = self._find_answer(name, kind[0], waiting.instance, waiting.condition)
            if answer is None:
                continue
            del table[kind]
            if isinstance(answer, PenstockError):
                waiting.answer.set_exception(answer)
            else:
                waiting.answer.set_result(answer)
        if not table:
            del self._waiting[name]

    def end(self, error: PenstockError) -> None:
        """Requests are no longer answered here."""
        ended, self._waiting = self._waiting, {}
        for table in ended.values():
            for waiting in table.values():
                waiting.answer.set_exception(error)

    def _find_answer(
        self, name: str, member: str, instance: str | None, condition: Condition
    ) -> Answer | PenstockError | None:
        """Return the answer that the request gets now; None if it still has to wait."""
        group = self._groups.get(name)
        if group is None:
            return UnknownMember(f"group {name} was deleted; join as a new member")
        try:
            group.check_member(member, instance)
        except PenstockError as error:
            return error
        if isinstance(condition, RoundClosed):
            return None if group.round_open(condition.rebalance) else joined(group, member)
        if group.generation != condition.generation or group.state is GroupState.PREPARING:
            return group.rebalancing()
        if group.state is GroupState.COMPLETING:
            return None
        return Synced(
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            assignment=group.members[member].assignment,
        )


def joined(group: Group, member: str) -> Joined:
    """The generation as this member is to know it: its leader gets the list of the others."""
    members: tuple[JoinedMember, ...] = ()
    if member == group.leader:
        members = tuple(
            JoinedMember(name, one.instance, one.metadata(group.protocol))
            for name, one in group.members.items()
        )
    return Joined(
        member=member,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        members=members,
    )
