"""The story of one message, out of the lines of delivery histories.

    delivered     leased to `receiver`, for the n-th time, until a time
    extended      its lease lasts longer
    released      not done: comes back at once, or after a time
    returned      back, as if it had never been delivered
    lease ended   the lease expired without an answer; it is ready again
    too late      a receiver settled it after its lease, without effect
    rejected      it can never be done: dead
    died          it was delivered once too often
    taken         leased by a move, to be sent on; no delivery
    moved         it was sent on, and is done here
    buried        dead, and sent on to the dead letters
    discarded     dead, and not wanted any more
    revived       dead, and delivered anew
    acked         done
    covered       done, or dead, by a reader of the log that commits offsets
    cancelled     cancelled before it was leased
    purged        dropped with all others
    reset         the work group was set to an offset before it, and gets it again
    passed over   it was set to one behind it
    closed        the work group was forgotten, with all that it knew

A delivery history holds commands. What time alone did is not in it and follows: a lease that was
not settled has ended when it should; a message that is dead now, and was not rejected, has died of
it. Nor does it hold which of the messages that a command names it has met: who revives all the
dead, or purges, does nothing to one that is done. That follows, too, from where the message was.

Lines of several replicas say the same where they overlap, so a story is their union, by log index.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from penstock.core.types import EARLIEST, LATEST, Index, Offset, PartitionId, TopicId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.replica.delivery_history import Line
from penstock.machines.group_commands import StoreOffsets, decode_group_command
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    CloseWork,
    CopyPlace,
    CumulativeAck,
    Purge,
    RemoveDead,
    RequeueDead,
    ResetWork,
    Settle,
    Settlement,
    decode_queue_command,
)
from penstock.machines.shard_machine import command_tag
from penstock.wire.trace_requests import Happening, Place, State

_STORE = "store_offsets"
_ENDS = {EARLIEST: "to the beginning", LATEST: "to the end"}
_VERDICTS = {
    Verdict.ACK: "acked",
    Verdict.FINISH: "acked",
    Verdict.RELEASE: "released",
    Verdict.REJECT: "rejected",
    Verdict.EXTEND: "extended",
    Verdict.RETURN: "returned",
}
LEASES = ("delivered", "taken")
_ENDS_LEASE = frozenset({
    "acked",
    "closed",
    "covered",
    "passed over",
    "purged",
    "rejected",
    "released",
    "reset",
    "returned",
})  # fmt: skip
_OVER = frozenset({
    "acked",
    "buried",
    "cancelled",
    "closed",
    "covered",
    "discarded",
    "moved",
    "passed over",
    "purged",
})  # fmt: skip
_DEAD = frozenset({"rejected", "died", "buried", "discarded"})


class Noted(msgspec.Struct, frozen=True, array_like=True):
    """The part of one line that concerns one message."""

    index: Index
    time_ms: int
    group: str
    what: str
    epoch: int = 0
    receiver: str = ""
    deliveries: int = -1
    until_ms: int = -1
    detail: str = ""
    copy: CopyPlace | None = None
    """The place it was moved to, if it was."""


class Passing(msgspec.Struct, frozen=True, array_like=True):
    """A consumer group committed an offset behind a message, for the first time that is known."""

    index: Index
    time_ms: int
    group: str
    member: str


# Reading lines.


def notes_of(lines: Iterable[Line], partition: PartitionId, offset: Offset) -> Iterator[Noted]:
    """Yield the parts of lines that concern a message."""
    for line in lines:
        if command_tag(line.payload) == _STORE:
            continue
        command = decode_queue_command(line.payload)
        if getattr(command, "partition", None) != partition:
            continue
        match command:
            case Acquire():
                yield from _leased(line, command, offset)
            case Settle(settlements=settlements):
                for number, one in enumerate(settlements):
                    if one.first <= offset < one.end:
                        copy = _copy(command.copies, number)
                        yield _settled(line, command, one, line.outcomes[number], copy)
            case CumulativeAck(first=first):
                yield from _covered(line, command, offset, first)
            case RemoveDead(offsets=offsets, discarded=discarded) if offset in offsets:
                copy = _copy(command.copies, offsets.index(offset))
                yield _plain(line, command, "discarded" if discarded else "buried", copy=copy)
            case RequeueDead(offsets=offsets) if offset in offsets or not offsets:
                yield _plain(line, command, "revived")
            case Cancel(offsets=offsets) if offset in offsets:
                yield _plain(line, command, "cancelled")
            case Purge():
                yield _plain(line, command, "purged")
            case CloseWork(group=group) if group:
                yield _plain(line, command, "closed")
            case ResetWork(start=start):
                comes_back = start == EARLIEST or 0 <= start <= offset
                where = _ENDS.get(start, f"to offset {start}")
                yield _plain(line, command, "reset" if comes_back else "passed over", where)
            case _:
                pass


def passings_of(
    lines: Iterable[Line], topic_id: TopicId, partition: int, offset: Offset
) -> Iterator[Passing]:
    """Yield the first commit of each consumer group after a message."""
    for line in lines:
        if command_tag(line.payload) != _STORE:
            continue
        command = decode_group_command(line.payload)
        assert isinstance(command, StoreOffsets), f"{command} has the tag of another"
        for topic, index, committed, _, _ in command.offsets:
            if topic == topic_id and index == partition and committed > offset:
                yield Passing(line.index, command.stamp_ms, command.group, command.member)


def _leased(line: Line, command: Acquire, offset: Offset) -> Iterator[Noted]:
    for run in line.runs:
        if run.first <= offset < run.end:
            what = "taken" if command.offsets else "delivered"
            yield Noted(
                line.index, command.stamp_ms, command.group, what, line.epoch, command.receiver,
                run.deliveries, line.until_ms,
            )  # fmt: skip


def _copy(copies: Sequence[CopyPlace], number: int) -> CopyPlace | None:
    return copies[number] if number < len(copies) else None


def _settled(
    line: Line, command: Settle, one: Settlement, outcome: Outcome, copy: CopyPlace | None
) -> Noted:
    what, detail, until_ms = _VERDICTS[one.verdict], one.reason, -1
    if outcome is not Outcome.DONE:
        what, detail = "too late", f"{what} was said"
    elif one.verdict is Verdict.EXTEND or (one.verdict is Verdict.RELEASE and one.delay_ms > 0):
        until_ms = command.stamp_ms + one.delay_ms
    return Noted(
        line.index, command.stamp_ms, command.group, what, one.epoch,
        until_ms=until_ms, detail=detail, copy=copy,
    )  # fmt: skip


def _covered(line: Line, command: CumulativeAck, offset: Offset, first: Offset) -> Iterator[Noted]:
    for dead, reason in command.dead:
        if dead == offset:
            yield _plain(line, command, "rejected", reason)
            return
    if first <= offset < line.upto:
        by = f"by {command.stream}, batch {command.batch}" if command.stream else ""
        yield _plain(line, command, "covered", by)


def _plain(
    line: Line,
    command: CumulativeAck | RemoveDead | RequeueDead | Cancel | Purge | ResetWork | CloseWork,
    what: str,
    detail: str = "",
    copy: CopyPlace | None = None,
) -> Noted:
    return Noted(line.index, command.stamp_ms, command.group, what, detail=detail, copy=copy)


# Telling.


def _nowhere(_copy: CopyPlace) -> Place | None:
    return None


def tell(
    notes: Iterable[Noted],
    states: Sequence[State],
    now_ms: int,
    place_of: Callable[[CopyPlace], Place | None] = _nowhere,
) -> tuple[Happening, ...]:
    """A message's story: all groups, in the order in which things happened. `states` are where it
    is now; `place_of` knows the names of topics."""
    by_group: dict[str, dict[tuple[int, str], Noted]] = {}
    for one in notes:
        by_group.setdefault(one.group, {})[one.index, one.what] = one
    happenings: list[Happening] = []
    for group, known in by_group.items():
        state = next((one for one in states if one.group == group), None)
        notes_in_order = sorted(known.values(), key=_by_index)
        happenings += _Teller(notes_in_order, state, now_ms, place_of).tell()
    return tuple(sorted(happenings, key=lambda one: one.time_ms))


def _by_index(one: Noted) -> int:
    return one.index


class _Teller:
    """Goes along the notes of one work group, and knows at each of them where the message is."""

    def __init__(
        self,
        notes: Sequence[Noted],
        state: State | None,
        now_ms: int,
        place_of: Callable[[CopyPlace], Place | None],
    ) -> None:
        self._place_of = place_of
        self._notes = notes
        self._state = state
        self._now_ms = now_ms
        self._what = ""
        """The last thing that happened to it."""
        self._lease: Noted | None = None
        self._deliveries = 0
        self._receivers: dict[int, str] = {}

    def tell(self) -> Iterator[Happening]:
        for number, one in enumerate(self._notes):
            if self._is_over(one):
                yield self._lapse()
            if self._concerns(number, one):
                yield self._take(one)
        if self._lease is not None and self._lease.until_ms <= self._now_ms:
            yield self._lapse()
        state = self._state
        if state is not None and state.state == "dead" and self._what not in _DEAD:
            yield Happening(
                time_ms=state.until_ms or self._now_ms, what="died", group=state.group,
                deliveries=state.deliveries, detail=state.reason,
            )  # fmt: skip

    def _is_over(self, one: Noted) -> bool:
        """True if the lease had ended by then. Its receiver may still ack it."""
        lease = self._lease
        if lease is None or (one.epoch == lease.epoch and one.what not in LEASES):
            return False
        return one.what in LEASES or lease.until_ms <= one.time_ms

    def _lapse(self) -> Happening:
        assert self._lease is not None, "a lease is open"
        ended, self._lease, self._what = _lapsed(self._lease), None, "lease ended"
        return ended

    def _concerns(self, number: int, one: Noted) -> bool:
        """True if it changed this message: a command may name messages that it does not affect."""
        is_over, is_dead = self._what in _OVER, self._what in _DEAD
        match one.what:
            case "purged" | "closed" | "passed over":
                return not is_over
            case "covered":
                return not is_over and not is_dead
            case "rejected" if not one.epoch:
                return not is_over and not is_dead
            case "cancelled":
                return self._lease is None and not is_over and not is_dead
            case "buried" | "discarded":
                return self._lease is None and not is_over
            case "revived":
                return self._lease is None and not is_over and (is_dead or self._had_died(number))
            case _:
                return True

    def _had_died(self, number: int) -> bool:
        """Of a message that failed: it had, if its deliveries are counted anew from here on."""
        if self._what not in ("released", "lease ended") or not self._deliveries:
            return False
        following = next((one for one in self._notes[number + 1 :] if one.what in LEASES), None)
        if following is not None:
            return following.deliveries - (following.what == "delivered") < self._deliveries
        return self._state is not None and self._state.deliveries == 0

    def _take(self, one: Noted) -> Happening:
        if one.what in LEASES:
            self._lease, self._deliveries = one, one.deliveries
            self._receivers[one.epoch] = one.receiver
        elif one.what == "extended" and self._lease is not None:
            self._lease = msgspec.structs.replace(self._lease, until_ms=one.until_ms)
        elif one.what in _ENDS_LEASE:
            if self._lease is not None and self._lease.what == "taken" and one.what == "acked":
                one = msgspec.structs.replace(one, what="moved")
            self._lease = None
        if one.what != "too late":
            self._what = one.what
        receiver = self._receivers.get(one.epoch, "") if one.epoch else one.receiver
        return _happening(one, receiver, None if one.copy is None else self._place_of(one.copy))


def _lapsed(lease: Noted) -> Happening:
    return Happening(
        time_ms=lease.until_ms, what="lease ended", group=lease.group, receiver=lease.receiver
    )


def _happening(one: Noted, receiver: str, copy: Place | None) -> Happening:
    return Happening(
        time_ms=one.time_ms,
        what=one.what,
        group=one.group,
        receiver=receiver,
        deliveries=None if one.deliveries < 0 else one.deliveries,
        until_ms=None if one.until_ms < 0 else one.until_ms,
        detail=one.detail,
        index=one.index,
        copy=copy,
    )
