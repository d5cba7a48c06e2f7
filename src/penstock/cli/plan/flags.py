"""The flags of `penstock plan`: the load, the wishes and the money, each with what it means."""

from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import CycloptsError, Group, Parameter

from penstock.cli.plan.advice import AT_LEAST_ONCE
from penstock.cli.plan.capacity import Demand
from penstock.cli.plan.economics import Assumptions, Prices
from penstock.cli.quantities import parse_bytes, parse_seconds

_LOAD = Group("Load", sort_key=1)
_WISHES = Group("Wishes", sort_key=2)
_MONEY = Group("Money", help="The defaults are examples: put in your own.", sort_key=3)

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
    """What comes, and what it takes."""

    rate: Annotated[float | None, _load("N", "Messages a second, on average.")] = None
    service_time: Annotated[
        str | None, _load("TIME", "How long a worker is busy with one message.")
    ] = None
    size: Annotated[str, _load("SIZE", "Of a message.")] = "1KiB"
    peak: Annotated[float, _load("TIMES", "How many times the rate comes at worst.")] = 3.0
    peak_length: Annotated[str, _load("TIME", "How long that lasts.")] = "1h"
    failures: Annotated[
        float, _load("SHARE", "Of attempts, that fail and are made again: 0.01 is one in 100.")
    ] = 0.0
    keys: Annotated[int | None, _load("N", "How many keys there are, if they are few.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WishFlags:
    """What is to hold."""

    guarantee: Annotated[
        Guarantee, _wish(None, "What is promised about a message that is worked on.")
    ] = AT_LEAST_ONCE  # type: ignore[assignment]
    target_delay: Annotated[
        str, _wish("TIME", "How long a message may wait before a worker starts on it.")
    ] = "10s"
    retention: Annotated[
        str, _wish("TIME", "How long messages are kept to be read again; 0: not at all.")
    ] = "7d"
    nodes: Annotated[int, _wish("N", "How many the cluster has.")] = 3
    order: Annotated[Order, _wish(None, "What must be handled in order.")] = "none"
    utilisation: Annotated[float, _wish("SHARE", "How busy workers may be at the usual rate.")] = (
        0.7
    )
    concurrency: Annotated[int, _wish("N", "How many messages one process works on at a time.")] = (
        50
    )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MoneyFlags:
    """What things cost."""

    node_cost: Annotated[float, _money("$", "A month of a machine.")] = 120.0
    gigabyte_cost: Annotated[float, _money("$", "A month of a gigabyte of disk.")] = 0.08
    million_cost: Annotated[
        float, _money("$", "A million requests to a service that is paid by request.")
    ] = 0.40
    downtime_hours: Annotated[
        float, _money("HOURS", "A year, if services call each other without a queue.")
    ] = 50.0
    downtime_cost: Annotated[float, _money("$", "An hour of downtime.")] = 10_000.0


def demand_of(load: LoadFlags, wishes: WishFlags) -> Demand | None:
    """What was typed, as numbers; what is no number counts as typed wrongly. None if there is no
    load to reckon with."""
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
    """What running it costs."""
    return Prices(
        node_month=money.node_cost,
        gigabyte_month=money.gigabyte_cost,
        million_requests=money.million_cost,
    )


def assumptions_of(money: MoneyFlags) -> Assumptions:
    """What it saves."""
    return Assumptions(downtime_hours=money.downtime_hours, downtime_cost=money.downtime_cost)
