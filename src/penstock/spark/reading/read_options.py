"""The options of the source: the names and meanings of Spark's Kafka connector, and a few more.

    kafka.bootstrap.servers, url        where the broker is: see `address`
    subscribe                           topics, "orders,payments"; or one of
    subscribePattern                    a regular expression for whole names of topics
    assign                              partitions, {"orders": [0, 1]}
    startingOffsets, endingOffsets      earliest, latest, or {"orders": {"0": 23, "1": -2}}, where
                                        -2 is earliest and -1 latest
    startingTimestamp, endingTimestamp  milliseconds since 1970, for all partitions
    startingOffsetsByTimestamp, endingOffsetsByTimestamp
                                        the same for each, {"orders": {"0": 1700000000000}}
    startingOffsetsByTimestampStrategy  if nothing is as late as that: error (default) or latest
    failOnDataLoss                      true: what was deleted unread is an error; false: a warning
    includeHeaders                      a column more
    minPartitions                       at least so many tasks
    maxRecordsPerPartition              at most so many messages to a task
    maxOffsetsPerTrigger                at most so many messages to a micro-batch
    minOffsetsPerTrigger                at least so many, or wait for
    maxTriggerDelay                     as long as this at most ("15m")
  ours:
    maxBytesPerTrigger                  about so many stored bytes to a micro-batch
    fetchTimeoutMs                      how long a task looks for a leader that answers (120000)
    pushFilters                         true: see `filters`

A time comes before offsets, as it does there. Options of Kafka's consumer (`kafka.…`) have no
meaning here and are passed over, but for those that would change what is read or who may read it:
these are refused; and but for `kafka.group.id`, by whose lag a stream is seen (`progress`). A name
that is unknown is refused with the nearest one, for a misspelt option is one that silently does
nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidRequest
from penstock.core.types import EARLIEST, LATEST
from penstock.spark.address import address_of

Offsets = dict[str, dict[int, int]]
"""Offsets by topic and partition."""

FETCH_TIMEOUT_MS: Final = 120_000
TRIGGER_DELAY: Final = "15m"

NAMES: Final = (
    "url", "subscribe", "subscribePattern", "assign", "queue", "workGroup",
    "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp",
    "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders", "minPartitions",
    "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "maxBytesPerTrigger", "fetchTimeoutMs", "pushFilters",
)  # fmt: skip
PASSED_OVER: Final = ("groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "path")
"""Options of the Kafka connector that have no effect here."""

_KNOWN: Final = {name.lower(): name for name in (*NAMES, *PASSED_OVER)}
_PASSED_OVER_BEGIN: Final = ("kafka.", "fetchoffset.", "kafkaconsumer.")
_REFUSED: Final = {
    "kafka.auto.offset.reset": "startingOffsets says where to begin",
    "kafka.enable.auto.commit": "the checkpoint keeps how far a query has got",
    "kafka.key.deserializer": "keys are bytes: cast the column",
    "kafka.value.deserializer": "values are bytes: cast the column",
    "kafka.interceptor.classes": "classes of Java are not run here",
}
_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or end of a read; one of the four is set, the others are None."""

    option: str
    """The name of the option, for messages."""
    word: int | None = None
    """`EARLIEST` or `LATEST`."""
    offsets: Offsets | None = None
    time_ms: int | None = None
    times: Offsets | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """All of them, checked; it goes to the tasks."""

    address: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Mapping[str, tuple[int, ...]] | None = None
    starting: Bound
    ending: Bound
    time_or_latest: bool = False
    """A time that nothing is as late as stands for the end, and is no error."""
    fail_on_data_loss: bool = True
    include_headers: bool = False
    partitions_min: int | None = None
    records_max: int | None = None
    """The largest number of records for one task."""
    trigger_offsets_max: int | None = None
    trigger_offsets_min: int | None = None
    trigger_bytes_max: int | None = None
    trigger_delay_seconds: float = 900.0
    fetch_seconds: float = FETCH_TIMEOUT_MS / 1_000
    push_filters: bool = False
    group: str = ""
    """The consumer group that a stream's progress is committed to: see `progress`."""


