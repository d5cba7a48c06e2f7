"""What a queue costs and what it saves: two small models that people argue about with numbers.

`queue_economics` is the usual case for having a queue at all: hours of downtime that do not happen,
engineers who do not mend, customers who stay, against machines and the work of building it. Its
default figures are the ones that are usually shown. They are an example: put in your own.

`running_costs` compares machines of one's own with a service that is paid by request. Its prices
are examples too; both sides are linear, so the rate at which they meet can be said as well.

Pure functions; money is in dollars, and a year has twelve equal months.
"""

from dataclasses import dataclass

MONTHS = 12
SECONDS_A_MONTH = 365.25 / MONTHS * 86_400
BILLION = 1e9
CALLS_A_MESSAGE = 3
"""Sent, received, deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What the case for a queue rests on."""

    downtime_hours: float = 50.0
    """A year, without a queue."""
    downtime_cost: float = 10_000.0
    """An hour."""
    downtime_avoided: float = 0.95
    """The share that a queue absorbs."""
    engineering_cost: float = 200_000.0
    """A year, spent on holding tightly coupled services together."""
    engineering_avoided: float = 0.5
    satisfaction_value: float = 300_000.0
    """A year, of customers who do not leave."""
    machines_cost: float = 50_000.0
    """A year, as are the next two."""
    monitoring_cost: float = 10_000.0
    operation_cost: float = 100_000.0
    development_cost: float = 200_000.0
    """Once, as is the next."""
    training_cost: float = 50_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Economics:
    """What follows from the assumptions."""

    annual_savings: float
    annual_cost: float
    first_cost: float
    """Of building it, once."""
    payback_months: float
    """How many months of savings pay the running cost of a year; this is the figure usually given,
    and it leaves out what building the thing cost."""
    break_even_months: float
    """How many months of savings, less running cost, pay for building it: the stricter figure."""
    first_year_return: float
    """What the first year leaves over, for each dollar that building it cost."""
    five_year_return: float
    """The same over five years; 13.3 is 1330 %."""


def queue_economics(given: Assumptions | None = None) -> Economics:
    """The case for a queue; a saving below the running cost never breaks even (infinity)."""
    one = given or Assumptions()
    savings = (
        one.downtime_hours * one.downtime_cost * one.downtime_avoided
        + one.engineering_cost * one.engineering_avoided
        + one.satisfaction_value
    )
    running = one.machines_cost + one.monitoring_cost + one.operation_cost
    first = one.development_cost + one.training_cost
    gain = savings - running
    return Economics(
        annual_savings=savings,
        annual_cost=running,
        first_cost=first,
        payback_months=_months(running, savings),
        break_even_months=_months(first, gain),
        first_year_return=_return(gain, first),
        five_year_return=_return(5 * gain, first),
    )


def _months(cost: float, yearly_gain: float) -> float:
    if cost <= 0:
        return 0.0
    return cost / (yearly_gain / MONTHS) if yearly_gain > 0 else float("inf")


def _return(gain: float, cost: float) -> float:
    return (gain - cost) / cost if cost > 0 else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What things cost a month; examples, to be replaced."""

    node_month: float = 120.0
    """A machine for one node."""
    gigabyte_month: float = 0.08
    """Of disk, 10⁹ bytes."""
    million_requests: float = 0.40
    """Of a service that is paid by request."""
    request_messages: int = 10
    """How many messages share a request to such a service, at best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCosts:
    """A month of each, and where they meet."""

    messages: float
    own: float
    service: float
    """With full batches."""
    service_unbatched: float
    """With a request for each message, as most programs begin."""
    even_rate: float
    """Messages a second from which on machines of one's own are cheaper than full batches."""


def running_costs(
    *, rate: float, nodes: int, disk_bytes: float, prices: Prices | None = None
) -> RunningCosts:
    """A month at a rate; `disk_bytes` is of all nodes together. What people cost is left out: it
    depends on what they do already."""
    price = prices or Prices()
    messages = rate * SECONDS_A_MONTH
    own = nodes * price.node_month + disk_bytes / BILLION * price.gigabyte_month
    call = price.million_requests / 1e6 * CALLS_A_MESSAGE
    batched = call / price.request_messages
    return RunningCosts(
        messages=messages,
        own=own,
        service=messages * batched,
        service_unbatched=messages * call,
        even_rate=own / (batched * SECONDS_A_MONTH) if batched > 0 else float("inf"),
    )
