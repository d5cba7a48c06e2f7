"""Settings of a queue by short and full name."""

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.web.setting_names import (
    SHORT_NAMES,
    is_queue,
    queue_settings,
    short_name,
    topic_configs,
)


def test_every_config_has_a_short_name_of_its_own() -> None:
    assert set(SHORT_NAMES.values()) == set(TOPIC_CONFIGS)
    assert short_name("queue.retry.delay.max.ms") == "retry_delay_max_ms"


def test_values_become_text() -> None:
    given = {
        "lease_ms": 5, "paused": True, "queue.ttl.ms": None, "retention_ms": "7",
        "delay_ms": "5m", "alert_no_consumers_ms": "off,1m,5m", "dead_letter_topic": "5m",
    }  # fmt: skip
    assert topic_configs(given) == {
        "queue.delay.ms": "300000",
        "alert.no.consumers.ms": "off,60000,300000",
        "queue.dead.letter.topic": "5m",
        "queue.lease.ms": "5",
        "queue.paused": "true",
        "queue.ttl.ms": None,
        "retention.ms": "7",
    }


def test_an_unknown_name_comes_with_a_hint() -> None:
    with pytest.raises(InvalidConfig, match=r"no setting lese_ms; did you mean lease_ms\?"):
        topic_configs({"lese_ms": 1})
    with pytest.raises(InvalidConfig, match=r"no setting \?+$"):
        topic_configs({"?" * 100: 1})


def test_all_settings_are_shown_but_what_sqs_keeps() -> None:
    shown = queue_settings({"queue.sqs": "{}", "queue.lease.ms": "7"})
    assert shown["lease_ms"] == 7
    assert shown["order"] == "standard"
    assert "sqs" not in shown
    assert is_queue({"queue.sqs": "{}"})
    assert not is_queue({"retention.ms": "1"})
