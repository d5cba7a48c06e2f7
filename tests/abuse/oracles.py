"""What must hold while a case runs and after it, and how that is measured.

stall        the slowest answer of the good client, less what is the machine's: how long the
             nodes' loops, and the proxy between them, waited for a processor meanwhile, and how
             long the same client waited at most for an echo server
memory       what the broker keeps when the storm is over, and its peak
log          bytes, by the minute
tracebacks   none
process      alive
elections    none, where there are several nodes
known set    complete after kill -9 and a restart (`known_set`)
"""

import asyncio
import contextlib
import re
import time
from dataclasses import dataclass, field, replace

from penstock.core.limits import ELECTION_TICKS, TICK_MS
from tests.abuse.registry import Broken, Case
from tests.abuse.target import MIB, RSS_BYTES_MAX, Sample, Target
from tests.cluster.waiting import wait_until

ANSWERED_WITHIN_SECONDS = 60.0
MACHINE_SECONDS_BUSY = 0.1
"""If the machine's share of an answer is longer than this, it is no judge of tenths of seconds."""
_TIMEOUT_SECONDS = ELECTION_TICKS * TICK_MS / 1_000
_HANDED_OVER = re.compile(r"leads in term \d+: .*handed over")
_LOG_LINE = re.compile(r"^\d\d:\d\d:\d\d", re.MULTILINE)


@dataclass(frozen=True)
class Bars:
    """How much of each may be."""

    stall_seconds: float = 0.25
    kept_bytes: int = 64 * MIB
    peak_bytes: int = 512 * MIB
    """What it may take for a moment: requests held, answers unsent and fetches have bounds, which
    together are below this."""
    log_bytes_per_minute: int = 1_000_000
    log_seconds_min: float = 10.0
    """A case that is shorter counts as so long: a few lines are not a rate."""
    settle_seconds: float = 8.0
    """How long memory may take to come back."""
    starved_seconds: float = 0.5
    """A node whose loop waits so long for a processor within an election timeout has missed
    heartbeats, or not sent them, by the machine's fault: elections do not count then."""


STRICT = Bars()
SHORT_ROUND = replace(STRICT, stall_seconds=1.0, settle_seconds=5.0)
"""Where the machine is shared with other tests, and a case has one try."""


@dataclass
class Outcome:
    """What one case did to the broker."""

    case: str
    group: str
    finding: str
    stall: float = 0.0
    machine: float = 0.0
    """The slowest echo meanwhile, and the broker's wait for a processor."""
    slowest: str = ""
    """The conversation that waited longest."""
    kept: int = 0
    peak: int = 0
    log_bytes: int = 0
    seconds: float = 0.0
    restart: float = 0.0
    elections: int = 0
    complaints: list[str] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return not self.complaints

    @property
    def only_slow(self) -> bool:
        """It missed bars of time and nothing else, and the machine had a part in it: worth another
        try."""
        return (
            bool(self.complaints)
            and all(one.startswith(("stall", "elections")) for one in self.complaints)
            and self.machine > MACHINE_SECONDS_BUSY
        )

    @property
    def is_ruined(self) -> bool:
        """The broker is not fit for another case."""
        return any(one.startswith(("memory", "a process", "mute")) for one in self.complaints)

    def describe(self) -> str:
        """One line of the table."""
        verdict = "holds" if self.held else "BREAKS"
        return (
            f"{self.finding or '-':<5} {self.group:<11} {self.case:<46} {verdict:<7}"
            f"{self.stall * 1000:7.0f} ms {self.slowest:<7}"
            f"{self.peak / MIB:+6.0f} {self.kept / MIB:+5.0f} MiB"
            f" {self.log_bytes / 1000:6.0f} kB {self.seconds:5.1f} s"
        )


