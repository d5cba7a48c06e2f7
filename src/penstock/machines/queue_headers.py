"""Reads the delivery headers of appended messages, as the rules of the queue have it.

The result is the same on every replica: it depends on the bytes of the log, the partition's rules
and log time alone. A header that cannot be read is ignored; a batch that cannot be opened at all
has ordinary messages.

Most batches need not be opened: unless rules ask for more, a batch that contains the prefix of
header names nowhere has no headers.
"""

from hashlib import sha256
from typing import NamedTuple

from penstock.core import delivery_headers
from penstock.core.errors import InvalidBatch
from penstock.core.limits import BATCH_UNPACKED_RECORDS_MAX
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import has_delivery_headers, read_messages
from penstock.core.queue_rules import (
    DEFAULT_PRIORITY,
    PRIORITIES,
    Deduplication,
    Priorities,
    QueueRules,
)
from penstock.core.types import Offset
from penstock.machines.recent_ids import make_id
from penstock.machines.run import Run, State

_NUMBER_DIGITS_MAX = 15
_LANE_BYTES_MAX = 1_024


class DeliveryHeaders(NamedTuple):
    """One message that is not like all others."""

    run: Run
    dedup: bytes | None
    origin: bytes | None


def read_delivery_headers(
    batch: bytes | memoryview, first: Offset, count: int, rules: QueueRules, now_ms: int
) -> list[DeliveryHeaders]:
    """The messages of a batch that are not like all others, in order; neighbours that are like
    each other are one run. The batch holds the offsets from `first` on, `count` of them."""
    if not _opens(batch, rules):
        return _uniform(first, count, rules, now_ms)
    try:
        messages = read_messages(batch)
    except InvalidBatch:
        if not rules.fifo:
            return _uniform(first, count, rules, now_ms)
        messages = [Message(Offset(first + number), 0, None, None) for number in range(count)]
    found: list[DeliveryHeaders] = []
    for message in messages:
        one = _read(message, rules, now_ms)
        if one is None:
            continue
        last = found[-1] if found else None
        if last is not None and _alike(last, one):
            last.run.length += 1
        else:
            found.append(one)
    return found


def claims_too_many(batch: bytes | memoryview, count: int, rules: QueueRules) -> bool:
    """The batch claims more messages than anyone opens. Release 0.1 stored what a header claimed,
    16 million messages in 66 bytes: one of them stands for all."""
    return count > BATCH_UNPACKED_RECORDS_MAX and _opens(batch, rules)


def may_open(rules: QueueRules) -> bool:
    """Some batches are opened, if not all."""
    return rules.delivery_headers or rules.fifo or rules.deduplication is not Deduplication.OFF


def _opens(batch: bytes | memoryview, rules: QueueRules) -> bool:
    if rules.fifo or rules.deduplication is not Deduplication.OFF:
        return True
    return rules.delivery_headers and has_delivery_headers(batch)


def recalled_headers(
    message: Message, rules: QueueRules
) -> tuple[Offset, int, bytes | None, int, int] | None:
    """What an old message says, for `Recall`: its delays count from its own time. Ids do not count:
    whether it was a duplicate was decided when it came, for the groups of that time."""
    one = _read(message, rules, message.timestamp_ms)
    if one is None:
        return None
    run = one.run
    return run.first, run.level, run.message_group, run.at_ms, run.expire_ms


def _uniform(first: Offset, count: int, rules: QueueRules, now_ms: int) -> list[DeliveryHeaders]:
    """All messages of the batch say nothing; the rules may still ask for something."""
    run = _plain(first, count, rules, now_ms)
    return [] if run is None else [DeliveryHeaders(run, None, None)]


def _plain(first: Offset, count: int, rules: QueueRules, now_ms: int) -> Run | None:
    if rules.delay_ms <= 0 and rules.ttl_ms < 0:
        return None
    return _run(
        first,
        count,
        at_ms=now_ms + rules.delay_ms if rules.delay_ms > 0 else -1,
        expire_ms=now_ms + rules.ttl_ms if rules.ttl_ms >= 0 else -1,
    )


def _run(
    first: Offset,
    count: int,
    *,
    at_ms: int,
    expire_ms: int,
    level: int = DEFAULT_PRIORITY,
    message_group: bytes | None = None,
) -> Run:
    state = State.READY if at_ms < 0 else State.DELAYED
    return Run(
        first, count, state, at_ms, level=level, message_group=message_group, expire_ms=expire_ms
    )


