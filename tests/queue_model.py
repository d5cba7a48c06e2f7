"""A queue, said as simply as possible: every message by itself, all of them looked at each time.

The machine of `machines.work` has runs, a cursor, heaps and lines, so that millions of messages
cost little. The model has a dict. Whatever happens to both, they must agree: on every outcome, on
every count, on what may be handed out next, and on the whole state.

It is held against the machine by `tests/properties/test_queues.py`, which draws what happens, and
by the simulator, which carries out in it what the log of a whole cluster says.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.core.queue_rules import DEFAULT_PRIORITY, Dead, Priorities, QueueRules, WorkRules
from penstock.core.types import Offset
from penstock.core.verdicts import LATE, Outcome, Verdict
from penstock.machines.queue_commands import Settlement
from penstock.machines.retry_delay import retry_delay_ms
from penstock.machines.run import State
from penstock.machines.work import WorkGroup

WAITING = (State.READY, State.DELAYED)
View = dict[int, tuple[State, int, int, int]]
"""Of every message that is left: its state, until when, deliveries, and the epoch of its lease."""


@dataclass(slots=True)
class One:
    """A message that is not dealt with."""

    offset: int
    message_group: bytes | None = None
    level: int = DEFAULT_PRIORITY
    expire_ms: int = -1
    state: State = State.READY
    at_ms: int = -1
    deliveries: int = 0
    epoch: int = 0
    told: bool = True
    """What it says is known."""

    @property
    def turn(self) -> tuple[int, int, int]:
        """Where it stands among those that are ready."""
        return self.at_ms if self.at_ms >= 0 else self.offset, self.epoch, self.offset


@dataclass
class QueueModel:
    """One work group on one partition."""

    rules: QueueRules
    work: WorkRules
    epoch: int = 0
    recalled: int = 0
    recall_end: int = 0
    """From one to the other it does not know what messages say, and hands out nothing."""
    left: dict[int, One] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    covered_by: tuple[str, int] = ("", -1)
    """The last stream with a name that covered something, and its last batch."""
    requeues: bool = False
    """Whether a message whose delivery came to nothing goes behind those that wait."""
    end: Callable[[], int] = lambda: -1
    """The end of the partition."""

    # Messages come and go.

    def append(self, one: One, now_ms: int, *, delay_ms: int = 0) -> None:
        if delay_ms > 0:
            one.state, one.at_ms = State.DELAYED, now_ms + delay_ms
        self.left[one.offset] = one

    def recall(self, first: int, end: int, said: Iterable[One]) -> bool:
        """What messages say that were there before this group; of one that was looked at before, or
        that has died meanwhile, only its line counts."""
        if first != self.recalled or not first < end <= self.recall_end:
            return False
        for one in said:
            known = self.left.get(one.offset)
            if known is None:
                continue
            if known.told:
                known.message_group = (
                    known.message_group if one.message_group is None else one.message_group
                )
            else:
                self.left[one.offset] = one
        self.recalled = self._first_untold(end)
        return True

    def _first_untold(self, first: int) -> int:
        untold = (one.offset for one in self.left.values() if not (one.told and one.message_group))
        return min(offset for offset in [*untold, self.recall_end] if offset >= first)

    def use_rules(self, rules: QueueRules, end: int, looked_at: Container[int]) -> None:
        """Whoever stands in a line has to be told which: those that nobody has looked at are told
        of everything."""
        if rules.fifo and not self.rules.fifo:
            for one in self.left.values():
                one.told = one.offset in looked_at
            self.recall_end = end
            self.recalled = self._first_untold(0)
        self.rules = rules
        for one in self.left.values():
            self._line_up(one)

    def _line_up(self, one: One) -> None:
        """The living stand in a line, if only in the one without a name."""
        if self.rules.fifo and one.state is not State.DEAD:
            one.message_group = one.message_group or b""

    def drop_oldest(self) -> None:
        if self.rules.drops_oldest and self.rules.length_max >= 0:
            living = [one for one in self.left.values() if one.state is not State.DEAD]
            excess = len(living) - self.rules.length_max
            waiting = sorted(one.offset for one in living if one.state in WAITING)
            for offset in waiting[: max(excess, 0)]:
                self._finish(self.left[offset], "dropped")

    def turn(self, now_ms: int) -> None:
        for one in list(self.left.values()):
            if one.state is State.LEASED and one.at_ms <= now_ms:
                self._fail(one, now_ms, -1, one.at_ms if self.requeues else now_ms)
            elif one.state in WAITING and 0 <= one.expire_ms <= now_ms:
                self._finish(one, "expired")
            if one.state is State.DELAYED and one.at_ms <= now_ms:
                one.state, one.at_ms = State.READY, self._place() if one.deliveries else -1

    def _place(self) -> int:
        return self.end() if self.requeues else -1

    def trim(self, log_start: int) -> None:
        self.recalled = max(self.recalled, min(log_start, self.recall_end))
        for one in [one for one in self.left.values() if one.offset < log_start]:
            self._finish(one, "expired")

    # Leases.

    def lease(self, offsets: Sequence[int], until_ms: int, *, counts: bool = True) -> None:
        """Somebody got these messages."""
        self.epoch += bool(offsets)
        for offset in offsets:
            one = self.left[offset]
            one.state, one.at_ms, one.epoch = State.LEASED, until_ms, self.epoch
            one.deliveries += counts

    def settle(self, said: Settlement, now_ms: int) -> Outcome:
        for offset in range(said.first, said.end):
            one = self.left.get(offset)
            if one is None or one.state is State.DEAD:
                return Outcome.GONE
            late = said.verdict is Verdict.FINISH or (
                said.verdict is Verdict.EXTEND
                and said.reason == LATE
                and self.requeues
                and not self.rules.fifo
            )
            if not 0 < one.epoch == said.epoch or not (late or one.state is State.LEASED):
                return Outcome.STALE
        for offset in range(said.first, said.end):
            one = self.left[offset]
            match said.verdict:
                case Verdict.ACK | Verdict.FINISH:
                    self._finish(one, "acked")
                case Verdict.RELEASE:
                    self._fail(one, now_ms, said.delay_ms, now_ms)
                case Verdict.RETURN:
                    one.state, one.at_ms = State.READY, -1
                    one.deliveries -= 1
                case Verdict.REJECT:
                    self._die(one, now_ms)
                case Verdict.EXTEND:
                    one.state, one.at_ms = State.LEASED, now_ms + max(said.delay_ms, 0)
        return Outcome.DONE

    def _fail(self, one: One, now_ms: int, delay_ms: int, since_ms: int) -> None:
        if 0 < self.work.deliveries_max <= one.deliveries:
            self._die(one, now_ms)
        elif 0 <= one.expire_ms <= now_ms:
            self._finish(one, "expired")
        else:
            if delay_ms < 0:
                delay_ms = retry_delay_ms(self.work, one.deliveries, Offset(one.offset))
            one.state = State.DELAYED if delay_ms else State.READY
            one.at_ms = since_ms + delay_ms if delay_ms else self._place()

    def _die(self, one: One, now_ms: int) -> None:
        if self.work.dead is Dead.DISCARD:
            self._finish(one, "purged")
        else:
            one.state, one.at_ms = State.DEAD, now_ms

    def _finish(self, one: One, how: str) -> None:
        del self.left[one.offset]
        self.done[how] += 1

    def ack_cumulatively(
        self, first: int, end: int, dead: Iterable[int], now_ms: int, by: tuple[str, int]
    ) -> int:
        """A range is done, whoever has it, after these have died; of a stream's batch, once."""
        if by[0]:
            if self.covered_by[0] == by[0] and by[1] <= self.covered_by[1]:
                return 0
            self.covered_by = by
        count = 0
        for offset in dead:
            one = self.left.get(offset)
            if one is not None and one.state is not State.DEAD:
                one.deliveries += 1
                one.told = True
                self._line_up(one)
                self._die(one, now_ms)
                count += 1
        living = tuple(state for state in State if state is not State.DEAD)
        return count + self._take_out(range(first, end), living, "acked")

    # What people do.

    def remove_dead(self, offsets: Iterable[int], *, discarded: bool) -> int:
        return self._take_out(offsets, (State.DEAD,), "purged" if discarded else "moved")

    def cancel(self, offsets: Iterable[int]) -> int:
        return self._take_out(offsets, WAITING, "purged")

    def purge(self) -> int:
        self.recalled = self.recall_end
        return self._take_out(list(self.left), tuple(State), "purged")

    def requeue_dead(self, offsets: Iterable[int]) -> int:
        count = 0
        for offset in list(offsets) or list(self.left):
            one = self.left.get(offset)
            if one is not None and one.state is State.DEAD:
                one.state, one.at_ms, one.deliveries = State.READY, -1, 0
                self._line_up(one)
                count += 1
        return count

    def _take_out(self, offsets: Iterable[int], states: tuple[State, ...], how: str) -> int:
        count = 0
        for offset in offsets:
            one = self.left.get(offset)
            if one is not None and one.state in states:
                self._finish(one, how)
                count += 1
        return count

    # What may be handed out.

    def complaint(self, granted: Sequence[int], messages_max: int) -> str:
        """Why these messages, in this order, are not what should have been handed out; empty if
        they are. Their leases are not in the model yet."""
        ready = list(self.ready())
        by_offset = {one.offset: one for one in ready}
        if wrong := [offset for offset in granted if offset not in by_offset]:
            return f"{wrong} cannot be handed out: {[self.left.get(one) for one in wrong]}"
        if len(set(granted)) != len(granted):
            return "a message is handed out twice at once"
        leased = sum(one.state is State.LEASED for one in self.left.values())
        room = min(messages_max, self.work.in_flight_max - leased)
        if self.rules.paused or room <= 0 or self.recalled < self.recall_end:
            return f"nothing may be handed out, {granted} is" if granted else ""
        weighted = self.rules.priorities is Priorities.WEIGHTED
        if self.rules.fifo and weighted:
            if bool(granted) != bool(ready) or len(granted) > room:
                return f"{len(granted)} of {len(ready)} are handed out, {room} were asked for"
        elif len(granted) != min(room, len(ready)):
            return f"{len(granted)} of {len(ready)} are handed out, {room} were asked for"
        if not weighted and (expected := self._exactly(ready, room)) is not None:
            return "" if list(granted) == expected else f"{granted} come before {expected}"
        levels = sorted((one.level for one in ready), reverse=True)[: len(granted)]
        if not weighted and [by_offset[one].level for one in granted] != levels:
            return f"{granted} are not of the highest priorities"
        return self._out_of_line([by_offset[one] for one in granted], ready)

    def ready(self) -> Iterator[One]:
        """Messages that nobody and nothing holds back, by offset."""
        waiting = sorted(self.left.values(), key=lambda one: one.offset)
        if not self.rules.fifo:
            yield from (one for one in waiting if one.state is State.READY)
            return
        held = {one.message_group or b"" for one in waiting if one.state is State.LEASED}
        for one in waiting:
            message_group = one.message_group or b""
            if one.state is not State.DEAD and message_group not in held:
                if one.state is State.READY:
                    yield one
                else:
                    held.add(message_group)

    def _exactly(self, ready: list[One], room: int) -> list[int] | None:
        """The only right order, where there is one."""
        if self.rules.fifo:
            lines: dict[bytes, list[One]] = {}
            for one in ready:
                lines.setdefault(one.message_group or b"", []).append(one)
            fronts = sorted(lines.values(), key=lambda line: (-line[0].level, line[0].turn))
            return [one.offset for line in fronts for one in line][:room]
        if any(one.message_group is not None for one in ready):
            return None
        return [one.offset for one in sorted(ready, key=lambda one: (-one.level, one.turn))][:room]

    def _out_of_line(self, granted: list[One], ready: list[One]) -> str:
        """Whatever else counts: of one tenant and priority, or of one line, the first is first."""

        def place(one: One) -> tuple[bytes | None, int]:
            return (
                (one.message_group or b"", 0) if self.rules.fifo else (one.message_group, one.level)
            )

        if not self.rules.fifo:
            ready = sorted(ready, key=lambda one: one.turn)
        for where in {place(one) for one in granted}:
            got = [one.offset for one in granted if place(one) == where]
            line = [one.offset for one in ready if place(one) == where]
            if got != line[: len(got)]:
                return f"{got} come before {line[: len(got)]}"
        return ""

    # Comparing.

    def view(self) -> View:
        return {
            one.offset: (one.state, one.at_ms, one.deliveries, one.epoch)
            for one in self.left.values()
        }


def view_of(work: WorkGroup, end: int) -> View:
    """What a machine's work group says about every message it has left."""
    found: View = {}
    for run in work.runs_from(Offset(0)):
        for offset in range(run.first, run.end):
            assert offset not in found, f"{offset} is in two runs"
            found[offset] = (run.state, run.at_ms, run.deliveries, run.epoch)
    for offset in range(work.cursor, end):
        if work.is_waiting(Offset(offset)):
            assert offset not in found, f"{offset} waits and has a run"
            found[offset] = (State.READY, -1, 0, 0)
    return found


def unconserved(work: WorkGroup) -> str:
    """Whatever was offered to a work group is in one place; if not: what does not add up."""
    tally = work.tally
    places = work.ready + work.leased + work.delayed + work.dead + tally.total
    if work.sent == places and min(work.ready, work.leased, work.delayed, work.dead) >= 0:
        return ""
    return (
        f"{work.sent} were sent; {work.ready} ready, {work.leased} leased,"
        f" {work.delayed} delayed, {work.dead} dead, {tally}"
    )