async def judge(case: Case, target: Target, bars: Bars = STRICT) -> Outcome:
    """Carry out a case and measure."""
    outcome = Outcome(case.name, case.group, case.finding)
    if case.kept_mib:
        bars = replace(bars, kept_bytes=max(bars.kept_bytes, case.kept_mib * MIB))
    if case.stall_seconds:
        bars = replace(bars, stall_seconds=max(bars.stall_seconds, case.stall_seconds))
    terms = await target.terms()
    before = {number: gauge.now for number, gauge in target.watch.gauges.items()}
    positions = target.log_positions()
    target.watch.reset()
    began = time.monotonic()
    try:
        # One that is over its time has been bounded, and has done what it could.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(case.seconds):
                await case.attack(target)
    except Broken as error:
        outcome.complaints.append(str(error))
    except (OSError, EOFError, ValueError) as error:
        if target.is_alive():
            outcome.complaints.append(f"the attack itself failed: {error!r}")
    outcome.seconds = time.monotonic() - began
    _measure_stall(outcome, target, began, bars)
    _measure_memory(outcome, target, before, bars)
    await _count_elections(outcome, target, terms, positions)
    gauges = target.watch.all()
    starved = max(gauge.longest_wait(began, time.monotonic(), _TIMEOUT_SECONDS) for gauge in gauges)
    if outcome.elections and not case.elects and starved < bars.starved_seconds:
        outcome.complaints.append(f"elections: the shards' terms grew by {outcome.elections}")
    text = target.log_since(positions)
    outcome.log_bytes = len(text)
    minutes = max(time.monotonic() - began, bars.log_seconds_min) / 60
    if outcome.log_bytes > bars.log_bytes_per_minute * minutes:
        outcome.complaints.append(f"log: {outcome.log_bytes} bytes in {minutes * 60:.0f} s")
    if (count := text.count("Traceback (most recent call last)")) > 0:
        at = text.index("Traceback (most recent call last)")
        later = _LOG_LINE.search(text, at)
        shown = text[at : later.start() if later else at + 3_000][-1_500:]
        outcome.complaints.append(f"{count} tracebacks, the first:\n{shown}")
    if not target.is_alive() and case.kill_after:
        outcome.complaints.append(f"a process has ended\n{target.tail()}")
    return outcome


async def _count_elections(
    outcome: Outcome, target: Target, before: dict[int, int], positions: dict[int, int]
) -> None:
    """New terms, but for those in which a leader has handed over to a node that leads less."""
    after = await target.terms()
    new = sum(max(0, term - before.get(shard, term)) for shard, term in after.items())
    handed_over = len(_HANDED_OVER.findall(target.log_since(positions)))
    outcome.elections = max(0, new - handed_over)


def _measure_stall(outcome: Outcome, target: Target, began: float, bars: Bars) -> None:
    good = target.good
    if good is None:
        return
    ended = time.monotonic()

    def answered() -> bool:
        later = {sample.what for sample in good.since(ended) if sample.began >= began}
        return len(later) >= len(good.kinds) or not target.is_alive()

    try:
        wait_until(answered, "answers", seconds=ANSWERED_WITHIN_SECONDS)
    except AssertionError:
        mute = good.kinds - {sample.what for sample in good.since(ended)}
        outcome.complaints.append(
            f"mute: {', '.join(sorted(mute))}, for {ANSWERED_WITHIN_SECONDS:.0f} s after it"
        )
        outcome.stall = time.monotonic() - ended
        return
    samples = [sample for sample in good.since(began) if sample.began <= time.monotonic()]
    echoes = [sample.seconds for sample in samples if sample.what == "echo"]
    asked = [sample for sample in samples if sample.what != "echo"]
    echo = max(echoes, default=0.0)

    def machine_of(sample: Sample) -> float:
        # An answer passes through the nodes and the proxy between them one after the other.
        return echo + sum(gauge.waited(sample.began, sample.ended) for gauge in target.watch.all())

    def stall_of(sample: Sample) -> float:
        return sample.seconds - machine_of(sample)

    if asked:
        worst = max(asked, key=stall_of)
        outcome.machine = machine_of(worst)
        outcome.stall = max(0.0, stall_of(worst))
        outcome.slowest = worst.what
        if outcome.stall > bars.stall_seconds:
            failed = f", {worst.failures} tries failed: {worst.why}" if worst.failures else ""
            outcome.complaints.append(
                f"stall: {worst.what} waited {worst.seconds:.2f} s,"
                f" {outcome.machine:.2f} s of it for the machine{failed}"
            )


def _measure_memory(outcome: Outcome, target: Target, before: dict[int, int], bars: Bars) -> None:
    gauges = target.watch.gauges

    def kept() -> int:
        return max(gauge.now - before.get(number, 0) for number, gauge in gauges.items())

    with contextlib.suppress(AssertionError):
        wait_until(
            lambda: kept() <= bars.kept_bytes, "memory came back", seconds=bars.settle_seconds
        )
    outcome.kept = kept()
    outcome.peak = max(gauge.peak - before.get(number, 0) for number, gauge in gauges.items())
    if any(gauge.exceeded for gauge in gauges.values()):
        outcome.complaints.append(f"memory: over {RSS_BYTES_MAX // MIB} MiB, so it was killed")
    elif outcome.peak > bars.peak_bytes:
        outcome.complaints.append(f"memory: peak +{outcome.peak // MIB} MiB")
    if outcome.kept > bars.kept_bytes:
        outcome.complaints.append(f"memory: +{outcome.kept // MIB} MiB remain")
