"""The settings of a new queue, where its maker does not choose others.

A message that fails must neither come back for ever nor get lost. So a queue that is made on
purpose, or by being sent to, has a delivery limit, a retry curve with jitter and a dead-letter
queue, each unless it is given. The SQS API keeps the defaults of AWS, and a topic that is made as a
topic has none of it. The defaults of the topic configs themselves are what they were, so that a
queue that is there already stays as it is.
"""

import math
from collections.abc import Mapping
from typing import Final

from penstock.core.limits import TOPIC_NAME_CHARACTERS_MAX
from penstock.core.topic_configs import TOPIC_CONFIGS

DEAD_LETTER_SUFFIX: Final = "-dlq"
DEAD_LETTER_TOPIC: Final = "queue.dead.letter.topic"
FIFO_SUFFIX: Final = ".fifo"
"""SQS wants it at the very end of the name of a FIFO queue."""

DELIVERIES_MAX: Final = "5"
RETRY_POLICY: Final = "jittered"
RETRY_DELAY_MS: Final = "2000"
"""Waits of 2–4, 3–8, 6–16 and 12–32 seconds: a message is dead after half a minute or a whole
one."""

_DELIVERIES = "queue.deliveries.max"
_RETRY = "queue.retry.policy"
_RETRY_DELAY = "queue.retry.delay.ms"
_RETRY_DELAY_MAX = "queue.retry.delay.max.ms"
_DEAD_POLICY = "queue.dead.letter.policy"

QUEUE_DEFAULTS: Final[Mapping[str, str]] = {
    "queue.delete.acked": "true",
    "queue.message.headers": "true",
}
"""The configs of a queue that is created explicitly: messages may carry delivery headers, and are
deleted when every work group has acknowledged them."""
FIRST_USE_DEFAULTS: Final[Mapping[str, str]] = {
    "queue.deduplication": "id",
    "queue.message.headers": "true",
}
"""The configs of a queue that is created by its first use: delays, priorities and ids are honoured.
A message without them costs nothing."""


def dead_letter_name(queue: str) -> str:
    """The dead-letter queue that a queue is given; empty if it is one itself, or if its name has
    no room for the suffix: then dead messages stay in the queue, out of the way."""
    stem = queue.removesuffix(FIFO_SUFFIX)
    name = f"{stem}{DEAD_LETTER_SUFFIX}{queue[len(stem) :]}"
    if stem.endswith(DEAD_LETTER_SUFFIX) or len(name) > TOPIC_NAME_CHARACTERS_MAX:
        return ""
    return name


def failure_configs(queue: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the failure handling of a new queue, as far as the caller has not set it."""
    configs: dict[str, str] = {}
    if _DELIVERIES not in given:
        configs[_DELIVERIES] = DELIVERIES_MAX
    if _RETRY not in given:
        configs[_RETRY] = RETRY_POLICY
        if _RETRY_DELAY not in given:
            configs[_RETRY_DELAY] = min(RETRY_DELAY_MS, given.get(_RETRY_DELAY_MAX, ""), key=_wait)
    longest = int(TOPIC_CONFIGS[_RETRY_DELAY_MAX].default)
    if _RETRY_DELAY_MAX not in given and longest < _wait(given.get(_RETRY_DELAY, "0")) < math.inf:
        configs[_RETRY_DELAY_MAX] = given[_RETRY_DELAY]  # A first wait above it raises the longest.
    letters = dead_letter_name(queue)
    if letters and DEAD_LETTER_TOPIC not in given and given.get(_DEAD_POLICY, "move") == "move":
        configs[DEAD_LETTER_TOPIC] = letters
    return configs


def _wait(text: str) -> float:
    """Of a text that is no number the check of the configs says so."""
    return int(text) if text.isdecimal() and len(text) < 20 else math.inf