def _read(message: Message, rules: QueueRules, now_ms: int) -> DeliveryHeaders | None:
    said = dict(message.headers) if message.headers and rules.delivery_headers else _NOTHING
    level = DEFAULT_PRIORITY
    if rules.priorities is not Priorities.OFF:
        level = _number(said.get(delivery_headers.PRIORITY), DEFAULT_PRIORITY)
        level = min(level, PRIORITIES - 1)
    message_group = _message_group(message, said, rules)
    at_ms = max(
        now_ms + _number(said.get(delivery_headers.DELAY), rules.delay_ms),
        _number(said.get(delivery_headers.DELIVER_AT), 0),
    )
    expires = [
        now_ms + ttl_ms
        for ttl_ms in [_number(said.get(delivery_headers.TTL), rules.ttl_ms)]
        if ttl_ms >= 0
    ]
    if (expire_at := _number(said.get(delivery_headers.EXPIRE_AT), -1)) >= 0:
        expires.append(expire_at)
    expire_ms = min(expires, default=-1)
    origin = said.get(delivery_headers.ORIGIN)
    # A message that was moved is recognised by where it came from: it may well have been here
    # before, and is meant to be here again.
    dedup = _dedup_id(message, said, message_group, rules) if origin is None else None
    plain = (
        level == DEFAULT_PRIORITY and message_group is None and at_ms <= now_ms and expire_ms < 0
    )
    if plain and dedup is None and origin is None:
        return None
    run = _run(
        message.offset,
        1,
        at_ms=at_ms if at_ms > now_ms else -1,
        expire_ms=expire_ms,
        level=level,
        message_group=message_group,
    )
    return DeliveryHeaders(run, dedup, None if origin is None else make_id(b"origin", origin))


_NOTHING: dict[str, bytes | None] = {}


def _message_group(
    message: Message | NewMessage, said: dict[str, bytes | None], rules: QueueRules
) -> bytes | None:
    message_group = said.get(delivery_headers.GROUP)
    if rules.fifo:
        message_group = message_group or message.key or b""
    return (
        make_id(message_group)
        if message_group is not None and len(message_group) > _LANE_BYTES_MAX
        else message_group
    )


def _dedup_id(
    message: Message | NewMessage,
    said: dict[str, bytes | None],
    message_group: bytes | None,
    rules: QueueRules,
) -> bytes | None:
    if rules.deduplication is Deduplication.OFF:
        return None
    headers = said or dict(message.headers)
    one = headers.get(delivery_headers.DEDUP_ID)
    if one is None:
        if rules.deduplication is not Deduplication.CONTENT:
            return None
        one = sha256(message.value or b"").hexdigest().encode()
    return dedup_id(one, message_group, rules)


def id_of(message: NewMessage, rules: QueueRules) -> bytes | None:
    """The id under which a message will be remembered that is to be appended; None: under none."""
    if rules.deduplication is Deduplication.OFF:
        return None
    said = dict(message.headers) if rules.delivery_headers else _NOTHING
    if said.get(delivery_headers.ORIGIN) is not None:
        return None
    return _dedup_id(message, said, _message_group(message, said, rules), rules)


def message_group_of(message: NewMessage, rules: QueueRules) -> bytes | None:
    """What keeps messages together that is to be appended: its group, or its key."""
    message_group = message.key
    for name, value in message.headers:
        if name == delivery_headers.GROUP:
            message_group = value
    return message_group or (b"" if rules.fifo else None)


def dedup_id(one: bytes, message_group: bytes | None, rules: QueueRules) -> bytes:
    """The id under which a message is remembered."""
    return (
        make_id(b"id", one, message_group or b"")
        if rules.deduplication_by_group
        else make_id(b"id", one)
    )


def _alike(last: DeliveryHeaders, one: DeliveryHeaders) -> bool:
    """Neighbours that can share a run. Those with a lane or an id stand for themselves."""
    if one.dedup is not None or one.origin is not None or one.run.message_group is not None:
        return False
    if last.dedup is not None or last.origin is not None:
        return False
    run, other = last.run, one.run
    return (
        run.end == other.first
        and run.message_group is None
        and run.level == other.level
        and run.at_ms == other.at_ms
        and run.expire_ms == other.expire_ms
    )


def _number(text: bytes | None, default: int) -> int:
    if text is None or not 0 < len(text) <= _NUMBER_DIGITS_MAX or not text.isdigit():
        return default
    return int(text)
