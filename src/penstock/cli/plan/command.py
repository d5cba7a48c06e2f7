"""`penstock plan`: how many workers, partitions, nodes and dollars a queue needs, and why.

Numbers come from `capacity.py`, `economics.py` and `advice.py`, which are pure; here they are
put into sentences. Nothing is asked of a broker.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated

import msgspec
from cyclopts import CycloptsError, Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from penstock.cli.admin import Json, print_json
from penstock.cli.cluster.rates import DEAD_CRITICAL, DEPTH_WARNING, LAG_ATTENTION, LAG_CRITICAL
from penstock.cli.plan import measurements as measured
from penstock.cli.plan.advice import (
    GUARANTEES,
    NON_USES,
    SYSTEMS,
    fits,
    guarantee_advice,
    kind_advice,
    objections,
)
from penstock.cli.plan.capacity import Demand, Plan, Staffing, make_plan
from penstock.cli.plan.choices import Chosen, choose, recommendation
from penstock.cli.plan.economics import Economics, RunningCosts, queue_economics, running_costs
from penstock.cli.plan.flags import (
    LoadFlags,
    MoneyFlags,
    WishFlags,
    assumptions_of,
    demand_of,
    prices_of,
)
from penstock.cli.quantities import show_count, show_money, show_size, show_time
from penstock.core.errors import LocalError
from penstock.core.plurals import counted

PAGE_COLUMNS = 100
_NO_LOAD, _NO_MONEY, _NO_WISHES = LoadFlags(), MoneyFlags(), WishFlags()
ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


def plan(
    load: LoadFlags = _NO_LOAD,
    wishes: WishFlags = _NO_WISHES,
    money: MoneyFlags = _NO_MONEY,
    *,
    ask: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Ask questions, and recommend a guarantee, a kind of queue and a way to run it.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Advise on the kind of queue, its workers, partitions and nodes, and its cost.

    On a terminal, and with --ask, it asks the questions of the charts of choice (a queue or
    something else, which guarantee, which kind of queue, how it is run), each to be answered by y
    or n, and recommends one of each. With a load it computes the numbers for it.

    It uses Little's law, Erlang's formula for the wait, and the measured performance of
    measured to do. A time is in seconds (0.2) or has a unit (200ms, 10s, 7d).

    Examples
    --------
    penstock plan
    # answers from a file: y or n, a line each
    penstock plan --ask --json < answers.txt
    penstock plan --rate 5000 --service-time 0.2
    penstock plan --rate 200 --service-time 30ms --peak 5 --peak-length 10m --order key
    penstock plan --rate 20 --service-time 2s --guarantee exactly-once --nodes 3 --json
    """
    terminal = sys.stdin.isatty()
    demand = demand_of(load, wishes)
    if demand is None and not ask and not terminal:
        raise CycloptsError(
            msg="Give a load, --rate and --service-time; or --ask, to be asked what is needed."
        )
    chosen = choose(_ask) if ask or demand is None else []
    if demand is None:
        _tell_chosen(chosen, json=json)
        return
    for one in chosen:
        demand = replace(
            demand,
            guarantee=one.choice.guarantee or demand.guarantee,
            order=one.choice.order or demand.order,
        )
    found = make_plan(demand)
    costs = running_costs(
        rate=demand.rate,
        nodes=demand.nodes,
        disk_bytes=found.resources.disk_bytes * demand.nodes,
        prices=prices_of(money),
    )
    economics = queue_economics(assumptions_of(money))
    if json:
        print_json(_document(found, costs, economics) | {"chosen": chosen})
    else:
        console = Console(highlight=False, markup=False, emoji=False)
        console.width = min(console.width, PAGE_COLUMNS) if console.is_terminal else PAGE_COLUMNS
        with console.capture() as page:
            _draw(console, found, costs, economics, chosen)
        # Lines are filled up with blanks, which are of no use.
        print("\n".join(line.rstrip() for line in page.get().splitlines()))


