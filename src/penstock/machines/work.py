"""One work group on one partition: which messages are left to do, which are leased, and until when
(SQS's visibility timeout).

    opened ─────────── start ───────────── cursor ───────────── end of the partition
           all done          some left to        not looked at
                             do: runs            yet

A message is ready at first, without costing anything: everything from the cursor on is ready,
never delivered, and looks like every other. So ten million ready messages are one number. A message
that differs has a run (see `run`): leased, failed before, delayed, dead, or, because of what it
says itself (see `core.delivery_headers`), to be delivered out of the order of offsets. Such
messages may lie beyond the cursor, which then skips them.

A group that is opened at an old offset does not know what the messages there say: they were looked
at when they were appended, and it was not there. Where the rules ask for it, it delivers nothing
until they have been read for it (`recall`), piece by piece, by the leader.

Time is log time and comes in with each command. What is due (leases, delays, expiry) happens before
the command itself, a bounded number of steps at a time.

Conservation: whatever was offered to the group is in exactly one place.

    sent = ready + leased + delayed + dead
           + acked + moved + expired + purged + dropped + duplicates

Long because whatever changes a run must keep sizes, timers, order and cursor in step with it.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from penstock.core.limits import (
    CUMULATIVE_ACK_STEPS_MAX,
    DEAD_REASON_CHARACTERS_MAX,
    LEASE_MS_MAX,
    TURN_STEPS_MAX,
)
from penstock.core.queue_rules import Dead, Priorities, QueueRules, WorkRules
from penstock.core.types import Offset
from penstock.core.verdicts import LATE, Outcome, Verdict
from penstock.machines.activity import (
    DIED_IN_READING,
    DIED_OF_DELIVERIES,
    DIED_OF_REJECTION,
    Activity,
)
from penstock.machines.cursor import Cursor
from penstock.machines.queue_commands import Settlement
from penstock.machines.retry_delay import retry_delay_ms
from penstock.machines.run import WAITING, Run, State, describe_offsets
from penstock.machines.run_table import RunTable
from penstock.machines.state_bytes import ByteCount
from penstock.machines.state_pieces import encoded
from penstock.machines.timers import Timers
from penstock.machines.turn_order import Order, Turns, make_order
from penstock.machines.work_records import DeadMessage, GrantedRun, Tally, WorkCopy, WorkRecord

DELIVERIES_REASON = "too many deliveries"


class WorkGroup:
    """`end` is the partition's next offset, asked for when needed; `total` counts the bytes of the
    runs and skips of all groups."""

    def __init__(
        self,
        opened: Offset,
        rules: WorkRules,
        queue: QueueRules,
        end: Callable[[], Offset],
        total: ByteCount | None = None,
    ) -> None:
        self.rules = rules
        self.queue = queue
        self.opened = opened
        self.epoch = 0
        self.tally = Tally()
        self.activity = Activity()
        """For people; no snapshot has it."""
        self.alarm_ms: int | None = None
        """When the machine means to look here, whatever happens."""
        self.requeues = False
        """Whether a message whose delivery came to nothing goes behind those that wait, and a lease
        may be extended late (`LATE`). Neither is so below `REQUEUE_VERSION` of the machine."""
        self._end = end
        self._total = ByteCount() if total is None else total
        self._runs = RunTable(self._total)
        self._cursor = Cursor(opened, end, total=self._total)
        self._turns = Turns()
        self._timers = Timers(self._runs)
        self._dead: dict[Offset, None] = {}
        self._sizes = dict.fromkeys(State, 0)
        self._order: Order = make_order(self._runs, fifo=queue.fifo)
        self.recalled = opened
        """Up to here it knows what messages say; those from `recall_end` on it saw coming."""
        self.stream, self.batch = "", -1
        """The last stream with a name that acked cumulatively, and its last batch."""
        self.recall_end = end() if queue.reads_messages else opened

    # Questions.

    @property
    def cursor(self) -> Offset:
        """No message from here on has a run of its own, but for those that it skips."""
        return self._cursor.position

    @property
    def has_skips(self) -> bool:
        """The cursor skips messages that lie ahead."""
        return self._cursor.has_skips

    @property
    def start(self) -> Offset:
        """Everything below is dealt with."""
        if len(self._runs):
            first: Offset = self._runs.peekitem(0)[0]
            return min(first, self.cursor)
        return self.cursor

    @property
    def waiting(self) -> int:
        """Messages that wait at the cursor and have no run."""
        return self._cursor.waiting

    @property
    def ready(self) -> int:
        """Messages that could be delivered now, but for the order and the bounds."""
        return self.waiting + self._sizes[State.READY]

    @property
    def leased(self) -> int:
        return self._sizes[State.LEASED]

    @property
    def delayed(self) -> int:
        return self._sizes[State.DELAYED]

    @property
    def dead(self) -> int:
        return self._sizes[State.DEAD]

    @property
    def sent(self) -> int:
        """Everything that was ever offered to this group."""
        return self._end() - self.opened

    @property
    def living(self) -> int:
        """What is left to do; the dead do not count."""
        return self.ready + self.leased + self.delayed

    def lease_ms(self, asked_ms: int) -> int:
        """How long a lease lasts for which so long was asked; -1: as long as the rules say."""
        return min(self.rules.lease_ms if asked_ms < 0 else asked_ms, LEASE_MS_MAX)

    @property
    def is_recalling(self) -> bool:
        """It needs the headers of messages before it can deliver any."""
        return self.recalled < self.recall_end

    @property
    def is_held(self) -> bool:
        """Nothing is delivered, whatever there is."""
        return self.queue.paused or self.is_recalling

    def due_ms(self) -> int | None:
        """When something happens by itself, next."""
        return self._timers.due_ms()

    def has_ready(self) -> bool:
        """An acquire might get something."""
        if self.is_held or self.leased >= self.rules.in_flight_max:
            return False
        return self.ready > 0 and bool(self._order.levels(self._cursor.next))

    def run_at(self, offset: Offset) -> Run | None:
        """The run that holds a message, if one does."""
        run: Run | None = self._runs.get(offset)
        if run is not None:
            return run
        index = self._runs.bisect_right(offset) - 1
        if index < 0:
            return None
        run = self._runs.peekitem(index)[1]
        return run if offset < run.end else None

    def is_waiting(self, offset: Offset) -> bool:
        """Whether this message waits at the cursor and has no run."""
        return self._cursor.covers(offset)

    def runs_from(self, offset: Offset) -> Iterator[Run]:
        """The runs that have something at or after an offset, in order. Not to be changed."""
        index = self._runs.bisect_right(offset) - 1
        for first in self._runs.islice(max(index, 0)):
            run: Run = self._runs[first]
            if run.end > offset:
                yield run

    def describe(self, pieces_max: int = 8) -> str:
        """`start 0 cursor 3 end 9: [0-2 leased until 31000 epoch 1 deliveries 1] 3-8 ready`.

        Each run is in brackets; messages without brackets are ready and cost nothing."""
        stretches = list(self._cursor.stretches())
        pieces = [
            *(
                (run.first, f"[{run.describe()}]")
                for run in islice(self._runs.values(), pieces_max)
            ),
            *(
                (first, f"{describe_offsets(first, end)} ready")
                for first, end in stretches[:pieces_max]
            ),
        ]
        texts = [text for _, text in sorted(pieces)[:pieces_max]] or ["nothing left"]
        if (more := len(self._runs) + len(stretches) - len(texts)) > 0:
            texts.append(f"and {more} more")
        place = f"start {self.start} cursor {self.cursor} end {self._end()}"
        done = "".join(
            f", {count} {name}"
            for name, count in msgspec.structs.asdict(self.tally).items()
            if count
        )
        held = ", paused" if self.queue.paused else ""
        if self.is_recalling:
            held += f", must read {describe_offsets(self.recalled, self.recall_end)} first"
        return f"{place}: {' '.join(texts)}{done}{held}"

    def dead_offsets(self, limit: int) -> list[DeadMessage]:
        """Messages that failed for good, those that died first first."""
        found: list[DeadMessage] = []
        for first in self._dead:
            run = self._runs[first]
            for offset in range(run.first, run.end):
                if len(found) == limit:
                    return found
                found.append(
                    DeadMessage(
                        Offset(offset),
                        run.deliveries,
                        run.first_ms,
                        run.at_ms,
                        run.epoch,
                        run.reason,
                    )
                )
        return found

    # Messages come.

    def add(
        self,
        runs: Iterable[Run],
        duplicates: Iterable[Offset],
        skipped: Iterable[tuple[Offset, Offset]] = (),
    ) -> None:
        """Messages were appended that are not like all others; the runs are this group's own, and
        what is skipped is not delivered."""
        for run in runs:
            if run.first >= self.cursor:
                self._cursor.skip(run.first, run.end)
                self._put(run)
        for offset in duplicates:
            if offset >= self.cursor:
                self._cursor.skip(offset, Offset(offset + 1))
                self.tally.duplicates += 1
        for first, end in skipped:
            if first >= self.cursor:
                self._cursor.skip(first, end)
                self.tally.dropped += end - first

    def recall(self, first: Offset, end: Offset, runs: Iterable[Run]) -> bool:
        """Take over the delivery headers of messages that are older than this group, or older than
        its FIFO rules; False if another range is due. Each run is one message."""
        if first != self.recalled or not first < end <= self.recall_end:
            return False
        for run in runs:
            if self.is_waiting(run.first):
                self.add((run,), ())
            elif run.message_group is not None and self.run_at(run.first) is not None:
                for one in self._cut_out(run.first, run.end):
                    self._change_message_group(one, run.message_group)
        self.recalled = self._first_untold(end)
        return True

    def _first_untold(self, offset: Offset) -> Offset:
        """The first message from here on whose headers are not known yet: it was never looked at,
        or its message group is missing."""
        found = min(self._cursor.next_from(offset), self.recall_end)
        for run in self.runs_from(offset):
            if run.first >= found:
                break
            if not run.message_group:
                return max(run.first, offset)
        return found

    def _change_message_group(self, run: Run, message_group: bytes) -> None:
        """Put a message into its message group, which had no meaning when it was appended. A lease
        of it stays, and holds up the group."""
        if run.message_group == message_group or run.state is State.DEAD:
            self._runs.set_message_group(run, message_group)
            return
        if run.state is State.LEASED:
            self._order.returned(run)
        self._order.left(run)
        self._runs.set_message_group(run, message_group)
        self._order.came(run)

    def drop_oldest(self, living_max: int) -> None:
        """Make room: remove the oldest messages that are not leased."""
        excess = self.living - living_max
        while excess > 0:
            run = next((run for run in self._runs.values() if run.state in WAITING), None)
            if self.waiting and (run is None or self.cursor < run.first):
                excess -= self._drop_at_cursor(excess)
                continue
            if run is None:
                return  # Everything is leased.
            if run.length > excess:
                self._split(run, Offset(run.first + excess))
            excess -= run.length
            self._remove(run)
            self.tally.dropped += run.length

    def _drop_at_cursor(self, most: int) -> int:
        first, end = self._cursor.take(most)
        self.tally.dropped += end - first
        return end - first

    # Time passes.

    def turn(self, now_ms: int, steps_max: int = TURN_STEPS_MAX) -> tuple[int, bool]:
        """What is due happens: leases and delays end, messages expire. How many steps that took,
        and whether some messages are ready."""
        readied, steps = False, 0
        while steps < steps_max:
            due = self._timers.pop(now_ms)
            if due is None:
                break
            steps += 1
            at_ms, run = due
            if run.expire_ms == at_ms and run.state in WAITING:
                self._remove(run)
                self.tally.expired += run.length
                self.activity.expired += run.length
                readied = readied or self.queue.fifo  # The next of its message group may go.
            elif run.state is State.LEASED:
                # The wait before the retry begins when the lease ends, not when it is noticed.
                self.activity.lease_expired += run.length
                self._fail(run, now_ms, delay_ms=-1, since_ms=at_ms if self.requeues else now_ms)
                readied = True
            elif run.state is State.DELAYED:
                self._set(run, State.READY, self._place() if run.deliveries else -1)
                self._order.readied(run)
                readied = True
        return steps, readied

    # Leasing.

    def acquire(
        self, messages_max: int, lease_ms: int, now_ms: int, offsets: tuple[Offset, ...] = ()
    ) -> tuple[int, list[GrantedRun]]:
        """Lease up to so many messages: the epoch of the lease, and what it covers, in order. With
        offsets, these and no others, which is no delivery."""
        room = min(messages_max, self.rules.in_flight_max - self.leased)
        granted: list[GrantedRun] = []
        if self.is_recalling or (self.queue.paused and not offsets) or room <= 0:
            return self.epoch, granted
        until_ms = now_ms + self.lease_ms(lease_ms)
        epoch = self.epoch + 1
        for run in self._pick(offsets[:room]) if offsets else self._choose(room, now_ms):
            self._runs.changing(run)
            run.epoch = epoch
            run.deliveries += not offsets
            if not offsets:
                self._count_lease(run)
            if run.first_ms < 0:
                run.first_ms = now_ms
            if granted and _continues(granted[-1], run):
                last = granted[-1]
                granted[-1] = last._replace(end=run.end)
            else:
                granted.append(GrantedRun(run.first, run.end, run.deliveries, run.first_ms))
            self._set(run, State.LEASED, until_ms)
            self._order.leased(run)
        if granted:
            self.epoch = epoch
        return self.epoch, granted

    def _count_lease(self, run: Run) -> None:
        self.activity.delivered += run.length
        if run.deliveries > 1:
            self.activity.redelivered += run.length

    def _pick(self, offsets: Iterable[Offset]) -> Iterator[Run]:
        """Of these messages those that are not leased and that no message group holds back."""
        message_groups: set[bytes | None] = set()
        for offset in offsets:
            run = self.run_at(offset)
            if run is None and self.is_waiting(offset):
                self._cursor.skip(offset, Offset(offset + 1))
                run = Run(offset, 1, State.READY)
                self._put(run, ordered=False)
            elif run is None or run.state not in WAITING:
                continue
            if run.message_group not in message_groups and self._order.is_held(run):
                continue
            message_groups.add(run.message_group)
            yield from self._cut_out(offset, Offset(offset + 1))

    def _choose(self, room: int, now_ms: int) -> Iterator[Run]:
        """Ready runs, in turn; the caller leases each before it asks for the next."""
        while room > 0:
            cursor = self._cursor.next
            levels = self._order.levels(cursor)
            if not levels:
                return
            level = self._turns.choose(levels, self.queue.priorities)
            one_by_one = self.queue.priorities is Priorities.WEIGHTED and len(levels) > 1
            most = 1 if one_by_one else room
            taken = self._order.take(level, most, cursor)
            if taken is None:
                first, end = self._cursor.take(most)
                run = Run(first, end - first, State.READY)
                self._put(run, ordered=False)
                room -= run.length
                yield run
                continue
            for run in taken:
                if 0 <= run.expire_ms <= now_ms:
                    self._remove(run)
                    self.tally.expired += run.length
                    self.activity.expired += run.length
                    continue
                if run.length > most:
                    self._split(run, Offset(run.first + most))
                room -= run.length
                yield run

    # Settling.

    def settle(self, one: Settlement, now_ms: int) -> Outcome:
        """Carry out a verdict, on all of its messages or on none."""
        outcome = self._look_up(one, now_ms)
        if outcome is not Outcome.DONE:
            return outcome
        for run in self._cut_out(one.first, one.end):
            match one.verdict:
                case Verdict.ACK | Verdict.FINISH:
                    if run.state is State.LEASED:
                        self._order.returned(run)
                    self._remove(run)
                    self.tally.acked += run.length
                    self._count_ack(run, now_ms)
                case Verdict.RELEASE:
                    delay_ms = min(one.delay_ms, LEASE_MS_MAX)
                    self.activity.released += run.length
                    reason = one.reason if self.requeues else ""
                    self._fail(run, now_ms, delay_ms=delay_ms, since_ms=now_ms, reason=reason)
                case Verdict.RETURN:
                    self._runs.changing(run)
                    run.deliveries -= 1
                    if not run.deliveries:
                        run.first_ms = -1
                    self._set(run, State.READY, -1)
                    self._order.returned(run)
                    self._order.readied(run)
                case Verdict.REJECT:
                    self.activity.rejected += run.length
                    self._die(run, now_ms, one.reason, DIED_OF_REJECTION)
                case Verdict.EXTEND:
                    until_ms = now_ms + min(max(one.delay_ms, 0), LEASE_MS_MAX)
                    was_over = run.state is not State.LEASED
                    self._set(run, State.LEASED, until_ms)
                    if was_over:
                        self._order.leased(run)
        return Outcome.DONE

    def _look_up(self, one: Settlement, now_ms: int) -> Outcome:
        """Whether this lease covers all these messages."""
        offset = one.first
        while offset < one.end:
            run = self.run_at(offset)
            if run is None:
                return Outcome.STALE if self.is_waiting(offset) else Outcome.GONE
            held = run.state is State.LEASED and run.at_ms > now_ms
            if one.verdict is Verdict.FINISH or self._may_be_late(one):
                held = run.state is not State.DEAD and run.epoch > 0
            if not held or run.epoch != one.epoch:
                return Outcome.GONE if run.state is State.DEAD else Outcome.STALE
            offset = run.end
        return Outcome.DONE

    def _may_be_late(self, one: Settlement) -> bool:
        """Whether an extension counts although the lease has ended. Not in a FIFO queue: messages
        behind this one may be leased by now."""
        late = one.verdict is Verdict.EXTEND and one.reason == LATE
        return late and self.requeues and not self.queue.fifo

    def _count_ack(self, run: Run, now_ms: int) -> None:
        self.activity.acked += run.length
        if run.deliveries == 1 and run.first_ms >= 0:
            self.activity.times.observe((now_ms - run.first_ms) / 1_000, run.length)

    def _fail(
        self, run: Run, now_ms: int, *, delay_ms: int, since_ms: int, reason: str = ""
    ) -> None:
        """A delivery came to nothing: another one, some time, or none any more."""
        limit = self.rules.deliveries_max
        if 0 < limit <= run.deliveries:
            # The last failure is what its reader wants to know.
            reason = f"{DELIVERIES_REASON}: {reason}" if reason else DELIVERIES_REASON
            self._die(run, now_ms, reason[:DEAD_REASON_CHARACTERS_MAX], DIED_OF_DELIVERIES)
            return
        if 0 <= run.expire_ms <= now_ms:
            self._order.returned(run)
            self._remove(run)
            self.tally.expired += run.length
            self.activity.expired += run.length
            return
        if delay_ms < 0:
            delay_ms = retry_delay_ms(self.rules, run.deliveries, run.first)
        if delay_ms:
            self._set(run, State.DELAYED, since_ms + delay_ms)
            self._order.returned(run)
        else:
            self._set(run, State.READY, self._place())
            self._order.returned(run)
            self._order.readied(run)

    def _place(self) -> int:
        """What `at_ms` of a run becomes that is ready again."""
        return self._end() if self.requeues else -1

    def _die(self, run: Run, now_ms: int, reason: str, died_of: str) -> None:
        leased = run.state is State.LEASED
        if self.rules.dead is Dead.DISCARD:
            if leased:
                self._order.returned(run)
            self._remove(run)
            self.tally.purged += run.length
            self.activity.discarded += run.length
            return
        self.activity.dead[died_of] += run.length
        self._runs.set_reason(run, reason)
        self._set(run, State.DEAD, now_ms)
        if leased:
            self._order.returned(run)
        self._order.left(run)
        self._dead[run.first] = None

    # Cumulative acks.

    def ack_cumulatively(
        self,
        first: Offset,
        end: Offset,
        dead: Iterable[tuple[Offset, str]],
        now_ms: int,
        steps: int = CUMULATIVE_ACK_STEPS_MAX,
    ) -> tuple[int, Offset]:
        """A reader of the log has processed a range: after `dead` have died, all of it is done,
        also messages that are leased or delayed. Those that are done or dead already stay so.
        Returns how many messages that concerned and how far it got, in so many steps."""
        count = sum(self._kill(offset, reason, now_ms) for offset, reason in dead)
        met = list(islice(self.runs_from(first), steps + 1))
        if len(met) > steps and met[-1].first < end:
            end = met[-1].first
        passed, end = self._cursor.pass_over(first, end, steps)
        for run in met:
            low, high = max(run.first, first), min(run.end, end)
            if low >= high or run.state is State.DEAD:
                continue
            for one in self._cut_out(Offset(low), Offset(high)):
                if one.state is State.LEASED:
                    self._order.returned(one)
                self._remove(one)
                passed += one.length
        self.tally.acked += passed
        self.activity.acked += passed
        return count + passed, max(first, end)

    def _kill(self, offset: Offset, reason: str, now_ms: int) -> bool:
        """It failed where the log is read: that was a delivery, and the last one."""
        run = self.run_at(offset)
        if run is None:
            if not self.is_waiting(offset):
                return False
            self._cursor.skip(offset, Offset(offset + 1))
            self._put(Run(offset, 1, State.READY))
        elif run.state is State.DEAD:
            return False
        for one in self._cut_out(offset, Offset(offset + 1)):
            self._runs.changing(one)
            one.deliveries += 1
            self.activity.read_failed += one.length
            if one.first_ms < 0:
                one.first_ms = now_ms
            self._die(one, now_ms, reason, DIED_IN_READING)
        return True

    # What people do.

    def remove_dead(self, offsets: Iterable[Offset], *, discarded: bool) -> int:
        """Dead messages have been moved away, or are not wanted; how many that were."""
        count = 0
        for offset in offsets:
            run = self.run_at(offset)
            if run is not None and run.state is State.DEAD:
                for one in self._cut_out(offset, Offset(offset + 1)):
                    self._remove(one)
                count += 1
        if discarded:
            self.tally.purged += count
        else:
            self.tally.moved += count
            self.activity.moved += count
        return count

    def requeue_dead(self, offsets: Iterable[Offset]) -> int:
        """Deliver dead messages anew, as if for the first time; none named: all."""
        chosen = list(offsets) or [offset for offset, *_ in self.dead_offsets(self.dead)]
        count = 0
        for offset in chosen:
            run = self.run_at(offset)
            if run is None or run.state is not State.DEAD:
                continue
            for one in self._cut_out(offset, Offset(offset + 1)):
                del self._dead[one.first]
                self._runs.set_reason(one, "")
                one.deliveries, one.first_ms = 0, -1
                self._set(one, State.READY, -1)
                self._order.came(one)
                count += 1
        return count

    def cancel(self, offsets: Iterable[Offset]) -> int:
        """Cancel messages that are not leased."""
        count = 0
        for offset in offsets:
            run = self.run_at(offset)
            if run is not None:
                if run.state not in WAITING:
                    continue
                for one in self._cut_out(offset, Offset(offset + 1)):
                    self._remove(one)
            elif self.is_waiting(offset):
                self._cursor.skip(offset, Offset(offset + 1))
            else:
                continue
            count += 1
        self.tally.purged += count
        return count

    def purge(self) -> int:
        """Drop everything."""
        count = self.living + self.dead
        self.tally.purged += count
        self._forget_all()
        self.recalled = max(self.recalled, self.recall_end)
        return count

    def trim(self, log_start: Offset) -> None:
        """Messages before this offset exist no more."""
        while len(self._runs) and self._runs.peekitem(0)[0] < log_start:
            run: Run = self._runs.peekitem(0)[1]
            if run.end > log_start:
                self._split(run, log_start)
            if run.state is State.LEASED:
                self._order.returned(run)
            self._remove(run)
            self.tally.expired += run.length
        while self.cursor < log_start and self._cursor.next is not None:
            first, end = self._cursor.take(log_start - self.cursor)
            self.tally.expired += end - first
        self.recalled = max(self.recalled, min(log_start, self.recall_end))

    # The group itself.

    def use_rules(self, queue: QueueRules) -> None:
        """The partition's rules have changed. A queue that becomes FIFO looks again at everything
        whose line it does not know; other rules count for what comes from now on."""
        anew = queue.fifo != self.queue.fifo
        self.queue = queue
        if anew:
            for run in self._runs.values():
                self._runs.changing(run)  # An order writes the names of groups into runs.
            if queue.fifo:
                self._stand_singly()
                self.recall_end = self._end()
                self.recalled = self._first_untold(self.start)
            self._order = make_order(self._runs, fifo=queue.fifo)

    def _stand_singly(self) -> None:
        """Lines are of single messages."""
        for run in [run for run in self._runs.values() if run.length > 1]:
            rest = run
            while rest.length > 1:
                self._runs.changing(rest)
                following = rest.split_off(Offset(rest.first + 1))
                self._runs.put(following)
                if following.state is State.DEAD:
                    self._dead[following.first] = None
                self._timers.watch(following)
                rest = following

    def give_up(self) -> None:
        """The group is closed: its runs and skips count no more."""
        self._runs.give_up()
        self._cursor.give_up()

    def copy_on_write(self) -> WorkCopy:
        """Begin a copy for a snapshot, which `end_copy` ends."""
        head = encoded(
            self.rules, self.opened, self.cursor, self.epoch, self.tally, self._turns.credits
        )
        tail = encoded(self.recalled, self.recall_end, self.stream, self.batch)
        return WorkCopy(self._runs, head, self._cursor.copy_skips(), tail)

    @classmethod
    def restore(
        cls,
        record: WorkRecord,
        queue: QueueRules,
        end: Callable[[], Offset],
        total: ByteCount | None = None,
        *,
        requeues: bool = False,
    ) -> "WorkGroup":
        """A work group out of a snapshot."""
        work = cls(record.opened, record.rules, queue, lambda: record.opened, total)
        work.requeues = requeues
        work._end = end
        work._cursor = Cursor(record.cursor, end, record.skips, work._total)
        work.epoch, work.tally = record.epoch, record.tally
        work.recalled, work.recall_end = record.recalled, record.recall_end
        work.stream, work.batch = record.stream, record.batch
        work._turns = Turns(record.credits)
        work._runs.put_all(record.runs)
        for run in record.runs:
            work._sizes[run.state] += run.length
        work._timers.watch_all(record.runs)
        dead = [run for run in record.runs if run.state is State.DEAD]
        work._dead = {run.first: None for run in sorted(dead, key=lambda run: run.at_ms)}
        work._order = make_order(work._runs, fifo=queue.fifo)
        return work

    # Runs.

    def _put(self, run: Run, *, ordered: bool = True) -> None:
        self._runs.put(run)
        self._sizes[run.state] += run.length
        self._timers.watch(run)
        if ordered:
            self._order.came(run)

    def _set(self, run: Run, state: State, at_ms: int) -> None:
        """Change a run's state and its time."""
        self._sizes[run.state] -= run.length
        self._sizes[state] += run.length
        self._runs.changing(run)
        run.state, run.at_ms = state, at_ms
        if state is not State.DEAD:
            self._timers.watch(run)

    def _remove(self, run: Run) -> None:
        """The run is dealt with."""
        self._runs.remove(run)
        self._sizes[run.state] -= run.length
        if run.state is State.DEAD:
            del self._dead[run.first]
        else:
            self._order.left(run)

    def _cut_out(self, first: Offset, end: Offset) -> list[Run]:
        """The runs that make up exactly this range; what sticks out is split off."""
        cut: list[Run] = []
        while first < end:
            run = self.run_at(first)
            assert run is not None, f"there is no run at {first}"
            if run.first < first:
                run = self._split(run, first)
            if run.end > end:
                self._split(run, end)
            cut.append(run)
            first = run.end
        return cut

    def _split(self, run: Run, at: Offset) -> Run:
        self._runs.changing(run)
        rest = run.split_off(at)
        self._runs.put(rest)
        if rest.state is State.DEAD:
            self._dead[at] = None
        else:
            self._timers.watch(rest)
            self._order.was_split(run, rest)
        return rest

    def _forget_all(self) -> None:
        self._runs.give_up()
        self._runs = RunTable(self._total)
        self._timers = Timers(self._runs)
        self._cursor.jump_to_end()
        self._dead.clear()
        self._sizes = dict.fromkeys(State, 0)
        self._order = make_order(self._runs, fifo=self.queue.fifo)


def _continues(last: GrantedRun, run: Run) -> bool:
    return (
        last.end == run.first
        and last.deliveries == run.deliveries
        and last.first_ms == run.first_ms
    )
