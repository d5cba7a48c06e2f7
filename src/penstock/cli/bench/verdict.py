"""The bottleneck of a load, by a few rules over a few numbers; the first rule that applies decides.

1. A rate was asked for, and at least 95 % of it was reached: *the rate*.
2. The receivers spent 85 % of their time in the work they pretend to do: *the work*.
3. A client process took 85 % of one core, on average: *the client*. Python runs on one core at a
   time, so a process cannot do much more. If the engine lives in that process: *this process*.
4. The broker's process took 85 % of one core: *the broker*, for the same reason.
5. 70 % of the time passed in fsync, in the shard that synced longest: *the disk*.
6. The processors of this machine were busy 95 % of the time: *the machine*, by any program.
7. Otherwise clients waited for an answer most of the time: *round trips*. More at a time is the
   cure. If the broker could not be asked, it may as well have been the broker or its disk.

Pure: numbers go in, a verdict with its sentence and its evidence comes out.
"""

from dataclasses import dataclass

from penstock.cli.quantities import show_time

RATE_KEPT = 0.95
BUSY = 0.85
DISK_BUSY = 0.70
MACHINE_BUSY = 0.95
SHORT_SECONDS = 1.0
"""A run below this says little: processor time is counted in hundredths of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The measurements between the end of the warm-up and the end of the load."""

    seconds: float
    client_share: float
    """The share of one core, on average over the client processes."""
    processes: int = 1
    loop_lag_seconds: float = 0.0
    """The delay of the clients' event loops, at the 99th percentile."""
    embedded: bool = False
    """Client and broker are one process."""
    broker_share: float | None = None
    """The share of one core; None if the broker could not be read."""
    nodes: int = 1
    """The number of nodes that were read; the numbers are those of the busiest."""
    disk_share: float | None = None
    syncs: int = 0
    sync_seconds: float = 0.0
    commit_seconds: float = 0.0
    unasked: str = ""
    """Why the broker could not be asked."""
    machine_share: float | None = None
    cure: str = "raise --batch, --clients or --processes"
    """The advice if no part was busy."""
    rate_asked: float | None = None
    rate_reached: float = 0.0
    work_share: float = 0.0
    """The share of the receivers' time spent in simulated work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The limit, the reason, and the numbers."""

    limit: str
    sentence: str
    evidence: tuple[str, ...]


def judge(found: Evidence) -> Verdict:
    """Return the bottleneck of a load: the client, the broker, the disk or nothing."""
    limit, sentence = _limit(found)
    return Verdict(limit=limit, sentence=sentence, evidence=_lines(found))


def _limit(found: Evidence) -> tuple[str, str]:
    if found.rate_asked is not None and found.rate_reached >= RATE_KEPT * found.rate_asked:
        return "rate", f"the rate you asked for, {found.rate_asked:,g} messages/s, which was kept"
    if found.work_share >= BUSY:
        return "work", (
            f"the work: the consumers spent {_percent(found.work_share)} of their time in it; raise"
            " --consumers or --processes"
        )
    if found.client_share >= BUSY:
        return _busy_client(found)
    if found.broker_share is not None and found.broker_share >= BUSY:
        return "broker", (
            f"the broker: its process took {_percent(found.broker_share)} of a core, and one is all"
            " that Python uses; larger batches cost it less, and more nodes share the work"
        )
    if found.disk_share is not None and found.disk_share >= DISK_BUSY:
        return "disk", (
            f"the disk: {_percent(found.disk_share)} of the time passed in fsync; larger batches"
            " and more clients share one, and a faster disk needs less"
        )
    if found.machine_share is not None and found.machine_share >= MACHINE_BUSY:
        return "machine", (
            f"this machine: its processors were busy {_percent(found.machine_share)} of the time,"
            " and no single process of this load explains it"
        )
    return _waiting(found)


def _busy_client(found: Evidence) -> tuple[str, str]:
    share = _percent(found.client_share)
    if found.embedded:
        return "process", (
            f"this process, which is client and broker in one: it took {share} of a core; a broker"
            " of its own (penstock serve) has a core of its own"
        )
    who = "the client" if found.processes == 1 else f"the {found.processes} client processes"
    each = "it" if found.processes == 1 else "each"
    also = ""
    if found.broker_share is not None and found.broker_share >= BUSY:
        also = f"; the broker was close to it, with {_percent(found.broker_share)}"
    return "client", f"{who}: {each} took {share} of a core; raise --processes or --batch{also}"


def _waiting(found: Evidence) -> tuple[str, str]:
    if found.embedded:
        return "round trips", (
            "the disk, or round trips: client and broker are one process here, and it was not busy;"
            f" {found.cure}"
        )
    if found.broker_share is None:
        return "not the client", (
            "not the client, which was not busy: the broker, its disk, or round trips. The broker"
            f" could not be asked: {found.unasked}"
        )
    return "round trips", f"round trips: neither client, broker nor disk was busy; {found.cure}"


def _lines(found: Evidence) -> tuple[str, ...]:
    lag = f"its loop late by {show_time(found.loop_lag_seconds)} at p99"
    if found.embedded:
        lines = [f"client and broker, one process: {_percent(found.client_share)} of a core, {lag}"]
    else:
        each = "" if found.processes == 1 else f" in each of {found.processes} processes"
        lines = [f"client: {_percent(found.client_share)} of a core{each}, {lag}"]
        if found.broker_share is None:
            lines.append(f"broker: could not be asked: {found.unasked}")
        else:
            whose = f", the busiest of {found.nodes} nodes" if found.nodes > 1 else ""
            lines.append(f"broker: {_percent(found.broker_share)} of a core{whose}")
    if found.disk_share is not None:
        line = f"disk: {_percent(found.disk_share)} of the time in fsync"
        if found.syncs:
            line += f", {found.syncs:,} of them, {show_time(found.sync_seconds)} each"
        if found.commit_seconds:
            line += f"; a commit took {show_time(found.commit_seconds)}"
        lines.append(line)
    if found.machine_share is not None:
        lines.append(f"this machine: {_percent(found.machine_share)} of all processors")
    if found.work_share:
        lines.append(f"work: {_percent(found.work_share)} of the consumers' time")
    if found.rate_asked is not None:
        reached = f"{found.rate_reached:,.0f} of {found.rate_asked:,g} messages/s"
        lines.append(f"rate: {reached} reached")
    if found.seconds < SHORT_SECONDS:
        lines.append(f"{show_time(found.seconds)} are short: the numbers are rough")
    return tuple(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
