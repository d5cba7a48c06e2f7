"""The engine of a subscription: it follows topics or a group, prefetches, hands out records and
commits.

    TopicWatch ─┐                          ┌─▶ Prefetch ──▶ HandOut ──▶ the program
                ├─▶ places, one each ──────┤
    Membership ─┘   partition              └─▶ Committing

Without a group, the places are all partitions of the topics. With one, they are what the group has
assigned. Before a partition goes to another member, nothing more of it is handed out, and what the
program has in hand gets some time to be finished, and is committed. A group that rebalances
cooperatively does that for the partitions that move, an eager one for all.

Every task belongs to this reader, which awaits it when it is closed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Final, Generic, TypeVar

from penstock.client.codecs import Codec
from penstock.client.connection.group_link import GroupLink
from penstock.client.connection.request_router import RequestRouter
from penstock.client.guarantees import Guarantee
from penstock.client.reader.handout import HandOut
from penstock.client.reader.membership import Membership, unforeseen
from penstock.client.reader.offset_commits import Committing
from penstock.client.reader.positions import Place, StoredBatch, TopicPartition
from penstock.client.reader.start_position import Starting, StartRule
from penstock.client.reader.topic_watch import Topics, TopicSight, TopicWatch
from penstock.client.record import Record
from penstock.client.subscription_options import SubscriptionOptions
from penstock.client.worker.prefetch import Prefetch
from penstock.core.errors import (
    ClientClosed,
    DeadlinePassed,
    InvalidBatch,
    OffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
)

log = logging.getLogger("penstock.client")

T = TypeVar("T")

CLOSE_SECONDS: Final = 5.0
"""The time that closing a reader allows for its last commit."""
MISSING_SECONDS: Final = 1.0
"""The interval of lookups of a topic that does not exist."""

_CLOSING: Final[set[asyncio.Task[None]]] = set()
"""Readers without references that are being closed."""


class LogReader(Generic[T]):
    def __init__(
        self, router: RequestRouter, topics: Topics, codec: Codec[T], options: SubscriptionOptions
    ) -> None:
        self.router = router
        self.options = options
        patience = 2 * options.seconds("topics_interval")
        self.watch = TopicWatch(router, topics, patience=patience)
        self.places: dict[TopicPartition, Place] = {}
        self._at_most_once = options.guarantee is Guarantee.AT_MOST_ONCE
        self._commits_by_itself = options.auto_commit or self._at_most_once
        self.out: HandOut[T] = HandOut(codec, done_at_once=self._at_most_once)
        self.link = None if options.group is None else GroupLink(router, options.group)
        self._starting = Starting(router, StartRule(options.start), self.link)
        self.prefetch = Prefetch(
            router,
            self.places,
            settle=self._starting.settle,
            on_news=self.note,
            on_out_of_range=self._on_out_of_range,
            on_failed=self.failed,
            messages_max=options.prefetch,
            bytes_max=options.prefetch_bytes or router.settings.prefetch_bytes_max,
            wait_seconds=options.seconds("fetch_wait"),
        )
        self.membership: Membership | None = None
        self.committing: Committing | None = None
        if self.link is not None:
            settings = options.membership()
            self.membership = Membership(self.link, self, settings, router.retrier)
            self.committing = Committing(self.link, self.membership, self.places)
        self.paused: set[TopicPartition] = set()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Task[None] | None = None
        self._is_started = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._is_revoked = self.membership is not None
        self._is_suspended = False
        self._is_missing = False
        """Something to read does not exist yet."""
        self._failure: PenstockError | None = None

    # Its life.

    async def open(self) -> None:
        """Begin to read; returns when the start position is known. Later callers wait as well."""
        if self._is_closed:
            raise ClientClosed("the subscription is closed")
        if self._opening is None:
            self._loop = asyncio.get_running_loop()
            self._opening = asyncio.create_task(self._open())
        if not self._opening.done():
            await asyncio.wait([self._opening])
        if self._opening.cancelled():
            raise ClientClosed("the subscription is closed")
        problem = self._opening.exception()
        if problem is not None:
            self._opening = None  # The next time it may go better.
            raise problem

    async def _open(self) -> None:
        deadline = self.router.deadline(None)
        if not self._is_started:
            await self._start(deadline)
        await self._wait_settled(deadline)

    async def _start(self, deadline: float) -> None:
        sights = await self.watch.look(deadline)
        names = await self.watch.names(deadline)
        self._is_started = True
        self._starting.known = {name: sight.partitions for name, sight in sights.items()}
        self.prefetch.start()
        if self.membership is None:
            self._follow(sights, names)
        else:
            self._is_missing = sights.keys() < names
            self.membership.start()
            if self.options.auto_commit and not self._at_most_once:
                self._begin(self._commit_now_and_then())
        self._begin(self._watch_topics())

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        """Run a background task; if it fails, the next read raises its error."""

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                log.error("a reader failed unexpectedly", exc_info=error)
                self.failed(unforeseen(error))

        task = asyncio.create_task(work)
        task.add_done_callback(ended)
        self._tasks.append(task)

    async def _wait_settled(self, deadline: float) -> None:
        """Messages that are sent after a reader was opened are read by it, wherever it starts."""
        try:
            async with asyncio.timeout_at(deadline):
                while self._failure is None and (
                    self._is_revoked or not all(one.is_settled for one in self.places.values())
                ):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            if self.membership is None:
                raise DeadlinePassed("the start position could not be looked up") from None
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Commit the processed records, leave the group, and stop fetching."""
        if self._is_closed:
            return
        self._is_closed = True
        self._news.set()
        try:
            if self.committing is not None and self._commits_by_itself:
                await self._commit_at_the_end(self.committing)
        finally:
            tasks = [*self._tasks, *([] if self._opening is None else [self._opening])]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await self.prefetch.close()
            if self.membership is not None:
                await self.membership.close()

    def let_go(self) -> None:
        """The subscription has no references any more: close it, so that no member stays behind
        that has partitions and reads nothing. Called by the collector, on whichever thread it
        runs."""
        loop = self._loop
        if loop is not None and not self._is_closed and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # It was closed just now.
                loop.call_soon_threadsafe(self._close_soon)

    def _close_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self.close())
        _CLOSING.add(task)
        task.add_done_callback(_CLOSING.discard)

    async def _commit_at_the_end(self, committing: Committing) -> None:
        deadline = asyncio.get_running_loop().time() + CLOSE_SECONDS
        try:
            await committing.commit_done(deadline=deadline, patient=True)
        except PenstockError as error:
            log.warning("what was read last was not committed and will be read again: %s", error)

    # Handing out.

    @property
    def is_held_back(self) -> bool:
        """True while no record may be handed out."""
        return self._is_revoked or self._is_suspended or self._is_closed

    def note(self, place: Place) -> None:
        """The place may have something to hand out."""
        self.out.note(place)
        self._news.set()

    async def advance(self, deadline: float | None) -> bool:
        """Have a batch open; False if there was none until the deadline, or it is all over."""
        try:
            await self.open()
        except ClientClosed:
            if not self._is_over():
                raise
        while not self._is_over():
            if not self.is_held_back:
                if self.out.is_open:
                    return True
                opened = await self.out.open_next()
                if opened is not None:
                    self.prefetch.wake()  # There is room for more.
                    if not self._at_most_once or await self._commit_ahead(*opened):
                        return True
                    continue
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                return False
        return False

    def _is_over(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._is_closed

    async def fetch(self, max_records: int, deadline: float) -> list[Record[T]]:
        """Return up to `max_records`; wait for the first only."""
        records: list[Record[T]] = []
        try:
            while len(records) < max_records:
                record = None if self.is_held_back else self.out.next_now()
                if record is not None:
                    records.append(record)
                    continue
                if records and (self.is_held_back or not self.out.has_batches):
                    break
                if not await self.advance(deadline):
                    break
        except InvalidBatch:
            if not records:
                raise
            # Those before it are good; the next call comes to it again.
        except BaseException:
            self._take_back(records)
            raise
        return records

    def _take_back(self, records: list[Record[T]]) -> None:
        """The caller was cancelled before it got these: they are handed out again."""
        firsts = {record.place: record.offset for record in reversed(records)}
        for part, offset in firsts.items():
            if part in self.places:
                self.out.take_back(self.places[part], offset)

    async def _commit_ahead(self, place: Place, batch: StoredBatch) -> bool:
        """Commit a batch before it is handed out, for at-most-once delivery."""
        assert self.committing is not None, "there is no group to commit for"
        version = place.version
        is_committed = False
        try:
            while not is_committed and place.version == version and not self._is_closed:
                try:
                    deadline = self.router.deadline(None)
                    offsets = {place: batch.end_offset}
                    is_committed = await self.committing.commit(offsets, deadline=deadline)
                except DeadlinePassed as error:
                    log.warning("nothing is handed out that cannot be committed: %s", error)
        finally:
            if not is_committed:
                self.out.drop()
        return is_committed

    async def _commit_now_and_then(self) -> None:
        assert self.committing is not None, "there is no group to commit for"
        while self._failure is None:
            await asyncio.sleep(self.options.seconds("commit_interval"))
            await self.committing.try_to_commit()

    # What the membership asks for.

    async def topics(self) -> frozenset[str]:
        """Return the topics to read now."""
        return await self.watch.names(self.router.deadline(None))

    async def counts(self, topics: Iterable[str]) -> Mapping[str, int]:
        """Return the number of partitions of each topic."""
        sights = await self.watch.look_at(topics, self.router.deadline(None))
        return {name: sight.partitions for name, sight in sights.items()}

    async def revoke(self, parts: tuple[TopicPartition, ...] | None) -> None:
        """Put these down, or everything: finish and commit what is in hand."""
        if parts is None:
            self._is_revoked = True
            await self._put_down(list(self.places.values()))
            return
        leaving = [self.places[part] for part in parts if part in self.places]
        try:
            await self._put_down(leaving)
        finally:
            for place in leaving:
                if self.places.get(place.part) is place:
                    self._drop(place.part)

    async def _put_down(self, places: Collection[Place]) -> None:
        if self.committing is None or self.committing.is_lost:
            return  # What was finished since the last commit is done again by others.
        patience = self.options.seconds("rebalance_timeout") / 2
        await self.out.wait_idle(places, patience)
        if self._commits_by_itself:
            deadline = asyncio.get_running_loop().time() + patience / 2
            try:
                await self.committing.commit_done(deadline=deadline)
            except DeadlinePassed as error:
                log.warning("what was read last may be read again by others: %s", error)

    def assigned(
        self,
        parts: tuple[TopicPartition, ...],
        *,
        leaving: tuple[TopicPartition, ...],
        continues: bool,
    ) -> None:
        """Read these from now on, and nothing more of those that are leaving."""
        kept = {*parts, *leaving} if continues else set[TopicPartition]()
        for part in [one for one in self.places if one not in kept]:
            self._drop(part)
        for part in parts:
            if part not in self.places:
                self._add(part)
        for part in leaving:
            if part in self.places:
                place = self.places[part]
                place.is_paused = place.is_leaving = True
                place.rewind()
        self._is_revoked = False
        self._is_suspended = False
        self._news.set()
        self.prefetch.interrupt(list(self.places.values()))  # All are asked for together again.

    def suspend(self) -> None:
        """Others may have the partitions by now."""
        self._is_suspended = True

    def resume(self) -> None:
        """Continue after `suspend`: the member still has its partitions."""
        self._is_suspended = False
        self._news.set()

    def failed(self, error: PenstockError) -> None:
        """The reader has ended; a call for a record raises."""
        self._failure = error
        self._news.set()

    # Topics.

    async def _watch_topics(self) -> None:
        """Look every now and then what there is."""
        interval = self.options.seconds("topics_interval")
        while True:
            await asyncio.sleep(min(MISSING_SECONDS, interval) if self._is_missing else interval)
            try:
                await self._look_at_topics(self.router.deadline(None))
            except ClientClosed:
                return
            except (Unavailable, OutcomeUnknown) as error:
                log.info("topics could not be looked at: %s", error)

    async def _look_at_topics(self, deadline: float) -> None:
        names = await self.watch.names(deadline)
        if self.membership is None:
            self._follow(await self.watch.look(deadline), names)
            return
        if names != self.membership.topics:
            self.membership.rejoin()
            return
        known = self.membership.group_counts
        self._is_missing = known is not None and len(known) < len(names)
        if known is not None:
            sights = await self.watch.look_at(self.membership.group_topics, deadline)
            if {name: sight.partitions for name, sight in sights.items()} != known:
                self.membership.rejoin()

    def _follow(self, sights: Mapping[str, TopicSight], names: frozenset[str]) -> None:
        """Without a group: read every partition there is."""
        self._is_missing = sights.keys() < names
        wanted = {
            TopicPartition(name, index): sight.topic_id
            for name, sight in sights.items()
            for index in range(sight.partitions)
        }
        for part, place in list(self.places.items()):
            if part not in wanted or (place.is_settled and place.topic_id != wanted[part]):
                self._drop(part)
                self._starting.known.pop(part.topic, None)  # What comes by this name is new.
        for part in wanted:
            if part not in self.places:
                self._add(part)
        self._news.set()
        self.prefetch.wake()

    def _add(self, part: TopicPartition) -> None:
        place = self.places[part] = Place(part)
        place.is_paused = part in self.paused

    def _drop(self, part: TopicPartition) -> None:
        place = self.places.pop(part)
        place.unsettle(out_of_range=False)  # A task that still holds it sees that it is over.

    def _on_out_of_range(self, place: Place) -> None:
        try:
            self._starting.check_in_range(place)
        except OffsetOutOfRange as error:
            self.failed(error)
            place.is_paused = True
        else:
            place.unsettle(out_of_range=True)