def _document(found: Plan, costs: RunningCosts, economics: Economics) -> dict[str, object]:
    demand = found.demand
    document: dict[str, object] = msgspec.to_builtins(found)
    document |= {
        "workers": found.advised.workers,
        "guarantee": GUARANTEES[demand.guarantee],
        "advice": [*_guarantee_lines(demand), *_objections(demand)],
        "costs": costs,
        "economics": economics,
        "systems": [
            msgspec.to_builtins(one) | {"fits": _fits(demand, number)}
            for number, one in enumerate(SYSTEMS)
        ],
        "non_uses": NON_USES,
        "measured_on": measured.MACHINE,
    }
    return document


def _ask(question: str) -> bool:
    """Yes or no; in a pipe, the next line of it."""
    while True:
        print(f"{question} [y/n] ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not sys.stdin.isatty():
            print(line.strip(), file=sys.stderr)
        if not line:
            raise LocalError(f"there is no answer to: {question}")
        answer = ANSWERS.get(line.strip().lower())
        if answer is not None:
            return answer
        if not sys.stdin.isatty():
            raise LocalError(f'"{line.strip()}" is no answer to: {question} It is y or n')


def _tell_chosen(chosen: list[Chosen], *, json: bool) -> None:
    if json:
        print_json({"chosen": chosen, "recommendation": recommendation(chosen)})
        return
    print("\nRecommendation" if sys.stdin.isatty() else "Recommendation")
    for line in recommendation(chosen):
        print(f"  {line}")
    if not chosen[-1].choice.ends:
        print("\nAnd the numbers: penstock plan --rate MESSAGES --service-time TIME")


def _draw(
    console: Console,
    found: Plan,
    costs: RunningCosts,
    economics: Economics,
    chosen: list[Chosen],
) -> None:
    page = _Page(console)
    for problem in found.problems:
        page.warn(problem)
    page.section("Recommendation", [*(recommendation(chosen) if chosen else []), _summary(found)])
    page.section("Workers", _workers_lines(found))
    page.table(_STAFFING_HEADS, _staffing_rows(found))
    page.lines(_peak_lines(found))
    page.section("Partitions", _partition_lines(found))
    page.section("Cluster", _cluster_lines(found))
    page.section("Watch", _watch_lines(found))
    page.section(f"Guarantee: {found.demand.guarantee}", _guarantee_lines(found.demand))
    page.table(_GUARANTEE_HEADS, _guarantee_rows())
    page.section("Cost", _cost_lines(found, costs))
    page.section("What a queue is worth", _economics_lines(economics))
    page.section("Systems, as they are usually quoted", ())
    page.table(_SYSTEM_HEADS, _system_rows(found.demand))
    page.section("When not to use a queue", _objections(found.demand))
    page.table(("IF", "THEN"), [(one.sign, one.instead) for one in NON_USES])


class _Page:
    """Sections of sentences and tables."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def section(self, title: str, lines: Iterable[str]) -> None:
        self._console.print(title, style="bold")
        self.lines(lines)

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._console.print(Padding(line, (0, 0, 0, 2)))
        self._console.print()

    def warn(self, line: str) -> None:
        self._console.print(f"This cannot work as it is. {line}", style="bold red")
        self._console.print()

    def table(self, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        table = Table(box=SIMPLE_HEAD, pad_edge=True, show_edge=False)
        for head in heads:
            table.add_column(head, overflow="fold")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)
        self._console.print()


def _summary(found: Plan) -> str:
    demand = found.demand
    kind = {"none": "A standard queue", "key": "A FIFO queue", "total": "One message group"}
    return (
        f"{kind[demand.order]}, {demand.guarantee},"
        f" {counted(found.partitions.advised, 'partition')},"
        f" {counted(found.advised.workers, 'worker')}, {counted(demand.nodes, 'node')}."
    )


_STAFFING_HEADS = (
    "", "WORKERS", "BUSY", "WAIT MEAN", "P99", "PEAK LEAVES", "LAST WAITS", "GONE AFTER",
)  # fmt: skip
_STAFFING_NAMES = {
    "least": "barely stable",
    "steady": "the peak waits",
    "prompt": "on time in the peak",
}


def _staffing_rows(found: Plan) -> list[tuple[str, ...]]:
    def row(one: Staffing) -> tuple[str, ...]:
        return (
            _STAFFING_NAMES[one.name],
            show_count(one.workers),
            f"{one.utilisation:.0%}",
            show_time(one.wait_mean_seconds),
            show_time(one.wait_p99_seconds),
            show_count(round(one.peak_backlog)),
            show_time(one.peak_delay_seconds),
            show_time(one.drain_seconds),
        )

    return [row(one) for one in (found.least, found.steady, found.prompt)]


def _workers_lines(found: Plan) -> list[str]:
    demand, advised = found.demand, found.advised
    retried = ""
    if demand.attempts_per_second > demand.rate:
        retried = f" ({show_count(demand.attempts_per_second)}/s with what is tried again)"
    return [
        (
            f"Have {show_count(advised.workers)} workers: {show_count(found.processes)} processes"
            f" of {demand.concurrency} tasks or threads each."
        ),
        (
            f"Little's law: {show_count(demand.rate)} messages/s{retried} ×"
            f" {show_time(demand.service_seconds)} = {show_count(found.in_flight)} in work at any"
            f" time ({show_count(found.in_flight_peak)} in the peak). Fewer workers than that and"
            " the queue grows without end."
        ),
        (
            f"So that work does not pile up by mere chance, they should be busy"
            f" {demand.utilisation_max:.0%} of the time at most; and at most one message in a"
            f" hundred is to wait longer than {show_time(demand.target_delay_seconds)} (Erlang C,"
            " random arrivals)."
        ),
    ]


def _peak_lines(found: Plan) -> list[str]:
    demand, steady = found.demand, found.steady
    lines = []
    if demand.peak > 1 and steady.workers < found.prompt.workers:
        lines.append(
            f"The peak of {show_count(demand.rate * demand.peak)}/s for"
            f" {show_time(demand.peak_seconds)} decides. If messages of a peak may wait"
            f" {show_time(steady.peak_delay_seconds)}, {show_count(steady.workers)} workers do, and"
            f" the queue must hold {show_count(steady.peak_backlog)} messages. Otherwise scale by"
            f" lag between {show_count(steady.workers)} and {show_count(found.workers_max)}."
        )
    lines.append(
        f"Lease: {show_time(found.lease_seconds)}; the worker runtime extends it for work that"
        " takes longer. After a few deliveries a message belongs into a dead-letter queue."
    )
    return lines


def _partition_lines(found: Plan) -> list[str]:
    parts, demand = found.partitions, found.demand
    reason = {
        "total": "total order is the order of one partition",
        "key": "twice what is needed now, since adding partitions later moves keys to others",
        "none": "so that every node has a share of the work",
    }[demand.order]
    if demand.order == "none" and parts.for_rate > demand.nodes:
        reason = "so many carry the peak"
    return [
        f"Have {show_count(parts.advised)}: {reason}. "
        + kind_advice(demand.order, replay_seconds=demand.retention_seconds),
        (
            f"One carries {show_count(parts.per_partition_rate)} messages/s of"
            f" {show_size(demand.message_bytes)}: half of what was measured"
            f" ({measured.MACHINE}); your peak needs {show_count(parts.for_rate)}."
        ),
        (
            "Workers of a queue share its partitions, so they may be more than those. Consumers of"
            " a consumer group may not: as a topic you would need"
            f" {show_count(parts.for_consumers)} partitions, one for each process."
        ),
    ]


def _cluster_lines(found: Plan) -> list[str]:
    demand, need = found.demand, found.resources
    nodes = "1 node" if demand.nodes == 1 else f"{demand.nodes} nodes"
    lines = [
        f"Tier: {found.tier.name} at the peak. {found.tier.advice}",
        (
            f"{nodes} with {need.replicas} copies of every message survive the loss of"
            f" {need.losses_survived}."
        ),
    ]
    if need.nodes_for_rate > demand.nodes:
        lines.append(
            f"That is too few: writing {need.replicas} copies of"
            f" {show_count(demand.rate * demand.peak)} messages/s needs {need.nodes_for_rate}"
            " such nodes."
        )
    kept = "nothing is kept once it is done"
    if demand.retention_seconds:
        kept = f"{show_size(need.disk_bytes)} to keep all for {show_time(demand.retention_seconds)}"
    return [
        *lines,
        (
            f"Disk of each: {kept}, or {show_size(need.disk_bytes_acked_deleted)} if messages are"
            " deleted when they are done (a fifth is left free: a warning comes at 80 %)."
        ),
        (
            f"Memory of each: {show_size(need.memory_bytes)} for the broker, and"
            f" {show_size(need.cache_bytes)} free for the page cache, so that half a minute of"
            " traffic is read without the disk."
        ),
        f"Network of each: {show_size(need.network_bytes_per_second)}/s in the peak.",
    ]


def _watch_lines(found: Plan) -> list[str]:
    return [
        (
            f"Lag, not depth. By Little's law {show_count(round(found.waiting_max))} messages that"
            f" wait at the usual rate are {show_time(found.demand.target_delay_seconds)} of work:"
            " from there on the target is missed. The age of the oldest message says the same."
        ),
        (
            f"`penstock top` marks a lag above {LAG_ATTENTION:,} for attention and one above"
            f" {LAG_CRITICAL:,} as critical, a depth above {DEPTH_WARNING:,} as a warning, and more"
            f" than {DEAD_CRITICAL:,} dead letters as critical."
        ),
    ]


def _guarantee_lines(demand: Demand) -> list[str]:
    return guarantee_advice(
        demand.guarantee, service_seconds=demand.service_seconds, failures=demand.failures
    )


_GUARANTEE_HEADS = ("GUARANTEE", "SPEED", "COMPLEXITY", "LOSS", "DUPLICATES")


def _guarantee_rows() -> list[tuple[str, ...]]:
    return [
        (row.name, row.performance, row.complexity, row.loss, row.duplication)
        for row in GUARANTEES.values()
    ]


def _cost_lines(found: Plan, costs: RunningCosts) -> list[str]:
    cheaper = "the machines are cheaper" if costs.own <= costs.service else "the service is cheaper"
    return [
        (
            f"{show_count(costs.messages)} messages a month: {show_money(costs.own)} for"
            f" {found.demand.nodes} machines and their disks; {show_money(costs.service)} to a"
            f" service paid by request, in full batches, {show_money(costs.service_unbatched)} one"
            " by one."
        ),
        (
            f"By these prices {cheaper}; they meet at {show_count(costs.even_rate)} messages/s."
            " People are not counted."
        ),
    ]


def _economics_lines(one: Economics) -> list[str]:
    return [
        (
            f"By these assumptions it saves {show_money(one.annual_savings)} and costs"
            f" {show_money(one.annual_cost)} a year, after {show_money(one.first_cost)} once."
        ),
        (
            f"A year's running cost is earned in {one.payback_months:.2f} months, and what"
            f" building it cost in {one.break_even_months:.2f}."
        ),
        (
            f"Return on what building it cost: {one.first_year_return:.2f} after the first year,"
            f" {one.five_year_return:.0%} after five."
        ),
    ]


_SYSTEM_HEADS = ("SYSTEM", "MESSAGES/S", "LATENCY", "ORDER", "TAKES YOUR PEAK ON TIME")


def _system_rows(demand: Demand) -> list[tuple[str, ...]]:
    return [
        (one.name, one.rate_note, one.latency, one.ordering,
         "yes" if _fits(demand, number) else "no")
        for number, one in enumerate(SYSTEMS)
    ]  # fmt: skip


def _fits(demand: Demand, number: int) -> bool:
    return fits(
        SYSTEMS[number],
        rate=demand.rate * demand.peak,
        delay_seconds=demand.target_delay_seconds,
    )


def _objections(demand: Demand) -> list[str]:
    return objections(
        rate=demand.rate, delay_seconds=demand.target_delay_seconds, nodes=demand.nodes
    )
