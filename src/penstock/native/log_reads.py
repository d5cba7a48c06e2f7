"""Reading the log, for native clients: answered by the node that leads the partitions.

A fetch reads whole batches as they are stored, in the order of the request, until its bytes are
used up; the first batch of an answer may be larger than that, so that every reader gets on. If
there is nothing at all it waits, and looks again when a partition has grown or has changed hands.
"""

import asyncio

from penstock.core.batch_times import first_message_from
from penstock.core.errors import InvalidRequest, PenstockError
from penstock.core.limits import MIB
from penstock.core.memory_budget import ONE_BATCH, MemoryAccount
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId, ShardId, TopicId
from penstock.engine.topics.poll_time import parked
from penstock.native.context import Buffer, Context, Handlers, Reply
from penstock.wire.failures import describe_error
from penstock.wire.read_requests import (
    FETCH_PARTS_MAX,
    NO_OFFSET,
    AskOffset,
    AskOffsets,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    OffsetFound,
    OffsetsFound,
)

FETCH_BYTES_MAX = 16 * MIB
"""The largest answer to a fetch, but for a first batch that is larger."""
FETCH_WAIT_MS_MAX = 60_000


# Fetching.


async def answer_fetch(context: Context, request: Fetch, account: MemoryAccount | None) -> Reply:
    """Batches, now or as soon as there are any, and memory to read them into."""
    _check_count(len(request.parts))
    found = _look(context, request, account)
    wait_ms = min(request.wait_ms, FETCH_WAIT_MS_MAX)
    if found.says_something or wait_ms <= 0 or not request.parts:
        return found.reply(context)
    woken = asyncio.Event()
    watch = context.engine.topics.watch(found.partitions(), woken.set)
    try:
        async with asyncio.timeout(wait_ms / 1_000):
            while not found.says_something:
                # It may have come before the watch began.
                found = _look(context, request, account)
                if not found.says_something:
                    if found.is_short and account is not None:
                        account.wait(woken.set)
                    with parked():
                        await woken.wait()
                    woken.clear()
    except TimeoutError:
        pass
    finally:
        watch.cancel()
    return found.reply(context)


class _Found:
    """What one look at the partitions has brought."""

    def __init__(self, bytes_max: int, account: MemoryAccount | None) -> None:
        self.rows: list[FetchedPart] = []
        self.batches: list[bytes] = []
        self.size = 0
        self.failed = False
        self.is_short = False
        """The memory budget has less room than it would read."""
        self.places: list[tuple[Topic, int]] = []
        self.messages: list[tuple[str, int]] = []
        """How many, by topic."""
        self._bytes_max = bytes_max
        self._account = account

    def bytes_end(self) -> int:
        """How much there may be in all. The connection draws for the answer before anything else
        happens, so what is read is not drawn itself."""
        if self._account is not None:
            wanted = max(self._bytes_max, ONE_BATCH)
            self._bytes_max = self._account.room(wanted)
            self.is_short = self._bytes_max < wanted
            self._account = None  # It is asked once.
        return self._bytes_max

    @property
    def says_something(self) -> bool:
        return self.failed or self.size > 0

    def partitions(self) -> list[PartitionId]:
        return [topic.partitions[index] for topic, index in self.places]

    def reply(self, context: Context) -> Reply:
        for topic, count in self.messages:
            context.flow.delivered(topic, count)
        payload: Buffer = self.batches[0] if len(self.batches) == 1 else b"".join(self.batches)
        return Fetched(tuple(self.rows)), payload


def _look(context: Context, request: Fetch, account: MemoryAccount | None) -> _Found:
    found = _Found(max(0, min(request.bytes_max, FETCH_BYTES_MAX)), account)
    for part in request.parts:
        try:
            row = _look_at(context, part, found)
        except PenstockError as error:
            found.failed = True
            row = FetchedPart(part.topic_id, part.index, -1, -1, 0, describe_error(error))
        found.rows.append(row)
    return found


def _look_at(context: Context, part: FetchPart, found: _Found) -> FetchedPart:
    topic = context.topic(part.topic_id)
    log_start, high_watermark = context.engine.topics.bounds(topic, part.index)
    found.places.append((topic, part.index))
    size = 0
    if part.offset != high_watermark:
        left = found.bytes_end() - found.size
        if left > 0 or (not found.size and not found.is_short):
            offset = Offset(part.offset)
            data, end = context.engine.topics.read_stretch(topic, part.index, offset, max(left, 0))
            if data and (len(data) <= left or not found.size):
                found.messages.append((topic.name, end - offset))
                size = len(data)
                found.size += size
                found.batches.append(data)
    return FetchedPart(part.topic_id, part.index, log_start, high_watermark, size)


# Offsets.


async def answer_offsets(context: Context, request: AskOffsets, _payload: memoryview) -> Reply:
    """The ends of logs, and messages by their time."""
    _check_count(len(request.parts))
    unsure = await _confirm(context, request)
    rows = []
    for part in request.parts:
        try:
            rows.append(await _find(context, part, unsure))
        except PenstockError as error:
            failure = describe_error(error)
            rows.append(OffsetFound(part.topic_id, part.index, NO_OFFSET, failure=failure))
    return OffsetsFound(tuple(rows)), b""


async def _confirm(context: Context, request: AskOffsets) -> dict[ShardId, PenstockError]:
    """Be sure to be up to date, once for each shard; those that cannot be, and why."""
    engine = context.engine
    by_shard: dict[ShardId, tuple[Topic, int]] = {}
    for part in request.parts:
        topic = engine.topics.catalog.topic_by_id(TopicId(part.topic_id))
        if topic is not None and 0 <= part.index < len(topic.partitions):
            if part.time_ms != EARLIEST:
                by_shard[engine.topics.shard_of(topic.partitions[part.index])] = (topic, part.index)
    outcomes = await asyncio.gather(
        *(engine.topics.confirm(topic, index) for topic, index in by_shard.values()),
        return_exceptions=True,
    )
    unsure: dict[ShardId, PenstockError] = {}
    for shard, outcome in zip(by_shard, outcomes, strict=True):
        if isinstance(outcome, PenstockError):
            unsure[shard] = outcome
        elif outcome is not None:
            raise outcome
    return unsure


async def _find(
    context: Context, part: AskOffset, unsure: dict[ShardId, PenstockError]
) -> OffsetFound:
    engine = context.engine
    topic = context.topic(part.topic_id)
    bounds = engine.topics.bounds(topic, part.index)
    if part.time_ms == EARLIEST:
        return OffsetFound(part.topic_id, part.index, bounds.log_start)
    problem = unsure.get(engine.topics.shard_of(topic.partitions[part.index]))
    if problem is not None:
        raise problem
    if part.time_ms == LATEST:
        return OffsetFound(part.topic_id, part.index, bounds.high_watermark)
    found = engine.topics.offset_for_time(topic, part.index, max(0, part.time_ms))
    if found is None:
        return OffsetFound(part.topic_id, part.index, bounds.high_watermark)
    batches = engine.topics.read(topic, part.index, found[0], ONE_BATCH)
    # Opening a batch may take long, and the node has more to do.
    exact = await asyncio.to_thread(first_message_from, batches, part.time_ms, bounds.log_start)
    offset, time_ms = exact or found
    return OffsetFound(part.topic_id, part.index, max(offset, bounds.log_start), time_ms)


def _check_count(count: int) -> None:
    if count > FETCH_PARTS_MAX:
        raise InvalidRequest(f"{count} partitions in one request, {FETCH_PARTS_MAX} at most")


READ_HANDLERS: Handlers = {AskOffsets: answer_offsets}
