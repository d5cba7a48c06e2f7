"""Prefetching: messages are fetched before they are asked for, within a byte budget.

A planner looks at all places whenever something has changed, and sends off what can be done: places
that are not settled are settled, and places that want more are fetched, all those of one leader in
one request. A place is part of one request at a time. Requests wait at the broker until there is
something, so a node is asked by two at most: one for the partitions that are quiet and one for
those that are not.

Whatever goes wrong concerns the places it happened to. They rest, for longer each time, and what is
known of their leaders is asked for again; the others go on.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Final

from penstock.client.connection.channel import Buffer
from penstock.client.connection.request_router import NOTHING, RequestRouter
from penstock.client.reader.membership import unforeseen
from penstock.client.reader.positions import Place, TopicPartition
from penstock.core.errors import (
    ClientClosed,
    NotLeader,
    OffsetOutOfRange,
    PenstockError,
)
from penstock.core.limits import CALL_PAUSE_SECONDS
from penstock.core.retries import Backoff, PauseBounds
from penstock.wire.failures import remake_error
from penstock.wire.read_requests import FETCH_PARTS_MAX, Fetch, Fetched, FetchPart

log = logging.getLogger("penstock.client")

REQUESTS_PER_NODE: Final = 2
FETCH_BYTES_MIN: Final = 64 * 1024
FIND_SECONDS: Final = 3.0
"""The timeout of one lookup of a leader or of a start position."""
REST: Final = PauseBounds(CALL_PAUSE_SECONDS, 0.5)
"""The pause of a partition after a failure: a new leader is elected within a second or two."""

Settle = Callable[[Sequence[Place], float], Coroutine[object, object, None]]


class Prefetch:
    """See the top of this module. `places` belongs to the owner, who calls `wake` after changes."""

    def __init__(
        self,
        router: RequestRouter,
        places: dict[TopicPartition, Place],
        *,
        settle: Settle,
        on_news: Callable[[Place], None],
        on_out_of_range: Callable[[Place], None],
        on_failed: Callable[[PenstockError], None],
        messages_max: int,
        bytes_max: int,
        wait_seconds: float,
    ) -> None:
        self._router = router
        self._places = places
        self._settle = settle
        self._on_news = on_news
        self._on_out_of_range = on_out_of_range
        self._on_failed = on_failed
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._wait_seconds = wait_seconds
        self._busy: dict[Place, asyncio.Task[None]] = {}
        self._resting: dict[Place, float] = {}
        self._backoffs: dict[Place, Backoff] = {}
        self._requests: Counter[int] = Counter()
        self._message_bytes = 100.0
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._planner: asyncio.Task[None] | None = None
        self.fetches = 0

    # For the owner.

    def start(self) -> None:
        """Start the task that fetches."""
        self._planner = asyncio.create_task(self._run(), name="prefetch")
        self._planner.add_done_callback(self._broke)

    def wake(self) -> None:
        """Places have come or gone, or have room."""
        self._wake.set()

    def interrupt(self, places: Iterable[Place]) -> None:
        """Discard requests in flight for places that were moved."""
        for task in {self._busy[place] for place in places if place in self._busy}:
            task.cancel()
        self._wake.set()

    async def close(self) -> None:
        """Fetch no more; requests that wait at a broker are withdrawn."""
        tasks = [*self._tasks, *([] if self._planner is None else [self._planner])]
        for task in tasks:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # Planning.

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._plan()
            await self._wake.wait()

    def _plan(self) -> None:
        now = asyncio.get_running_loop().time()
        unsettled: dict[object, list[Place]] = {}
        by_node: dict[int, list[Place]] = {}
        self._forget_gone()
        is_full = self._is_full()
        for place in self._places.values():
            if place in self._busy or self._resting.get(place, 0.0) > now:
                continue
            if not place.is_settled:
                # Those of a topic together; after a failure each for itself, so that one whose
                # leader cannot be reached keeps no other from beginning.
                key = place if place in self._backoffs else place.part.topic
                unsettled.setdefault(key, []).append(place)
            elif not is_full and self._wants_more(place):
                node = self._leader(place)
                if node:
                    by_node.setdefault(node, []).append(place)
        for places in unsettled.values():
            self._send_off(places, self._settle_places(places))
        for node, places in by_node.items():
            if self._requests[node] < REQUESTS_PER_NODE:
                # Those that have least come first: an answer has room for so much only.
                places.sort(key=lambda place: place.buffered_bytes)
                part = places[:FETCH_PARTS_MAX]
                self._requests[node] += 1
                self._send_off(part, self._fetch(node, part), node)
        self._wake_later(now)

    def _is_full(self) -> bool:
        """True if the buffer is full: no more is fetched until records are handed out."""
        places = self._places.values()
        return (
            sum(place.buffered_bytes for place in places) >= self._bytes_max
            or sum(place.buffered_messages for place in places) >= self._messages_max
        )

    def _wants_more(self, place: Place) -> bool:
        if place.is_paused:
            return False
        share = max(1, len(self._places))
        return not place.batches or (
            place.buffered_bytes < self._bytes_max // share
            and place.buffered_messages < self._messages_max // share
        )

    def _leader(self, place: Place) -> int:
        """The node to ask; 0 if it is not known, and then it is being asked for."""
        info = self._router.metadata.known(place.part.topic)
        if info is None or place.part.partition >= len(info.leaders):
            self._send_off([place], self._find(place))
            return 0
        if info.topic_id != place.topic_id:
            # It was deleted, and one of the same name is another topic with offsets of its own. A
            # node that does not know the id is no proof of that: it may have just begun.
            place.unsettle(out_of_range=False)
            self._wake.set()
            return 0
        node = info.leaders[place.part.partition]
        if not node:
            self._fail([place], NotLeader(f"{place.part} has no leader now"))
        return node

    def _send_off(
        self, places: Sequence[Place], work: Coroutine[object, object, None], node: int = 0
    ) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            work.close()  # It may have been cancelled before it began.
            self._tasks.discard(task)
            if node:
                self._requests[node] -= 1
            for place in places:
                del self._busy[place]
            self._wake.set()
            self._broke(task)

        task = asyncio.create_task(self._carry_out(places, work))
        self._busy.update(dict.fromkeys(places, task))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _carry_out(
        self, places: Sequence[Place], work: Coroutine[object, object, None]
    ) -> None:
        try:
            await work
        except PenstockError as error:
            self._fail(places, error)

    def _broke(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("prefetching failed unexpectedly", exc_info=error)
            self._on_failed(unforeseen(error))

    # Doing.

    async def _settle_places(self, places: Sequence[Place]) -> None:
        await self._settle(places, self._router.deadline(FIND_SECONDS))
        self._succeed(places)
        for place in places:
            self._on_news(place)

    async def _find(self, place: Place) -> None:
        """Look up the leader of a partition."""
        name = place.part.topic
        known = self._router.metadata.known(name)
        if known is not None and place.part.partition >= len(known.leaders):
            self._router.metadata.forget(name, known)
        await self._router.find(name, NOTHING, self._router.deadline(FIND_SECONDS))

    async def _fetch(self, node: int, places: Sequence[Place]) -> None:
        versions = [place.fetch_version for place in places]
        parts = tuple(
            FetchPart(place.topic_id, place.part.partition, place.fetched) for place in places
        )
        request = Fetch(parts, self._fetch_bytes(), int(self._wait_seconds * 1_000))
        seconds = self._wait_seconds + self._router.settings.attempt_timeout
        self.fetches += 1
        answer, payload = await self._router.ask_node(node, request, Fetched, seconds)
        self._add(places, versions, answer, payload)

    def _fetch_bytes(self) -> int:
        """The number of bytes to request: the free part of the buffer, estimated by the size of
        recent messages."""
        places = self._places.values()
        room = self._bytes_max - sum(place.buffered_bytes for place in places)
        messages = self._messages_max - sum(place.buffered_messages for place in places)
        room = min(room, int(messages * self._message_bytes))
        return max(FETCH_BYTES_MIN, min(room, self._router.settings.receive_bytes_max))

    def _add(
        self, places: Sequence[Place], versions: Sequence[int], answer: Fetched, payload: Buffer
    ) -> None:
        view = memoryview(payload)
        at = 0
        for place, version, row in zip(places, versions, answer.parts, strict=True):
            data = view[at : at + row.size]
            at += row.size
            if place.fetch_version != version or self._places.get(place.part) is not place:
                continue  # It was moved, or another receiver has it by now.
            if row.failure is not None:
                self._refused(place, remake_error(row.failure))
                continue
            self._succeed([place])
            place.log_start, place.end = row.log_start, row.high_watermark
            if row.size and not place.is_paused:
                before = place.buffered_messages
                place.add(data)
                count = place.buffered_messages - before
                if count > 0:
                    self._message_bytes = row.size / count
                self._on_news(place)

    # When something goes wrong.

    def _refused(self, place: Place, error: PenstockError) -> None:
        if isinstance(error, OffsetOutOfRange):
            log.warning("%s, offset %d: %s", place.part, place.fetched, error)
            self._on_out_of_range(place)
            return
        self._fail([place], error)

    def _fail(self, places: Sequence[Place], error: PenstockError) -> None:
        """Let these places rest, and ask anew who leads them."""
        if isinstance(error, ClientClosed):
            if self._planner is not None:
                self._planner.cancel()
            self._on_failed(error)
            return
        now = asyncio.get_running_loop().time()
        for place in places:
            backoff = self._backoffs.get(place)
            if backoff is None:
                backoff = Backoff(REST, random=self._router.retrier.random)
                self._backoffs[place] = backoff
            self._resting[place] = now + backoff.next(error)
            self._router.metadata.forget(place.part.topic)
        log.debug("%d partitions rest: %s", len(places), error)

    def _succeed(self, places: Sequence[Place]) -> None:
        for place in places:
            self._resting.pop(place, None)
            self._backoffs.pop(place, None)

    def _forget_gone(self) -> None:
        for place in [one for one in self._backoffs if self._places.get(one.part) is not one]:
            self._resting.pop(place, None)
            self._backoffs.pop(place, None)

    def _wake_later(self, now: float) -> None:
        """Look again when the next place has rested."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = min((at for at in self._resting.values() if at > now), default=None)
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._wake.set)
