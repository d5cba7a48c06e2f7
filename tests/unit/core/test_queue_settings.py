"""`core.queue_settings`: what `queue.*` comes to, and which of them do not go together."""

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.limits import LEASE_MS_MAX, QUEUE_SQS_CHARACTERS_MAX
from penstock.core.queue_rules import (
    Dead,
    Deduplication,
    Priorities,
    QueueRules,
    Retry,
    WorkRules,
)
from penstock.core.queue_settings import (
    DEFAULT_QUEUE_SETTINGS,
    QUEUE_CONFIGS,
    Overflow,
    QueueSettings,
)
from penstock.core.topic_configs import TOPIC_CONFIGS, parse_topic_configs


def queue(**configs: str) -> QueueSettings:
    """`lease_ms="5"` sets queue.lease.ms."""
    texts = {f"queue.{name.replace('_', '.')}": text for name, text in configs.items()}
    return parse_topic_configs(texts).queue


def test_the_table_has_them_all() -> None:
    names = [config.name for config in QUEUE_CONFIGS]
    assert names == sorted(names)
    assert [name for name in TOPIC_CONFIGS if name.startswith("queue.")] == names
    assert len(names) == 23


def test_nothing_set_is_no_queue() -> None:
    plain = parse_topic_configs({"retention.ms": "5"}).queue
    assert plain is DEFAULT_QUEUE_SETTINGS
    assert not plain.is_queue
    assert not plain.refuses_when_full
    assert plain.queue_rules == QueueRules()
    assert not plain.queue_rules.reads_messages
    assert plain.work_rules == WorkRules(retry_ms=5_000)
    assert (plain.length_max, plain.bytes_max, plain.dead_letter_topic) == (None, None, "")


@pytest.mark.parametrize(
    "config", [config for config in QUEUE_CONFIGS if config.name != "queue.dead.letter.policy"]
)
def test_any_of_them_makes_a_queue(config: object) -> None:
    other = {
        "queue.dead.letter.topic": "dead",
        "queue.deduplication": "id",
        "queue.deduplication.scope": "group",
        "queue.delete.acked": "true",
        "queue.message.headers": "true",
        "queue.order": "fifo",
        "queue.overflow": "drop-oldest",
        "queue.paused": "true",
        "queue.priority": "strict",
        "queue.retry.policy": "fixed",
        "queue.sqs": "{}",
    }
    name = getattr(config, "name", "")
    assert parse_topic_configs({name: other.get(name, "7")}).queue.is_queue


def test_what_is_set_is_found_in_the_rules_of_partitions() -> None:
    found = queue(
        order="fifo",
        priority="weighted",
        delay_ms="1",
        ttl_ms="2",
        deduplication="content",
        deduplication_window_ms="3",
        deduplication_scope="group",
        length_max="4",
        overflow="drop-oldest",
        paused="true",
    )
    assert found.queue_rules == QueueRules(
        delivery_headers=True,
        fifo=True,
        priorities=Priorities.WEIGHTED,
        delay_ms=1,
        ttl_ms=2,
        deduplication=Deduplication.CONTENT,
        deduplication_ms=3,
        deduplication_by_group=True,
        length_max=4,
        drops_oldest=True,
        paused=True,
    )
    assert found.fifo
    assert (found.length_max, found.overflow) == (4, Overflow.DROP_OLDEST)
    assert not found.refuses_when_full, "room is made instead"


def test_what_is_set_is_found_in_the_rules_of_the_default_work_group() -> None:
    found = queue(
        lease_ms="1",
        deliveries_max="2",
        retry_policy="jittered",
        retry_delay_ms="3",
        retry_delay_max_ms="4",
        dead_letter_topic="dead",
        in_flight_max="5",
    )
    assert found.work_rules == WorkRules(
        lease_ms=1,
        deliveries_max=2,
        retry=Retry.JITTERED,
        retry_ms=3,
        retry_max_ms=4,
        dead=Dead.MOVE,
        in_flight_max=5,
    )
    assert found.dead_letter_topic == "dead"


