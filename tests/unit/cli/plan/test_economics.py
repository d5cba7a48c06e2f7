"""The case for a queue in dollars: the figures that are usually shown, to the cent."""

import pytest

from penstock.cli.plan.economics import Assumptions, Prices, queue_economics, running_costs


def test_the_usual_figures() -> None:
    found = queue_economics()
    assert found.annual_savings == 875_000
    assert found.annual_cost == 160_000
    assert found.first_cost == 250_000
    assert round(found.payback_months, 2) == 2.19
    assert round(found.five_year_return * 100) == 1330
    assert round(found.first_year_return, 2) == 1.86


def test_what_building_it_cost_is_paid_later_than_a_year_of_running_it() -> None:
    """The usual payback leaves the first cost out; ours says so and gives the other as well."""
    assert round(queue_economics().break_even_months, 2) == 4.20


def test_a_queue_that_saves_nothing_never_pays() -> None:
    nothing = Assumptions(downtime_hours=0, engineering_avoided=0, satisfaction_value=0)
    found = queue_economics(nothing)
    assert found.annual_savings == 0
    assert found.payback_months == found.break_even_months == float("inf")
    assert found.five_year_return == pytest.approx((5 * -160_000 - 250_000) / 250_000)


def test_a_queue_that_was_there_already_costs_nothing_to_build() -> None:
    found = queue_economics(Assumptions(development_cost=0, training_cost=0))
    assert found.break_even_months == 0
    assert found.first_year_return == float("inf")


def test_machines_and_a_service_paid_by_request_meet_where_they_cost_the_same() -> None:
    prices = Prices(node_month=100, gigabyte_month=0.1, million_requests=0.5)
    found = running_costs(rate=1_000, nodes=3, disk_bytes=500e9, prices=prices)
    assert found.own == 350
    assert found.service == pytest.approx(found.messages * 3 / 10 * 0.5e-6)
    assert found.service_unbatched == pytest.approx(10 * found.service)
    there = running_costs(rate=found.even_rate, nodes=3, disk_bytes=500e9, prices=prices)
    assert there.own == pytest.approx(there.service)
    free = running_costs(rate=1, nodes=1, disk_bytes=0, prices=Prices(million_requests=0))
    assert free.even_rate == float("inf")
