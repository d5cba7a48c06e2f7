"""Options of a new queue become topic configs; what cannot be is refused by the name it has."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.queue_options import differences, given_configs
from penstock.client.queue_options import queue_configs as new_queue_configs
from penstock.client.seconds import SECONDS_MAX, to_milliseconds
from penstock.core.errors import InvalidConfig, InvalidRequest, PenstockError
from penstock.core.queue_defaults import QUEUE_DEFAULTS, dead_letter_name, failure_configs
from penstock.core.queue_rules import Deduplication, Priorities, Retry
from penstock.core.topic_configs import parse_topic_configs


def queue_configs(name: str = "orders", **options: Any) -> dict[str, str]:
    return new_queue_configs(name, given_configs(**options))


def test_every_option_arrives_as_the_setting_it_stands_for() -> None:
    configs = queue_configs(
        lease=90,
        deliveries_max=3,
        dead_letter="failed",
        retry="exponential",
        retry_delay=timedelta(milliseconds=1_500),
        fifo=True,
        delay=2.5,
        ttl=timedelta(hours=1),
        priorities="weighted",
        deduplication="content",
        length_max=1_000,
        settings={"retention.ms": "1000000", "queue.paused": "true"},
    )
    settings = parse_topic_configs(configs)
    queue = settings.queue
    assert queue.is_queue
    assert queue.delete_acked
    assert queue.message_headers
    assert queue.dead_letter_topic == "failed"
    assert queue.length_max == 1_000
    assert queue.work_rules.lease_ms == 90_000
    assert queue.work_rules.deliveries_max == 3
    assert queue.work_rules.retry is Retry.EXPONENTIAL
    assert queue.work_rules.retry_ms == 1_500
    assert queue.queue_rules.fifo
    assert queue.queue_rules.delay_ms == 2_500
    assert queue.queue_rules.ttl_ms == 3_600_000
    assert queue.queue_rules.priorities is Priorities.WEIGHTED
    assert queue.queue_rules.deduplication is Deduplication.CONTENT
    assert queue.queue_rules.paused
    assert settings.retention_ms == 1_000_000


SAFE = {
    "queue.deliveries.max": "5",
    "queue.retry.policy": "jittered",
    "queue.retry.delay.ms": "2000",
    "queue.dead.letter.topic": "orders-dlq",
}


def test_a_plain_queue_is_safe() -> None:
    assert queue_configs() == {**QUEUE_DEFAULTS, **SAFE}
    assert queue_configs(settings={"queue.delete.acked": "false"}) == {
        **QUEUE_DEFAULTS,
        **SAFE,
        "queue.delete.acked": "false",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"deliveries_max": 0}, {"queue.deliveries.max": "0"}),
        ({"dead_letter": ""}, {"queue.dead.letter.topic": ""}),
        ({"retry": "none"}, {"queue.retry.policy": "none", "queue.retry.delay.ms": None}),
        ({"retry": "fixed"}, {"queue.retry.policy": "fixed", "queue.retry.delay.ms": None}),
        ({"retry_delay": 7}, {"queue.retry.policy": "jittered", "queue.retry.delay.ms": "7000"}),
        (
            {"settings": {"queue.dead.letter.policy": "archive"}},
            {"queue.dead.letter.topic": None, "queue.deliveries.max": "5"},
        ),
        ({"settings": {"queue.retry.delay.max.ms": "500"}}, {"queue.retry.delay.ms": "500"}),
    ],
)
def test_each_safe_default_gives_way_to_what_is_chosen(
    options: Any, expected: dict[str, str | None]
) -> None:
    configs = queue_configs(**options)
    assert {name: configs.get(name) for name in expected} == expected
    parse_topic_configs(configs)


@pytest.mark.parametrize(
    ("queue", "letters"),
    [
        ("orders", "orders-dlq"),
        ("orders.fifo", "orders-dlq.fifo"),
        ("orders-dlq", ""),
        ("orders-dlq.fifo", ""),
        ("o" * 245, "o" * 245 + "-dlq"),
        ("o" * 246, ""),
    ],
)
def test_a_dead_letter_queue_is_named_after_its_queue_and_has_none_itself(
    queue: str, letters: str
) -> None:
    assert dead_letter_name(queue) == letters
    assert failure_configs(queue, {}).get("queue.dead.letter.topic", "") == letters


def test_only_what_was_chosen_can_differ() -> None:
    present = {"queue.lease.ms": "5000", "queue.delete.acked": "true"}
    assert differences(given_configs(), present) == {}
    assert differences(given_configs(lease=5, deliveries_max=0), present) == {}
    assert differences(given_configs(lease=6, fifo=True), present) == {
        "queue.lease.ms": "5000",
        "queue.order": "standard",
    }


def test_a_long_first_wait_raises_the_longest() -> None:
    configs = queue_configs(retry="linear", retry_delay=600)
    assert configs["queue.retry.delay.max.ms"] == "600000"
    assert "queue.retry.delay.max.ms" not in queue_configs(retry="linear", retry_delay=60)
    with pytest.raises(InvalidConfig, match="at least queue.retry.delay.ms"):
        queue_configs(
            retry="linear", retry_delay=600, settings={"queue.retry.delay.max.ms": "1000"}
        )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"lease": -1}, "lease is -1, and a duration is from 0"),
        ({"lease": "30s"}, "lease is '30s', and a duration is a number of seconds"),
        ({"lease": True}, "lease is True"),
        ({"lease": float("nan")}, "lease is nan"),
        ({"lease": 100_000}, "lease=100000 cannot be: it is from 0 to 43200 seconds"),
        ({"ttl": 0}, "ttl=0 cannot be: it is above 0"),
        ({"delay": timedelta(days=1_000)}, "delay=.* cannot be"),
        ({"deliveries_max": 1_001}, "deliveries_max=1001 cannot be: it is an integer from 0 to"),
        ({"deliveries_max": True}, "deliveries_max=True cannot be"),
        ({"deliveries_max": 1.5}, "deliveries_max=1.5 cannot be"),
        ({"retry": "sometimes"}, "retry='sometimes' cannot be: it is one of none, fixed"),
        ({"retry_delay": 5, "retry": "none"}, "retry_delay means nothing"),
        ({"priorities": "all"}, "priorities='all' cannot be: it is one of off, strict, weighted"),
        ({"deduplication": "yes"}, "deduplication='yes' cannot be: it is one of off, id, content"),
        ({"length_max": 0}, "length_max=0 cannot be: it is an integer from 1"),
        ({"length_max": -1}, "length_max=-1 cannot be: it is an integer from 1"),
        ({"settings": {"queue.leese.ms": "1"}}, "did you mean queue.lease.ms"),
        ({"settings": {"queue.lease.ms": 5}}, "configs are texts: write '5'"),
        ({"settings": {"queue.lease.ms": "x"}}, "queue.lease.ms cannot be 'x'"),
        (
            {"lease": 5, "settings": {"queue.lease.ms": "6000"}},
            "queue.lease.ms is given twice, by an option as '5000' and in settings as '6000'",
        ),
        (
            {"settings": {"queue.overflow": "drop-oldest", "queue.bytes.max": "5"}},
            "cannot be set with queue.overflow=drop-oldest",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(options: Any, problem: str) -> None:
    with pytest.raises((InvalidConfig, InvalidRequest), match=problem):
        queue_configs(**options)


def test_the_same_said_twice_is_said_once() -> None:
    configs = queue_configs(lease=5, settings={"queue.lease.ms": "5000"})
    assert configs["queue.lease.ms"] == "5000"


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "lease": st.floats(),
            "delay": st.timedeltas(),
            "ttl": st.floats(),
            "deliveries_max": st.integers(),
            "length_max": st.integers(),
            "retry": st.sampled_from(["none", "fixed", "jittered"]),
            "retry_delay": st.floats(0, 1_000),
            "fifo": st.booleans(),
        },
    )
)
def test_whatever_is_asked_for_is_configs_or_is_refused(options: Any) -> None:
    try:
        configs = queue_configs(**options)
    except PenstockError:
        return
    parse_topic_configs(configs)


@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [(0, 0), (1, 1_000), (0.1 * 3, 300), (0.0001, 1), (1.0011, 1_002), (2.5, 2_500),
     (timedelta(seconds=1.5), 1_500), (timedelta(microseconds=1), 1),
     (SECONDS_MAX, SECONDS_MAX * 1_000)],
)  # fmt: skip
def test_durations_are_whole_milliseconds_rounded_up(duration: Any, milliseconds: int) -> None:
    assert to_milliseconds(duration, "wait") == milliseconds


@pytest.mark.parametrize("duration", [-1, SECONDS_MAX + 1, float("inf"), float("nan"), "1", None])
def test_what_is_no_duration_is_refused(duration: Any) -> None:
    with pytest.raises(InvalidRequest, match="wait is"):
        to_milliseconds(duration, "wait")
