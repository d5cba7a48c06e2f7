"""Costs and savings of a queue: two small models.

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
"""The number of requests per message: send, receive, delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The assumptions of the business case for a queue."""

    downtime_hours: float = 50.0
    """The hours of downtime per year without a queue."""
    downtime_cost: float = 10_000.0
    """The cost of an hour of downtime."""
    downtime_avoided: float = 0.95
    """The share that a queue absorbs."""
    engineering_cost: float = 200_000.0
    """A year, spent on holding tightly coupled services together."""
    engineering_avoided: float = 0.5
    satisfaction_value: float = 300_000.0
    """A year, of customers who do not leave."""
    machines_cost: float = 50_000.0
    """The cost of machines per year, as are the next two."""
    monitoring_cost: float = 10_000.0
    operation_cost: float = 100_000.0
    development_cost: float = 200_000.0
    """The one-time cost of development, as is the next."""
    training_cost: float = 50_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Economics:
    """The results of the business case."""

    annual_savings: float
    annual_cost: float
    first_cost: float
    """The one-time cost of building it."""
    payback_months: float
    """The months of savings that pay for one year's running cost. This is the figure usually given;
    it ignores the one-time cost."""
    break_even_months: float
    """The months of savings, minus running cost, that pay for the one-time cost: the stricter
    figure."""
    first_year_return: float
    """The net gain of the first year for each dollar of one-time cost."""
    five_year_return: float
    """The net gain of five years for each dollar of one-time cost; 13.3 is 1330 %."""


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
    """Prices per month. The defaults are examples; replace them."""

    node_month: float = 120.0
    """The price of a machine for one node."""
    gigabyte_month: float = 0.08
    """The price of 10⁹ bytes of disk."""
    million_requests: float = 0.40
    """The price of a million requests to a managed service."""
    request_messages: int = 10
    """The largest number of messages in one request to the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCosts:
    """A month of each, and where they meet."""

    messages: float
    own: float
    service: float
    """The cost of the service with full batches."""
    service_unbatched: float
    """With a request for each message, as most programs begin."""
    even_rate: float
    """Messages a second from which on machines of one's own are cheaper than full batches."""


def running_costs(
    *, rate: float, nodes: int, disk_bytes: float, prices: Prices | None = None
) -> RunningCosts:
    """The cost per month at a rate; `disk_bytes` is of all nodes together. The cost of staff is not
    included: it depends on their other work."""
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