def test_what_the_engine_does_itself() -> None:
    found = queue(wait_ms="20000", bytes_max="1", delete_acked="true", sqs=' {"a":1} ')
    assert (found.wait_ms, found.bytes_max, found.delete_acked) == (20_000, 1, True)
    assert found.sqs == '{"a":1}'
    assert found.refuses_when_full


@pytest.mark.parametrize(
    ("policy", "topic", "comes_to"),
    [
        ("move", "dead", Dead.MOVE),
        ("move", "", Dead.ARCHIVE),
        ("archive", "dead", Dead.ARCHIVE),
        ("discard", "dead", Dead.DISCARD),
    ],
)
def test_moving_needs_a_place_to_move_to(policy: str, topic: str, comes_to: Dead) -> None:
    found = queue(dead_letter_policy=policy, dead_letter_topic=topic)
    assert found.work_rules.dead is comes_to
    assert found.dead_letter_policy is Dead[policy.upper()]


@pytest.mark.parametrize("told", [{"priority": "strict"}, {"deduplication": "id"}])
def test_what_headers_tell_implies_reading_them(told: dict[str, str]) -> None:
    found = queue(**told)
    assert found.queue_rules.delivery_headers
    assert not found.message_headers
    assert queue(message_headers="true").queue_rules.delivery_headers
    assert not queue(order="fifo").queue_rules.delivery_headers, "the key is the group"


@pytest.mark.parametrize(
    ("configs", "problem"),
    [
        ({"queue.lease.ms": str(LEASE_MS_MAX + 1)}, "queue.lease.ms cannot be '43200001'"),
        ({"queue.wait.ms": "20001"}, "to 20000"),
        ({"queue.deliveries.max": "1001"}, "from 0 to 1000"),
        ({"queue.in.flight.max": "0"}, "from 1 to"),
        ({"queue.order": "lifo"}, "one of standard, fifo"),
        ({"queue.retry.policy": "hope"}, "none, fixed, linear, exponential, jittered"),
        ({"queue.dead.letter.policy": "burn"}, "move, archive, discard"),
        ({"queue.length.max": "0"}, "queue.length.max cannot be 0: it is -1 or at least 1"),
        ({"queue.bytes.max": "0"}, "queue.bytes.max cannot be 0"),
        ({"queue.ttl.ms": "0"}, "queue.ttl.ms cannot be 0"),
        (
            {"queue.retry.policy": "fixed", "queue.retry.delay.max.ms": "4999"},
            "queue.retry.delay.max.ms cannot be 4999.*which is 5000",
        ),
        (
            {"queue.bytes.max": "9", "queue.overflow": "drop-oldest"},
            "queue.bytes.max cannot be set with queue.overflow=drop-oldest",
        ),
        ({"queue.delete.acked": "true", "cleanup.policy": "compact"}, "delete.acked cannot be set"),
        ({"queue.length.max": "5", "cleanup.policy": "compact"}, "length.max cannot be set"),
        ({"queue.bytes.max": "5", "cleanup.policy": "compact,delete"}, "bytes.max cannot be set"),
        ({"queue.lease": "5"}, "did you mean queue.lease.ms"),
        (
            {"queue.sqs": "x" * (QUEUE_SQS_CHARACTERS_MAX + 1)},
            "16385 characters.*a text of at most 16384 characters",
        ),
        ({"queue.dead.letter.topic": "x" * 1_025}, "at most 1024 characters"),
    ],
)
def test_what_does_not_go_together_is_refused(configs: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfig, match=problem):
        parse_topic_configs(configs)


def test_a_delay_that_nobody_waits_for_may_be_anything() -> None:
    assert queue(retry_delay_max_ms="1").work_rules.retry is Retry.NONE


def test_what_sqs_keeps_may_be_long() -> None:
    text = "x" * QUEUE_SQS_CHARACTERS_MAX
    assert queue(sqs=text).sqs == text
