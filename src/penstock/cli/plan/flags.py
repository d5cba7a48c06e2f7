"""The flags of `penstock plan`: the load, the requirements and the costs."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import CycloptsError, Group, Parameter

from penstock.cli.plan.advice import AT_LEAST_ONCE
from penstock.cli.plan.capacity import Demand
from penstock.cli.plan.economics import Assumptions, Prices
from penstock.cli.quantities import parse_bytes, parse_seconds

_LOAD = Group("Load", sort_key=1)
_WISHES = Group("Wishes", sort_key=2)
_MONEY = Group("Money", help="The defaults are examples: use your own numbers.", sort_key=3)

Guarantee = Literal["at-most-once", "at-least-once", "exactly-once"]
Order = Literal["none", "key", "total"]


def _load(metavar: str, text: str) -> Parameter:
    return Parameter(group=_LOAD, metavar=metavar, help=text)


def _wish(metavar: str | None, text: str) -> Parameter:
    return Parameter(group=_WISHES, metavar=metavar, help=text)


def _money(metavar: str, text: str) -> Parameter:
    return Parameter(group=_MONEY, metavar=metavar, help=text)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LoadFlags:
    """The flags about the load."""

    rate: Annotated[float | None, _load("N", "The average rate in messages per second.")] = None
    service_time: Annotated[str | None, _load("TIME", "The processing time of one message.")] = None
    size: Annotated[str, _load("SIZE", "The size of a message.")] = "1KiB"
    peak: Annotated[float, _load("TIMES", "The peak rate as a multiple of the average.")] = 3.0
    peak_length: Annotated[str, _load("TIME", "The duration of the peak.")] = "1h"
    failures: Annotated[
        float,
        _load("SHARE", "The share of attempts that fail and are retried: 0.01 is one in 100."),
    ] = 0.0
    keys: Annotated[int | None, _load("N", "The number of different keys, if they are few.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WishFlags:
    """The flags about requirements."""

    guarantee: Annotated[
        Guarantee, _wish(None, "The delivery guarantee: how often a message may be processed.")
    ] = AT_LEAST_ONCE  # type: ignore[assignment]
    target_delay: Annotated[
        str, _wish("TIME", "The longest acceptable wait of a message for a worker.")
    ] = "10s"
    retention: Annotated[
        str, _wish("TIME", "The retention of messages for reading them again; 0 for none.")
    ] = "7d"
    nodes: Annotated[int, _wish("N", "The number of nodes in the cluster.")] = 3
    order: Annotated[Order, _wish(None, "The messages that must be processed in order.")] = "none"
    utilisation: Annotated[
        float, _wish("SHARE", "The largest utilisation of workers at the average rate.")
    ] = 0.7
    concurrency: Annotated[
        int, _wish("N", "The number of messages that one process handles concurrently.")
    ] = 50


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MoneyFlags:
    """The flags about costs."""

    node_cost: Annotated[float, _money("$", "The price of a machine per month.")] = 120.0
    gigabyte_cost: Annotated[float, _money("$", "The price of a gigabyte of disk per month.")] = (
        0.08
    )
    million_cost: Annotated[
        float, _money("$", "The price of a million requests to a managed service.")
    ] = 0.40
    downtime_hours: Annotated[
        float, _money("HOURS", "The hours of downtime per year without a queue.")
    ] = 50.0
    downtime_cost: Annotated[float, _money("$", "The cost of an hour of downtime.")] = 10_000.0


def demand_of(load: LoadFlags, wishes: WishFlags) -> Demand | None:
    """Return the demand described by the flags; None if no load is given. Raise CycloptsError for a
    value that is not a number."""
    if load.rate is None and load.service_time is None:
        return None
    if load.rate is None or load.service_time is None:
        missing = "--rate" if load.rate is None else "--service-time"
        raise CycloptsError(msg=f'Command "plan" parameter {missing} requires an argument.')
    return Demand(
        rate=load.rate,
        service_seconds=parse_seconds("--service-time", load.service_time),
        guarantee=wishes.guarantee,
        message_bytes=parse_bytes("--size", load.size),
        peak=load.peak,
        peak_seconds=parse_seconds("--peak-length", load.peak_length),
        target_delay_seconds=parse_seconds("--target-delay", wishes.target_delay),
        retention_seconds=parse_seconds("--retention", wishes.retention),
        nodes=wishes.nodes,
        order=wishes.order,
        keys=load.keys,
        failures=load.failures,
        utilisation_max=wishes.utilisation,
        concurrency=wishes.concurrency,
    )


def prices_of(money: MoneyFlags) -> Prices:
    """The prices given by the flags."""
    return Prices(
        node_month=money.node_cost,
        gigabyte_month=money.gigabyte_cost,
        million_requests=money.million_cost,
    )


def assumptions_of(money: MoneyFlags) -> Assumptions:
    """The assumptions given by the flags."""
    return Assumptions(downtime_hours=money.downtime_hours, downtime_cost=money.downtime_cost)
