"""Admission: a record batch is checked before it is proposed, so that what is stored can be read.

    header    size, times, against the topic's configs; checksum and sequence follow in `plan`
    records   decompressed and checked (`core.record_check`); in a compacted topic each has a key

Most batches are checked at once, in microseconds. Those that are compressed, or large and irregular
are checked in a thread, and batches that come for the same partition meanwhile wait behind them:
the order of calls is the order of offsets, whatever each of them takes. A batch that takes more
than its budget of bytes, records and processor time is refused as one that is wrong.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.core.clock import pause_thread, worked_seconds
from penstock.core.compression import decompress
from penstock.core.errors import (
    BatchTooLarge,
    InvalidBatch,
    InvalidTimestamp,
    MissingKeys,
    Overloaded,
    PenstockError,
    Unavailable,
)
from penstock.core.limits import (
    BATCH_UNPACKED_PARTS_MAX,
    BATCH_UNPACKED_RECORDS_MAX,
    CHECK_MS_MAX,
    CHECKED_AT_ONCE_PACKED_BYTES_MAX,
    CHECKED_AT_ONCE_PARTS_MAX,
    CHECKED_AT_ONCE_RECORDS_MAX,
    CHECKED_AT_ONCE_UNPACKED_BYTES_MAX,
    CHECKS_WAITING_BYTES_MAX,
    HEADER_BATCH_RECORDS_MAX,
    QUEUE_BATCH_RECORDS_MAX,
    RECORD_ERRORS_MAX,
)
from penstock.core.queue_rules import Deduplication
from penstock.core.record_bodies import CODEC_MASK, read_records
from penstock.core.record_check import STRETCH_MIN, check_few_records, check_records
from penstock.core.records import BATCH_HEADER_BYTES, check_batch
from penstock.core.topic import Topic
from penstock.core.topic_configs import TopicSettings
from penstock.core.types import PartitionId

Batch = bytearray | memoryview
Admitted = Callable[[PenstockError | None], None]
"""Called with what keeps a batch out; None if it is admitted."""

_PAUSE_SECONDS: Final = 0.0001
_NO_TIME: Final = -1
_TIMES: Final = struct.Struct(">27xqq14xi")
_OUTLINE: Final = struct.Struct(">8xi4xb4xh34xi")
_LENGTH_FROM: Final = 12


def check_header(topic: Topic, batch: Batch, now_ms: int | None) -> None:
    """Raise what keeps the batch out for good, by its size, number of messages and times. Times are
    not looked at if the broker's is None."""
    settings = topic.settings
    if len(batch) > settings.message_bytes_max:
        raise BatchTooLarge(
            f"a record batch of {len(batch)} bytes is above the topic's max.message.bytes"
            f" of {settings.message_bytes_max}"
        )
    if len(batch) < BATCH_HEADER_BYTES:
        return
    earliest_ms, latest_ms, count = _TIMES.unpack_from(batch)
    if count > QUEUE_BATCH_RECORDS_MAX:
        _check_count(topic, count)
    if settings.log_append_time or now_ms is None:
        return
    if latest_ms > now_ms + settings.timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"a message for topic {topic.name} has the time {latest_ms}, {latest_ms - now_ms} ms"
            " ahead of the broker's; message.timestamp.after.max.ms of the topic is"
            f" {settings.timestamp_after_max_ms}"
        )
    if _NO_TIME != earliest_ms < now_ms - settings.timestamp_before_max_ms:
        raise InvalidTimestamp(
            f"a message for topic {topic.name} has the time {earliest_ms}, {now_ms - earliest_ms}"
            " ms behind the broker's; message.timestamp.before.max.ms of the topic is"
            f" {settings.timestamp_before_max_ms}"
        )


