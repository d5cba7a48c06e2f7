"""The options of `create_queue`, in the words of Python, as topic configs.

    lease=30                 queue.lease.ms=30000
    deliveries_max=3         queue.deliveries.max=3, and 0: any number
    dead_letter="failed"     queue.dead.letter.topic=failed, and "": none
    retry="exponential"      queue.retry.policy=exponential
    retry_delay=2            queue.retry.delay.ms=2000 (and .max.ms, if that is shorter)
    fifo=True                queue.order=fifo
    delay=5                  queue.delay.ms=5000
    ttl=3600                 queue.ttl.ms=3600000
    priorities="strict"      queue.priority=strict
    deduplication="id"       queue.deduplication=id
    length_max=1000          queue.length.max=1000
    settings={…}             as they are: every other topic config

What is wrong is said here, with the name the caller typed, before anything goes over the wire. The
ranges are the table's (`core.topic_configs`), of which the broker has the last word.

A topic that is made to be a queue reads what messages say about themselves, and deletes what every
work group is done with; both can be switched off by `settings`. What is not said about messages
that fail is as safe as `core.queue_defaults` has it.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from penstock.client.seconds import Seconds, to_milliseconds
from penstock.core.configs import Config, check_config_names
from penstock.core.errors import InvalidConfig
from penstock.core.queue_defaults import QUEUE_DEFAULTS, failure_configs
from penstock.core.queue_rules import Retry
from penstock.core.topic_configs import (
    TOPIC_CONFIGS,
    check_topic_config_names,
    parse_topic_configs,
)
from penstock.core.work_settings import WORK_CONFIGS, parse_work_configs

RetryName: TypeAlias = Literal["none", "fixed", "linear", "exponential", "jittered"]
PrioritiesName: TypeAlias = Literal["strict", "weighted"]
DeduplicationName: TypeAlias = Literal["id", "content"]

_RETRY = "queue.retry.policy"
_RETRY_DELAY = "queue.retry.delay.ms"


def given_configs(
    *,
    lease: Seconds | None = None,
    deliveries_max: int | None = None,
    dead_letter: str | None = None,
    retry: RetryName | None = None,
    retry_delay: Seconds | None = None,
    fifo: bool = False,
    delay: Seconds | None = None,
    ttl: Seconds | None = None,
    priorities: PrioritiesName | None = None,
    deduplication: DeduplicationName | None = None,
    length_max: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the configs of a new queue; raise `InvalidConfig` or `InvalidRequest` if they are
    wrong."""
    durations = (
        ("lease", "queue.lease.ms", lease),
        ("retry_delay", _RETRY_DELAY, retry_delay),
        ("delay", "queue.delay.ms", delay),
        ("ttl", "queue.ttl.ms", ttl),
    )
    others: tuple[tuple[str, str, str | int | None], ...] = (
        ("deliveries_max", "queue.deliveries.max", deliveries_max),
        ("dead_letter", "queue.dead.letter.topic", dead_letter),
        ("retry", _RETRY, retry),
        ("fifo", "queue.order", "fifo" if fifo else None),
        ("priorities", "queue.priority", priorities),
        ("deduplication", "queue.deduplication", deduplication),
        ("length_max", "queue.length.max", length_max),
    )
    chosen = _chosen(durations, others)
    return {**_read_settings(settings or {}, chosen), **chosen}


def queue_configs(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """The topic configs of a new queue of which this was chosen."""
    configs = {**QUEUE_DEFAULTS, **failure_configs(name, given), **given}
    if _RETRY_DELAY in given and configs[_RETRY] == Retry.NONE.name.lower():
        raise InvalidConfig('retry_delay means nothing with retry="none": leave one of them out')
    parse_topic_configs(configs)
    return configs


def differences(given: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The configs that were chosen and are others at a queue that is there: its own, by name."""
    found: dict[str, str] = {}
    for name, text in given.items():
        config = TOPIC_CONFIGS[name]
        there = present.get(name, config.default)
        if config.parse(there) != config.parse(text):
            found[name] = there
    return found


def group_configs(
    *,
    lease: Seconds | None = None,
    deliveries_max: int | None = None,
    dead_letter: str | None = None,
    retry: RetryName | None = None,
    retry_delay: Seconds | None = None,
    settings: Mapping[str, str | None] | None = None,
) -> dict[str, str | None]:
    """The settings of a work group that are to change, by name; None: to be inherited again."""
    durations = (("lease", "queue.lease.ms", lease), ("retry_delay", _RETRY_DELAY, retry_delay))
    others: tuple[tuple[str, str, str | int | None], ...] = (
        ("deliveries_max", "queue.deliveries.max", deliveries_max),
        ("dead_letter", "queue.dead.letter.topic", dead_letter),
        ("retry", _RETRY, retry),
    )
    chosen = _chosen(durations, others)
    check_config_names(WORK_CONFIGS, settings or {}, "work group setting")
    told = {name: text for name, text in (settings or {}).items() if text is not None}
    inherited = dict.fromkeys(name for name in (settings or {}) if name not in told)
    for config in inherited:
        if config in chosen:
            raise InvalidConfig(f"{config} is set by an option and taken back in settings")
    configs = {**_read_settings(told, chosen), **chosen}
    parse_work_configs(configs)
    return {**inherited, **configs}


def _chosen(
    durations: Iterable[tuple[str, str, Seconds | None]],
    others: Iterable[tuple[str, str, str | int | None]],
) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for option, config, duration in durations:
        if duration is not None:
            chosen[config] = _duration_text(option, TOPIC_CONFIGS[config], duration)
    for option, config, value in others:
        if value is not None:
            chosen[config] = _text(option, TOPIC_CONFIGS[config], value)
    return chosen


def _duration_text(option: str, config: Config, duration: Seconds) -> str:
    milliseconds = to_milliseconds(duration, option)
    if milliseconds > config.most or (config.least < 0 and milliseconds == 0):
        least = "above 0" if config.least < 0 else "from 0"
        raise InvalidConfig(
            f"{option}={duration!r} cannot be: it is {least} to {config.most // 1000} seconds"
        )
    return str(milliseconds)


def _text(option: str, config: Config, value: str | int) -> str:
    text = str(value)
    refused = isinstance(value, bool) or (config.least < 0 and text in ("0", "-1"))
    if not refused:
        try:
            config.parse(text)
        except InvalidConfig:
            refused = True
    if refused:
        allowed = config.allowed.replace("from -1", "from 1")
        raise InvalidConfig(f"{option}={value!r} cannot be: it is {allowed}")
    return text


def _read_settings(settings: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    check_topic_config_names(settings)
    told = dict(settings)
    for config, text in told.items():
        if not isinstance(text, str):
            raise InvalidConfig(
                f"settings[{config!r}] is {text!r}, and configs are texts: write {str(text)!r}"
            )
        if chosen.get(config, text) != text:
            raise InvalidConfig(
                f"{config} is given twice, by an option as {chosen[config]!r} and in settings as"
                f" {text!r}"
            )
    return told