def read_options(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Check everything that can be checked without asking a broker."""
    given = {name.lower(): value for name, value in options.items()}
    check_names(given)
    topics, pattern, assigned = _which(given)
    starting = _bound(given, "starting", LATEST if is_stream else EARLIEST)
    ending = _bound(given, "ending", LATEST)
    _check_bounds(given, starting, ending, is_stream=is_stream)
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise InvalidRequest(
            f"startingOffsetsByTimestampStrategy is {strategy!r}: it is error or latest"
        )
    return ReadOptions(
        address=address_of(given),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=starting,
        ending=ending,
        time_or_latest=strategy == "latest",
        fail_on_data_loss=flag(given, "failOnDataLoss", default=True),
        include_headers=flag(given, "includeHeaders", default=False),
        partitions_min=_number(given, "minPartitions"),
        records_max=_number(given, "maxRecordsPerPartition"),
        trigger_offsets_max=_number(given, "maxOffsetsPerTrigger"),
        trigger_offsets_min=_number(given, "minOffsetsPerTrigger"),
        trigger_bytes_max=_bytes(given, "maxBytesPerTrigger"),
        trigger_delay_seconds=_seconds(given, "maxTriggerDelay", TRIGGER_DELAY),
        fetch_seconds=(_number(given, "fetchTimeoutMs") or FETCH_TIMEOUT_MS) / 1_000,
        push_filters=flag(given, "pushFilters", default=False),
        group=given.get("kafka.group.id", "").strip(),
    )


def check_names(given: Mapping[str, str]) -> None:
    """Refuse unknown options, and options that would be ignored at the user's peril."""
    for name in given:
        if name in _REFUSED:
            raise InvalidRequest(f"the option {name} has no place here: {_REFUSED[name]}")
        if name in _KNOWN or name.startswith(_PASSED_OVER_BEGIN):
            continue
        near = get_close_matches(name, _KNOWN, n=1)
        meant = f": perhaps {_KNOWN[near[0]]} was meant" if near else ""
        raise InvalidRequest(
            f"the source knows no option {name}{meant}. It knows {', '.join(NAMES)}"
        )
    protocol = given.get("kafka.security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise InvalidRequest(
            f"kafka.security.protocol is {protocol}, which the source does not speak: it would go"
            " on without. Leave the option out if that is right"
        )


def flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Parse an option that is true or false."""
    text = given.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidRequest(f"{name} is {text!r}: it is true or false")
    return text.lower() == "true"


# Which topics.


def _which(
    given: Mapping[str, str],
) -> tuple[tuple[str, ...], str, Mapping[str, tuple[int, ...]] | None]:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(chosen) != 1:
        said = f"{' and '.join(chosen)} are set" if chosen else "none of them is set"
        raise InvalidRequest(
            "what to read is said by one of subscribe, subscribePattern and assign (or queue):"
            f" {said}"
        )
    text = given[chosen[0].lower()]
    if chosen[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise InvalidRequest(f'subscribe is {text!r} and names no topic: write "orders"')
        return topics, "", None
    if chosen[0] == "assign":
        return (), "", _assigned(text)
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidRequest(f"subscribePattern is no regular expression: {error}") from error
    return (), text, None


def _assigned(text: str) -> Mapping[str, tuple[int, ...]]:
    try:
        parts = decode_json(text, dict[str, list[int]])
    except msgspec.DecodeError as error:
        raise InvalidRequest(f'assign is {text!r} ({error}): write {{"orders": [0, 1]}}') from error
    found = {topic: tuple(sorted(set(indexes))) for topic, indexes in parts.items() if indexes}
    if not found or any(index < 0 for indexes in found.values() for index in indexes):
        raise InvalidRequest(f'assign is {text!r} and names no partition: write {{"orders": [0]}}')
    return found


# Where to begin and to end.


def _bound(given: Mapping[str, str], side: str, default: int) -> Bound:
    """A time for all comes first, then times, then offsets."""
    name = f"{side}Timestamp"
    if (text := given.get(name.lower())) is not None:
        if not text.strip().isdecimal():
            raise InvalidRequest(f"{name} is {text!r}: write milliseconds since 1970")
        return Bound(name, time_ms=int(text))
    name = f"{side}OffsetsByTimestamp"
    if (text := given.get(name.lower())) is not None:
        return Bound(name, times=parse_offsets(name, text, least=0))
    name = f"{side}Offsets"
    text = given.get(name.lower(), "").strip()
    if not text:
        return Bound(name, word=default)
    if text.lower() in ("earliest", "latest"):
        return Bound(name, word=EARLIEST if text.lower() == "earliest" else LATEST)
    return Bound(name, offsets=parse_offsets(name, text, least=EARLIEST))


def parse_offsets(name: str, text: str, *, least: int) -> Offsets:
    """Parse {"orders": {"0": 23}}."""
    try:
        found = decode_json(text, dict[str, dict[int, int]])
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f'{name} is {text!r} ({error}): write {{"orders": {{"0": 23, "1": 5}}}}, earliest or'
            " latest"
        ) from error
    for topic, offsets in found.items():
        for index, offset in offsets.items():
            if offset < least or index < 0:
                raise InvalidRequest(
                    f"{name} says {offset} for partition {index} of {topic}: that is none"
                )
    return found


def _check_bounds(
    given: Mapping[str, str], starting: Bound, ending: Bound, *, is_stream: bool
) -> None:
    if is_stream:
        if ending.option.lower() in given:
            raise InvalidRequest(f"{ending.option} is for batch reads: a stream has no end")
        return
    if starting.word == LATEST or LATEST in _numbers(starting):
        raise InvalidRequest(
            "startingOffsets cannot be latest in a batch read: there is nothing to read after it"
        )
    if ending.word == EARLIEST or EARLIEST in _numbers(ending):
        raise InvalidRequest("endingOffsets cannot be earliest: there is nothing to read before it")


def _numbers(bound: Bound) -> set[int]:
    by_topic = (bound.offsets or {}).values()
    return {offset for offsets in by_topic for offset in offsets.values()}


# Numbers.


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise InvalidRequest(f"{name} is {text!r}: write a number, 1 or more")
    return int(text)


def _bytes(given: Mapping[str, str], name: str) -> int | None:
    """With or without a unit: 100000, 64k, 128m, 1g, as Spark writes sizes."""
    text = given.get(name.lower())
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+)\s*([kmg]?)(?:i?b)?\s*", text.lower())
    if found is None or int(found[1]) < 1:
        raise InvalidRequest(f"{name} is {text!r}: write a number of bytes, or 64k, 128m, 1g")
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]]


def _seconds(given: Mapping[str, str], name: str, default: str) -> float:
    """Parse a duration as Spark writes it: 15m, 30s, 500ms."""
    text = given.get(name.lower(), default)
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or (found[2] or "ms") not in _UNITS:
        raise InvalidRequest(f"{name} is {text!r}: write a duration like 15m, 30s or 500ms")
    return int(found[1]) * _UNITS[found[2] or "ms"]