def _check_count(topic: Topic, count: int) -> None:
    """All replicas look at each message of some queues, while they apply: that may not take long.
    Most of that is for messages that are remembered one by one."""
    rules = topic.settings.queue.queue_rules
    if rules.fifo or rules.deduplication is not Deduplication.OFF:
        most = QUEUE_BATCH_RECORDS_MAX
    elif rules.reads_messages:
        most = HEADER_BATCH_RECORDS_MAX
    else:
        return
    if count > most:
        raise InvalidBatch(
            f"{count} messages in one batch for queue {topic.name}, which looks at each of them;"
            f" {most} at most: send smaller batches"
        )


class Admission:
    """For one node."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[PartitionId, deque[_Waiting]] = {}
        self._waiting_bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False

    def check_now(
        self, partition: PartitionId, settings: TopicSettings, batch: Batch, *, is_sound: bool
    ) -> bool:
        """Raise what is wrong with the records; False if that takes longer, or if the batch has to
        wait for an earlier one: then it is for `check_later`. One that this node has built itself
        `is_sound`, but for the keys that a compacted topic asks for."""
        if partition in self._waiting:
            return False
        if is_sound and not settings.compacts:
            return True
        if settings.validates_records or _checks_records(settings):
            return _check_at_once(settings, batch)
        return True

    def check_later(
        self, partition: PartitionId, settings: TopicSettings, batch: Batch, admitted: Admitted
    ) -> None:
        """Check in a thread; the callbacks of a partition come in the order of these calls."""
        if self._closed:
            raise Unavailable("this node is stopping")
        if self._waiting and self._waiting_bytes + len(batch) > CHECKS_WAITING_BYTES_MAX:
            raise Overloaded("too many bytes wait to be checked; slow down")
        one = _Waiting(len(batch), admitted)
        self._waiting.setdefault(partition, deque()).append(one)
        self._waiting_bytes += one.size
        if not _checks_records(settings):
            one.checked = True
            return
        self._one_thread().submit(self._work, partition, settings, batch, one)

    async def check(self, settings: TopicSettings, batch: Batch) -> None:
        """Raise what is wrong with the records, wherever the batch is to go."""
        if not _checks_records(settings) or _check_at_once(settings, batch):
            return
        if self._closed:
            raise Unavailable("this node is stopping")
        checking = self._loop.run_in_executor(self._one_thread(), _problem_of, settings, batch)
        await asyncio.wait([checking])
        if checking.cancelled():
            raise Unavailable("this node is stopping")
        if (problem := checking.result()) is not None:
            raise problem

    def close(self) -> None:
        """Nothing is admitted any more; what waits is refused."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for queue in waiting.values():
            for one in queue:
                one.admitted(Unavailable("this node is stopping"))
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _one_thread(self) -> ThreadPoolExecutor:
        """One for the node: what its batches unpack to is in memory for one of them at a time."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-admission")
        return self._thread

    def _work(
        self, partition: PartitionId, settings: TopicSettings, batch: Batch, one: "_Waiting"
    ) -> None:
        one.problem = _problem_of(settings, batch)
        try:
            self._loop.call_soon_threadsafe(self._note_checked, partition, one)
        except RuntimeError:
            return  # The loop is closed: the process is ending, and no caller waits.

    def _note_checked(self, partition: PartitionId, one: "_Waiting") -> None:
        one.checked = True
        queue = self._waiting.get(partition)
        while queue and queue[0].checked:
            first = queue[0]
            self._waiting_bytes -= first.size
            if len(queue) == 1:
                del self._waiting[partition]  # The callback may bring the next batch.
            queue.popleft()
            first.admitted(first.problem)


class _Waiting:
    """A batch in the queue of its partition."""

    __slots__ = ("admitted", "checked", "problem", "size")

    def __init__(self, size: int, admitted: Admitted) -> None:
        self.size = size
        self.admitted = admitted
        self.checked = False
        self.problem: PenstockError | None = None


def _checks_records(settings: TopicSettings) -> bool:
    """A queue that looks at its messages does so on every replica, while entries are applied: what
    it cannot open, or not soon, must not be stored, whatever the topic says."""
    return (
        settings.validates_records or settings.compacts or settings.queue.queue_rules.reads_messages
    )


def _outline(batch: Batch) -> tuple[int, int]:
    """Codec and record count, if the header can be believed so far that the records are found;
    otherwise a count of 0: what is wrong is for `check_batch` to say, in `plan`."""
    if len(batch) < BATCH_HEADER_BYTES:
        return 0, 0
    length, magic, attributes, count = _OUTLINE.unpack_from(batch)
    if magic != 2 or length + _LENGTH_FROM != len(batch):
        return 0, 0
    return attributes & CODEC_MASK, count if count > 0 else 0


def _check_at_once(settings: TopicSettings, batch: Batch) -> bool:
    """Check what takes microseconds; False if it takes longer."""
    codec, count = _outline(batch)
    if not count:
        return True
    if not codec and count < STRETCH_MIN and not settings.compacts:
        try:
            check_few_records(batch, BATCH_HEADER_BYTES, count)
        except InvalidBatch:
            check_batch(batch)  # See `_check_body`.
            raise
        return True
    if codec and len(batch) > CHECKED_AT_ONCE_PACKED_BYTES_MAX:
        return False
    if settings.compacts and count > CHECKED_AT_ONCE_RECORDS_MAX:
        return False
    packed = memoryview(batch)[BATCH_HEADER_BYTES:]
    try:
        body = decompress(
            packed, codec, CHECKED_AT_ONCE_PARTS_MAX, CHECKED_AT_ONCE_UNPACKED_BYTES_MAX
        )
    except InvalidBatch:
        return False  # Perhaps it is only large.
    left = CHECKED_AT_ONCE_RECORDS_MAX

    def may_walk(more: int) -> bool:
        nonlocal left
        left -= more
        return left >= 0

    return _check_body(settings, batch, count, body, may_walk)


def _problem_of(settings: TopicSettings, batch: Batch) -> PenstockError | None:
    """What keeps the batch out, without the traceback: its frames hold the unpacked records, until
    the producer has its answer or the garbage collector comes."""
    try:
        _check_in_thread(settings, batch)
    except PenstockError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    return None


def _check_in_thread(settings: TopicSettings, batch: Batch) -> None:
    """Check within the budget; the interpreter is let go every now and then."""
    codec, count = _outline(batch)
    if not count:
        return
    check_batch(batch)
    if count > BATCH_UNPACKED_RECORDS_MAX:
        raise InvalidBatch(
            f"the batch says it has {count} records; {BATCH_UNPACKED_RECORDS_MAX} at most"
        )
    began = worked_seconds()
    packed = memoryview(batch)[BATCH_HEADER_BYTES:]
    body = decompress(packed, codec, BATCH_UNPACKED_PARTS_MAX)

    def may_walk(_count: int) -> bool:
        pause_thread(_PAUSE_SECONDS)
        return worked_seconds() - began < CHECK_MS_MAX / 1_000

    if not _check_body(settings, batch, count, body, may_walk):
        raise InvalidBatch(f"the batch takes more than {CHECK_MS_MAX} ms to check; send less")


def _check_body(
    settings: TopicSettings,
    batch: Batch,
    count: int,
    body: bytes,
    may_walk: Callable[[int], bool],
) -> bool:
    try:
        done = check_records(body, count, may_walk)
        if done and settings.compacts:
            _check_keys(batch)
    except InvalidBatch:
        check_batch(batch)  # If the checksum is wrong, too, this is damage and can be sent again.
        raise
    return done


def _check_keys(batch: Batch) -> None:
    """Compaction keeps the last message of each key, so there must be one."""
    records = enumerate(read_records(batch).records)
    missing = [number for number, record in records if record.key is None]
    if missing:
        raise MissingKeys(
            "the topic is compacted by key, and a record without one came: give it a key",
            records=missing[:RECORD_ERRORS_MAX],
        )
