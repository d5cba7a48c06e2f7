"""The report of a load: for people, for programs, and for plotters of HdrHistogram."""

from pathlib import Path

from penstock.cli.bench.histogram import LatencyHistogram, percentile_text
from penstock.cli.bench.run import Outcome
from penstock.cli.quantities import show_time
from penstock.client.descriptions import QueueStats
from penstock.core.errors import LocalError

EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))
VERBS = {
    "produce": "sent",
    "consume": "received and acknowledged",
    "latency": "sent and received",
    "queue": "sent, received and acknowledged",
}
NAMES = {
    "call": "each call",
    "send": "due to stored",
    "receive": "due to received",
    "done": "due to done",
}


def report_lines(outcome: Outcome) -> list[str]:
    """The report as lines of text."""
    found, load = outcome.found, outcome.load
    lines = []
    if outcome.interrupted:
        lines.append("interrupted; this is what was done until then")
    if found.problem:
        lines.append(f"ended early: {found.problem}")
    verb = VERBS[load.kind]
    lines.append(f"{found.counted:,} messages {verb} in {show_time(found.seconds)}")
    asked = f" of {load.rate:,g} asked for" if load.rate else ""
    lines.append(
        f"{outcome.rate:,.0f} messages/s{asked}, {outcome.rate * load.size_bytes / 1e6:,.1f} MB/s"
    )
    timed = [(NAMES[name], times) for name, times in _ordered(outcome)]
    width = max((len(name) for name, _ in timed), default=0)
    lines += [f"{name + ':':<{width + 1}} {sentence(times)}" for name, times in timed]
    if load.kind == "queue":
        lines += _life_lines(outcome)
    if found.foreign:
        lines.append(f"{found.foreign:,} messages of others came; they were put off, not touched")
    if outcome.verdict is not None:
        lines.append(f"limit: {outcome.verdict.sentence}")
        lines += [f"  {line}" for line in outcome.verdict.evidence]
    return lines + outcome.remarks


def _ordered(outcome: Outcome) -> list[tuple[str, LatencyHistogram]]:
    return [
        (name, outcome.found.histograms[name]) for name in NAMES if name in outcome.found.histograms
    ]


def _life_lines(outcome: Outcome) -> list[str]:
    book, stats = outcome.found.book, outcome.stats
    told = f"{book.stored_all:,} stored, {book.failed:,} failed at first"
    told += f", {book.redelivered:,} deliveries again, {book.twice:,} done twice or more"
    lines = [f"with the warm-up: {told}" if outcome.load.warm_up_seconds else told]
    if book.doubtful:
        lines.append(f"{book.doubtful:,} sent without an answer: they may be stored or not")
    if stats is None:
        lines.append(
            f"{book.undone:,} stored and not done; whether they are lost could not be checked"
        )
        return lines
    lines.append(f"in the queue in the end: {stats.depth:,}, dead: {_died(stats):,}")
    if outcome.lost:
        lines.append(f"LOST: {outcome.lost:,} messages were acknowledged and are nowhere")
    else:
        lines.append("nothing that was acknowledged is lost")
    return lines


def _died(stats: QueueStats) -> int:
    """Also those that were moved, whether they still are where they were moved to or not."""
    return stats.dead - stats.dead_lettered + stats.moved


def document(outcome: Outcome) -> dict[str, object]:
    """The report as a JSON document."""
    found, load, verdict = outcome.found, outcome.load, outcome.verdict
    result: dict[str, object] = {
        "load": load.kind,
        "queue": load.queue,
        "messages": found.counted,
        "seconds": found.seconds,
        "messages_per_second": outcome.rate,
        "megabytes_per_second": outcome.rate * load.size_bytes / 1e6,
        "rate": load.rate,
        "size_bytes": load.size_bytes,
        "batch": load.batch,
        "clients": load.clients,
        "processes": outcome.processes,
        "interrupted": outcome.interrupted,
        "problem": found.problem or None,
    }
    result |= {name: quantiles(times) for name, times in _ordered(outcome)}
    if load.kind == "queue":
        result["life"] = _life_document(outcome)
    if verdict is not None:
        result["limit"] = {
            "who": verdict.limit,
            "sentence": verdict.sentence,
            "evidence": list(verdict.evidence),
        }
    return result | {"remarks": outcome.remarks}


def _life_document(outcome: Outcome) -> dict[str, object]:
    book, stats = outcome.found.book, outcome.stats
    return {
        "consumers": outcome.load.consumers,
        "stored": book.stored_all,
        "doubtful": book.doubtful,
        "failed": book.failed,
        "redelivered": book.redelivered,
        "done_twice": book.twice,
        "undone": book.undone,
        "foreign": outcome.found.foreign,
        "depth": None if stats is None else stats.depth,
        "dead": None if stats is None else _died(stats),
        "lost": outcome.lost,
    }


def quantiles(times: LatencyHistogram) -> dict[str, float]:
    """For programs, in milliseconds."""
    found = {
        f"{name.replace('.', '')}_ms": times.quantile(share) * 1e3 for name, share in QUANTILES
    }
    return {"count": times.count, "mean_ms": times.mean * 1e3, **found, "max_ms": times.most * 1e3}


def sentence(times: LatencyHistogram) -> str:
    """The percentiles of a histogram as text."""
    found = [f"{name} {show_time(times.quantile(share))}" for name, share in QUANTILES]
    return ", ".join([*found, f"max {show_time(times.most)}"])


def check_writable(path: str) -> None:
    """Check that the file can be written before the measurement begins."""
    try:
        with open(path, "a", encoding="utf-8"):
            pass
    except OSError as error:
        raise LocalError(f"--hdr {path} cannot be written: {error.strerror}") from error


def write_distribution(path: str, outcome: Outcome) -> None:
    """The load's own latency, as HdrHistogram prints it."""
    times = outcome.found.histograms.get(outcome.main, LatencyHistogram())
    Path(path).write_text(percentile_text(times), "utf-8")


def exit_code(outcome: Outcome) -> int:
    """The exit code of the command; not 0 after an error, an interruption or a loss of messages."""
    if outcome.found.problem or outcome.lost:
        return EXIT_FAILED
    return EXIT_INTERRUPTED if outcome.interrupted else EXIT_DONE
