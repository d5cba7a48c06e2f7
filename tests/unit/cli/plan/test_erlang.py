"""Erlang's formulas, against values that tables give and against laws that always hold."""

import math
from fractions import Fraction

import pytest

from penstock.cli.plan.erlang import servers_for_wait, waiting


@pytest.mark.parametrize(
    ("offered", "servers", "share"),
    [
        # M/M/1: the share that waits is the utilisation.
        (0.5, 1, 0.5),
        (0.9, 1, 0.9),
        # M/M/2: 2ρ² / (1 + ρ).
        (1.0, 2, 1 / 3),
    ],
)
def test_the_share_of_messages_that_wait(offered: float, servers: int, share: float) -> None:
    found = waiting(offered=offered, service_seconds=1.0, servers=servers)
    assert found.share == pytest.approx(share, rel=5e-3)


def test_the_recursion_is_the_formula_with_factorials() -> None:
    """Which is exact in whole numbers, and of no use to floating point from 171 servers on."""
    load, servers = 100, 110
    terms = [Fraction(load**number, math.factorial(number)) for number in range(servers + 1)]
    waits = terms[-1] * servers / (servers - load)
    found = waiting(offered=load, service_seconds=1.0, servers=servers)
    assert found.share == pytest.approx(float(waits / (sum(terms[:-1]) + waits)), rel=1e-9)


def test_a_single_server_has_the_textbook_wait() -> None:
    """M/M/1 with ρ = 0.8 and W = 0.5 s: 2 s of waiting on average, 3.2 messages."""
    found = waiting(offered=0.8, service_seconds=0.5, servers=1)
    assert found.mean_seconds == pytest.approx(2.0)
    assert found.messages == pytest.approx(3.2)
    assert found.utilisation == pytest.approx(0.8)
    assert found.exceeding(0) == pytest.approx(0.8)
    assert found.exceeding(2.5) == pytest.approx(0.8 * math.exp(-1))
    assert found.quantile_seconds(0.5) == pytest.approx(math.log(0.8 / 0.5) * 2.5)
    assert found.quantile_seconds(0.1) == 0.0


def test_the_fewest_servers_for_a_wait() -> None:
    """A server fewer would break the promise; this many keep it."""
    enough = servers_for_wait(offered=40.0, service_seconds=2.0, wait_seconds=1.0, share=0.99)
    assert enough.exceeding(1.0) <= 0.01
    fewer = waiting(offered=40.0, service_seconds=2.0, servers=enough.servers - 1)
    assert fewer.exceeding(1.0) > 0.01


def test_large_loads_neither_overflow_nor_take_long() -> None:
    found = servers_for_wait(offered=100_000.0, service_seconds=0.1, wait_seconds=0.001, share=0.99)
    assert 100_000 < found.servers < 102_000
    assert 0 < found.share < 1


def test_more_servers_never_wait_longer() -> None:
    waits = [
        waiting(offered=7.3, service_seconds=0.2, servers=servers).mean_seconds
        for servers in range(8, 30)
    ]
    assert waits == sorted(waits, reverse=True)
