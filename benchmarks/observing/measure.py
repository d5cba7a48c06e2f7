"""What metrics and dashboard cost: how fast one sends while somebody looks, and while nobody does.

One broker, one client. Stretches of sending take turns, quiet and observed, and the order of the
two is turned round every time, so that what gets slower by itself does so for both. What is
compared are neighbours, and the median of their ratios counts. There are as many queues as a busy
place has, with messages in them, so that there is something to see.

The onlooker is a process on the same machine and takes processor time away from the client, which
no Prometheus elsewhere would. What the broker itself spends on each message is the other number.
"""

import shutil
import statistics
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Production, Target
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import BYTES_MAX, MILLION, prepare_topic
from benchmarks.observing.onlooker import Looked, look_on, order
from benchmarks.report import KIB, Finding, Measured, Progress

QUEUES = 50
SECONDS = 6.0
SECONDS_QUICK = 3.0
PAIRS = 10
PAIRS_QUICK = 3
AIM_SHARE = 0.02
VALUE_BYTES = 1 * KIB
WARM_SECONDS = 2.0
QUIET, OBSERVED = "quiet", "observed"


def measure_observing(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: with and without."""
    pairs = PAIRS_QUICK if quick else PAIRS
    seconds = SECONDS_QUICK if quick else SECONDS
    rows: list[Measured] = []
    home = Path(directory) / "observing"
    with Penstock(home, 1) as system, ClientProcess() as client, ClientProcess() as onlooker:
        address = system.http[0]
        _make_queues(address)
        target = prepare_topic(system, client, "observed-messages")
        _stretch(system, client, target, WARM_SECONDS)
        for turn in range(pairs):
            ways = (QUIET, OBSERVED) if turn % 2 else (OBSERVED, QUIET)
            found: dict[str, Measured] = {}
            for way in ways:
                progress(f"observing: {way}, {turn + 1} of {pairs}")
                looking = None
                if way == OBSERVED:
                    looking = onlooker.begin(look_on, address, seconds)
                found[way] = _stretch(system, client, target, seconds)
                if looking is not None:
                    found[way] |= _seen(looking.result())
            rows.append(_compared(found))
    shutil.rmtree(home, ignore_errors=True)
    return [_finding(rows, pairs, seconds)]


def _make_queues(address: str) -> None:
    """Queues with something in them."""
    for number in range(QUEUES):
        name = f"queue-{number}"
        order(address, "/v1/queues", {"name": name, "partitions": 1})
        messages = [{"body": "an order that waits"}] * 10
        order(address, f"/v1/queues/{name}/messages", {"messages": messages})


def _stretch(system: Penstock, client: ClientProcess, target: Target, seconds: float) -> Measured:
    production = Production(
        target=target,
        value_bytes=VALUE_BYTES,
        seconds=seconds,
        messages_max=BYTES_MAX // VALUE_BYTES,
    )
    before = system.usage()
    moved = client.call(clients.produce, production)
    used = system.usage().cpu_seconds - before.cpu_seconds
    return {
        "messages_per_second": moved.per_second,
        "broker_cpu_seconds_per_million": used * MILLION / max(moved.messages, 1),
        "cpu_seconds_per_second": used / moved.seconds,
    }


def _seen(looked: Looked) -> Measured:
    return {
        "scrapes": looked.scrapes,
        "scrape_seconds_max": looked.scrape_seconds,
        "metric_lines": looked.lines,
        "pages": looked.pages,
    }


def _compared(found: dict[str, Measured]) -> Measured:
    row: Measured = {}
    for way, numbers in found.items():
        row |= {f"{way}_{name}": value for name, value in numbers.items()}
    for name in ("messages_per_second", "broker_cpu_seconds_per_million"):
        quiet, observed = found[QUIET][name], found[OBSERVED][name]
        assert not isinstance(quiet, str)
        assert not isinstance(observed, str)
        row[f"{name}_ratio"] = observed / quiet
    return row


def _median(rows: list[Measured], name: str) -> float:
    return statistics.median(float(row[name]) for row in rows)


def _finding(rows: list[Measured], pairs: int, seconds: float) -> Finding:
    ratio = _median(rows, "messages_per_second_ratio")
    spread = sorted(float(row["messages_per_second_ratio"]) for row in rows)
    cpu = _median(rows, "broker_cpu_seconds_per_million_ratio")
    table = [
        (
            way,
            f"{_median(rows, f'{way}_messages_per_second'):,.0f}",
            f"{_median(rows, f'{way}_broker_cpu_seconds_per_million'):.2f}",
        )
        for way in (QUIET, OBSERVED)
    ]
    compared = (
        f"observed to quiet, median of neighbours: {ratio:.3f} of the messages (from"
        f" {spread[0]:.3f} to {spread[-1]:.3f}), {cpu:.3f} of the processor time for each"
    )
    verdict = (
        f"that is {100 * (1 - ratio):+.1f} % fewer messages; the aim is under"
        f" {100 * AIM_SHARE:.0f} %"
    )
    looked = (
        f"{_median(rows, 'observed_metric_lines'):,.0f} lines of metrics every second, the slowest"
        f" in {max(float(row['observed_scrape_seconds_max']) for row in rows) * 1_000:.0f} ms;"
        f" {sum(float(row['observed_pages']) for row in rows):,.0f} pages"
    )
    return Finding(
        name="observing",
        title=f"One client sends, {QUEUES} queues, one node: medians of {pairs} pairs of"
        f" {seconds:g} s",
        columns=("", "messages/s", "broker CPU s/million"),
        rows=table,
        notes=(compared, verdict, looked),
        numbers=rows,
    )
