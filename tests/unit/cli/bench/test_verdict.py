"""Who was the limit: each rule right at its threshold and right below, and their order."""

from dataclasses import replace

import pytest

from penstock.cli.bench.verdict import Evidence, judge

IDLE = Evidence(seconds=10.0, client_share=0.1, broker_share=0.1, disk_share=0.1)


def limit(**changes: object) -> str:
    return judge(replace(IDLE, **changes)).limit  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limit_at", "at", "below"),
    [
        ("rate", {"rate_asked": 100.0, "rate_reached": 95.0}, {"rate_reached": 94.9}),
        ("work", {"work_share": 0.85}, {"work_share": 0.849}),
        ("client", {"client_share": 0.85}, {"client_share": 0.849}),
        ("broker", {"broker_share": 0.85}, {"broker_share": 0.849}),
        ("disk", {"disk_share": 0.70}, {"disk_share": 0.699}),
        ("machine", {"machine_share": 0.95}, {"machine_share": 0.949}),
    ],
)
def test_thresholds(limit_at: str, at: dict[str, float], below: dict[str, float]) -> None:
    assert limit(**at) == limit_at
    assert limit(**(at | below)) == "round trips"


def test_the_first_rule_that_fits_counts() -> None:
    everything: dict[str, object] = {
        "rate_asked": 100.0,
        "rate_reached": 100.0,
        "work_share": 1.0,
        "client_share": 1.0,
        "broker_share": 1.0,
        "disk_share": 1.0,
        "machine_share": 1.0,
    }
    order = []
    for nothing in (
        {"rate_asked": None},
        {"work_share": 0.0},
        {"client_share": 0.0},
        {"broker_share": 0.0},
        {"disk_share": 0.0},
        {"machine_share": None},
        {},
    ):
        order.append(limit(**everything))
        everything |= nothing
    assert order == ["rate", "work", "client", "broker", "disk", "machine", "round trips"]


def test_sentences_hold_the_numbers_and_what_to_do() -> None:
    one = judge(replace(IDLE, client_share=0.97, loop_lag_seconds=0.004))
    assert one.sentence == "the client: it took 97 % of a core; raise --processes or --batch"
    assert one.evidence[0] == "client: 97 % of a core, its loop late by 4 ms at p99"
    several = judge(replace(IDLE, client_share=0.9, processes=4, broker_share=0.88))
    assert several.sentence.startswith("the 4 client processes: each took 90 % of a core")
    assert several.sentence.endswith("the broker was close to it, with 88 %")
    disk = judge(replace(IDLE, disk_share=0.8, syncs=1_200, sync_seconds=0.006))
    assert "80 % of the time passed in fsync" in disk.sentence
    assert "disk: 80 % of the time in fsync, 1,200 of them, 6 ms each" in disk.evidence
    waits = judge(replace(IDLE, cure="raise --consumers"))
    assert waits.sentence.endswith("raise --consumers")
    slow = judge(replace(IDLE, rate_asked=500.0, rate_reached=100.0))
    assert "rate: 100 of 500 messages/s reached" in slow.evidence


def test_a_broker_that_cannot_be_asked_is_not_acquitted() -> None:
    unasked = replace(IDLE, broker_share=None, disk_share=None, unasked="nothing answers there")
    found = judge(unasked)
    assert found.limit == "not the client"
    assert "could not be asked: nothing answers there" in found.sentence
    assert "broker: could not be asked: nothing answers there" in found.evidence
    assert judge(replace(unasked, client_share=0.9)).limit == "client"


def test_an_engine_in_the_same_process() -> None:
    embedded = replace(IDLE, embedded=True, broker_share=None, disk_share=None)
    busy = judge(replace(embedded, client_share=0.9))
    assert busy.limit == "process"
    assert busy.sentence.startswith("this process, which is client and broker in one")
    assert busy.evidence[0].startswith("client and broker, one process: 90 % of a core")
    assert "one process here" in judge(embedded).sentence


def test_short_runs_say_so() -> None:
    assert any("rough" in line for line in judge(replace(IDLE, seconds=0.999)).evidence)
    assert not any("rough" in line for line in judge(replace(IDLE, seconds=1.0)).evidence)
