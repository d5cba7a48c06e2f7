"""Queues, asked of any node: every front-end's way to send, receive and settle.

What concerns a partition happens on the node that leads it (`led_queues`). A request that reaches
another node is sent on to it. While nobody leads, or leadership has just moved, it is tried again
for some seconds; what may have happened and may not (`OutcomeUnknown`) is the caller's to decide.

A queue of several partitions, perhaps led by several nodes, is asked one after the other, each time
beginning with another one, so that all are worked off alike. Somebody who waits for messages waits
at the partitions that are led here, and looks at the others every now and then.

Long because everything that is asked of a queue can be asked of any node, and is found here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import count
from typing import TypeVar

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import (
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    StorageFull,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.limits import ACQUIRE_MESSAGES_MAX
from penstock.core.message import Message, NewMessage
from penstock.core.message_states import ALL_STATES, current_state, old_state
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, WorkRules
from penstock.core.receiver import worker_name
from penstock.core.types import NO_NODE, NodeId, Offset, PartitionId
from penstock.engine.delivery.forwarded_requests import (
    Asked,
    ForwardedBrowse,
    ForwardedCount,
    ForwardedReceive,
    ForwardedSend,
    There,
)
from penstock.engine.delivery.leader import LOOKS_MAX, LeaderQueues
from penstock.engine.delivery.receipts import read_receipt, sign_receipt
from penstock.engine.delivery.requests import (
    BrowsedMessage,
    Delivery,
    QueueCounts,
    Receipt,
    Sent,
    Verdicts,
    Wanted,
    join_verdicts,
    settlement_of,
    sum_counts,
)
from penstock.engine.peers.forwarding import Forwarding, decode_body
from penstock.engine.peers.links import Links
from penstock.engine.topics.long_polls import Watch
from penstock.engine.topics.partitioner import Partitioner
from penstock.engine.topics.poll_time import parked
from penstock.engine.topics.topics import Topics
from penstock.engine.topics.traffic import INTERNAL
from penstock.machines.catalog import Topic
from penstock.machines.machine import Request
from penstock.machines.queue_commands import (
    Bury,
    Cancel,
    CloseWork,
    CopyPlace,
    OpenWork,
    Outcome,
    Purge,
    ResetWork,
    Revive,
    Settle,
    Settlement,
    Verdict,
)
from penstock.machines.queue_headers import lane_of
from penstock.machines.queues import EARLIEST, LATEST, Acquired, QueueChanged, Settled
from penstock.machines.work import Work

QUEUE_METHOD = "queue"
TRY_SECONDS = 10.0
PAUSE_SECONDS = 0.05
ELSEWHERE_SECONDS = 0.2
"""How often somebody who waits looks at partitions that are led by other nodes."""
WAITS_ELSEWHERE_MAX = 256
ASK_SECONDS = 10.0
SIGNED_REMEMBERED = 4_096
"""Of so many receipts signed last, and as many before them, it is known what they stand for."""

T = TypeVar("T")


class Queues:
    """One per node."""

    def __init__(self, topics: Topics, forwarding: Forwarding, links: Links, clock: Clock) -> None:
        self._receipt_key = b""
        self._signed: dict[str, Receipt] = {}
        self._signed_before: dict[str, Receipt] = {}
        self._topics = topics
        self._forwarding = forwarding
        self._links = links
        self._clock = clock
        self._partitioner = Partitioner()
        self._turns = count()
        self._waits_elsewhere = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.here = LeaderQueues(topics, clock)

    # Sending.

    async def send(
        self,
        topic: Topic,
        messages: Sequence[NewMessage],
        *,
        index: int | None = None,
        protocol: str = INTERNAL,
    ) -> list[Sent]:
        """Append messages; each partition gets its part in order. Returns one answer for each."""
        shares: dict[int, list[int]] = {}
        partitions = len(topic.partitions)
        if index is not None or partitions == 1:
            return await self._send(topic, index or 0, messages, protocol)
        rules = topic.settings.queue.queue_rules
        for number, message in enumerate(messages):
            chosen = self._partitioner.choose(lane_of(message, rules), partitions)
            shares.setdefault(chosen, []).append(number)
        answers = await asyncio.gather(
            *(
                self._send(topic, chosen, [messages[number] for number in numbers], protocol)
                for chosen, numbers in shares.items()
            )
        )
        sent: dict[int, Sent] = {}
        for numbers, answer in zip(shares.values(), answers, strict=True):
            sent.update(zip(numbers, answer, strict=True))
        return [sent[number] for number in range(len(messages))]

    def place(self, topic: Topic, message: NewMessage) -> int:
        """The index of the partition that a message goes to."""
        partitions = len(topic.partitions)
        if partitions == 1:
            return 0
        return self._partitioner.choose(
            lane_of(message, topic.settings.queue.queue_rules), partitions
        )

    async def _send(
        self, topic: Topic, index: int, messages: Sequence[NewMessage], protocol: str
    ) -> list[Sent]:
        return await self._at_leader(
            topic,
            index,
            lambda: self.here.send(topic, index, messages, protocol),
            ForwardedSend(topic.topic_id, index, tuple(messages), protocol),
            list[Sent],
        )

    # Receiving.

    async def receive(
        self,
        topic: Topic,
        *,
        group: str = DEFAULT_WORK_GROUP,
        messages_max: int = 1,
        lease_ms: int | None = None,
        wait_ms: int = 0,
        receiver: str = "",
    ) -> list[Delivery]:
        """Lease messages; waits for some if there are none. `receiver` is for the diary."""
        most = min(messages_max, ACQUIRE_MESSAGES_MAX)
        await self._have_key()
        if len(topic.partitions) == 1:
            return await self._receive(topic, 0, group, most, lease_ms, wait_ms, receiver)
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        looks = 0
        while True:
            found = await self._receive_some(topic, group, most, lease_ms, receiver)
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if found or left_ms <= 0:
                return found
            # What comes to one partition while another is looked at calls nobody.
            looks += 1
            if looks >= LOOKS_MAX or not self.here.may_have_some(topic, group):
                looks = 0
                await self._wait(topic, left_ms)

    async def _have_key(self) -> None:
        """Nothing is leased for which no receipt could be signed: a cluster that was founded a
        moment ago has no key yet."""
        deadline_ms = self._clock.monotonic_ms() + int(TRY_SECONDS * 1_000)
        while True:
            try:
                self._topics.receipt_key()
            except Unavailable:
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return

    async def _receive_some(
        self, topic: Topic, group: str, most: int, lease_ms: int | None, receiver: str
    ) -> list[Delivery]:
        found: list[Delivery] = []
        partitions = len(topic.partitions)
        first = next(self._turns)
        problems: list[PenstockError] = []
        for number in range(partitions):
            index = (first + number) % partitions
            try:
                found += await self._receive(
                    topic, index, group, most - len(found), lease_ms, 0, receiver
                )
            except PenstockError as problem:
                problems.append(problem)  # The others may have something.
            if len(found) >= most:
                break
        if not found and len(problems) == partitions:
            raise problems[0]
        return found

    async def _receive(
        self,
        topic: Topic,
        index: int,
        group: str,
        most: int,
        lease_ms: int | None,
        wait_ms: int,
        receiver: str,
    ) -> list[Delivery]:
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
            found = await self._receive_once(topic, index, group, most, lease_ms, left_ms, receiver)
            if found or self._clock.monotonic_ms() >= deadline_ms:
                return found
            with parked():
                await asyncio.sleep(ELSEWHERE_SECONDS)

    async def _receive_once(
        self,
        topic: Topic,
        index: int,
        group: str,
        most: int,
        lease_ms: int | None,
        wait_ms: int,
        receiver: str,
    ) -> list[Delivery]:
        """Only so many wait at another node: they share what the two may ask of each other. The
        others come again."""
        elsewhere_ms = wait_ms if self._waits_elsewhere < WAITS_ELSEWHERE_MAX else 0
        self._waits_elsewhere += 1
        try:
            return await self._at_leader(
                topic,
                index,
                lambda: self.here.receive(
                    topic,
                    index,
                    group,
                    messages_max=most,
                    lease_ms=lease_ms,
                    wait_ms=wait_ms,
                    receiver=receiver,
                ),
                ForwardedReceive(
                    topic.topic_id, index, group, most, lease_ms, elsewhere_ms, receiver
                ),
                list[Delivery],
                seconds=ASK_SECONDS + wait_ms / 1_000,
                # If the leader died with it, the lease ends; whoever asked would ask again.
                harmless=True,
            )
        finally:
            self._waits_elsewhere -= 1

    def can_receive_now(self, topic: Topic, index: int) -> bool:
        """Whether a receive of a partition that is led here would, as it seems, get something; the
        same errors as of `receive`."""
        work = self.here.work(topic, index, DEFAULT_WORK_GROUP)
        if work is None or work.is_held or not work.ready:
            return False
        if work.leased >= work.rules.in_flight_max:
            return False
        return bool(self._receipt_key or self._find_key())

    async def receive_together(
        self, topic: Topic, index: int, wanted: Sequence[Wanted]
    ) -> list[list[Delivery]]:
        """Lease messages of a partition that is led here for several at once, who ask for the same
        time; what there is is dealt out in their order, and the last ones may get none. Nobody
        waits. A lease is one program's, or of several that differ only in their connections."""
        names = {one.receiver for one in wanted}
        found = await self.here.receive(
            topic,
            index,
            DEFAULT_WORK_GROUP,
            messages_max=sum(one.messages_max for one in wanted),
            lease_ms=wanted[0].lease_ms,
            wait_ms=0,
            receiver=names.pop() if len(names) == 1 else worker_name(wanted[0].receiver),
        )
        dealt: list[list[Delivery]] = []
        start = 0
        for one in wanted:
            dealt.append(found[start : start + one.messages_max])
            start += one.messages_max
        return dealt

    def give_back(self, topic: Topic, deliveries: Sequence[Delivery]) -> None:
        """Nobody is there for these any more: it is as if they had not been delivered."""

        async def carry() -> None:
            verdicts = [(one.receipt, Verdict.RETURN, 0, "") for one in deliveries]
            with suppress(PenstockError):  # The lease ends, and they are delivered again.
                await self.settle(topic, verdicts)

        task = asyncio.create_task(carry())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self, topic: Topic, wait_ms: int) -> None:
        """Wait for a message, or for the time to look elsewhere."""
        woken = asyncio.Event()
        watch = self._topics.watch(topic.partitions, woken.set)
        here = all(
            self._topics.leader(self._topics.shard_of(one)).node == self._topics.node_id
            for one in topic.partitions
        )
        seconds = wait_ms / 1_000 if here else min(wait_ms / 1_000, ELSEWHERE_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                with parked():
                    await woken.wait()
        except TimeoutError:
            pass
        finally:
            watch.cancel()

    # Settling.

    async def settle(self, topic: Topic, verdicts: Verdicts) -> list[Outcome]:
        """Say what became of leased messages; one answer for each, in order."""
        shares: dict[tuple[PartitionId, str], list[int]] = {}
        places = {(one[0].partition, one[0].group) for one in verdicts}
        if len(places) == 1:
            shares[places.pop()] = list(range(len(verdicts)))
        else:
            for number, (receipt, *_) in enumerate(verdicts):
                shares.setdefault((receipt.partition, receipt.group), []).append(number)
        outcomes = [Outcome.GONE] * len(verdicts)
        work = [
            self._settle_share(place, numbers, verdicts, outcomes)
            for place, numbers in shares.items()
            if place[0] in topic.partitions
        ]
        if len(work) == 1:
            await work[0]
        else:
            await asyncio.gather(*work)
        return outcomes

    async def _settle_share(
        self,
        place: tuple[PartitionId, str],
        numbers: list[int],
        verdicts: Verdicts,
        outcomes: list[Outcome],
    ) -> None:
        """Neighbours of one lease are settled as one; if that fails, each for itself."""
        joined = join_verdicts(numbers, verdicts)
        answers = await self._settle(place, [one for one, _ in joined])
        alone: list[int] = []
        for (_, members), outcome in zip(joined, answers, strict=True):
            if outcome is Outcome.DONE or len(members) == 1:
                for number in members:
                    outcomes[number] = outcome
            else:
                alone += members
        if alone:
            singly = [settlement_of(*verdicts[number]) for number in alone]
            for number, outcome in zip(alone, await self._settle(place, singly), strict=True):
                outcomes[number] = outcome

    async def _settle(
        self, place: tuple[PartitionId, str], settlements: list[Settlement]
    ) -> Sequence[Outcome]:
        partition, group = place
        command = Settle(partition=partition, group=group, settlements=tuple(settlements))
        reply = await self._forwarding.change(self._topics.shard_of(partition), command)
        assert isinstance(reply, Settled), f"a settle was answered with {reply}"
        return reply.outcomes

    def sign(self, receipt: Receipt) -> str:
        """A receipt as text."""
        text = sign_receipt(receipt, self._receipt_key or self._find_key())
        self._signed[text] = receipt
        if len(self._signed) >= SIGNED_REMEMBERED:
            self._signed_before, self._signed = self._signed, {}
        return text

    def read_receipt(self, text: str) -> Receipt:
        """The receipt that a text stands for, or `InvalidReceipt`. Most were signed here a moment
        ago and need not be checked."""
        known = self._signed.get(text) or self._signed_before.get(text)
        return known or read_receipt(text, self._receipt_key or self._find_key())

    def _find_key(self) -> bytes:
        """It is made once for a cluster, and stays."""
        self._receipt_key = self._topics.receipt_key()
        return self._receipt_key

    # Looking.

    async def counts(self, topic: Topic, group: str = DEFAULT_WORK_GROUP) -> QueueCounts:
        """How many messages are in which state, over all partitions."""
        parts = await asyncio.gather(
            *(self._counts(topic, index, group) for index in range(len(topic.partitions)))
        )
        return sum_counts(parts)

    async def _counts(self, topic: Topic, index: int, group: str) -> QueueCounts:
        return await self._at_leader(
            topic,
            index,
            lambda: _soon(self.here.counts(topic, index, group)),
            ForwardedCount(topic.topic_id, index, group),
            QueueCounts,
            harmless=True,
        )

    async def browse(
        self,
        topic: Topic,
        *,
        group: str = DEFAULT_WORK_GROUP,
        index: int = 0,
        start: int = 0,
        states: frozenset[str] = ALL_STATES,
        messages_max: int = 100,
    ) -> list[BrowsedMessage]:
        """Messages of one partition from an offset on, in order, without touching them."""

        def look() -> Awaitable[list[BrowsedMessage]]:
            return _soon(
                self.here.browse(
                    topic,
                    index,
                    group,
                    start=Offset(start),
                    states=states,
                    messages_max=messages_max,
                )
            )

        words = tuple(sorted(map(old_state, states)))
        there = ForwardedBrowse(topic.topic_id, index, group, Offset(start), words, messages_max)
        found = await self._at_leader(
            topic, index, look, there, list[BrowsedMessage], harmless=True
        )
        return [msgspec.structs.replace(one, state=current_state(one.state)) for one in found]

    # Work groups.

    async def open(
        self,
        topic: Topic,
        group: str,
        *,
        start: int = EARLIEST,
        rules: WorkRules | None = None,
        index: int | None = None,
    ) -> None:
        """Let a work group begin, on all partitions or on one; where it has begun, only its rules
        change."""
        chosen = rules or self.here.rules_of(topic, group)
        await self._everywhere(
            topic,
            lambda partition: OpenWork(
                partition=partition, group=group, start=Offset(start), rules=chosen
            ),
            index=index,
        )

    async def close(self, topic: Topic, group: str, *, index: int | None = None) -> None:
        """Forget a work group and where it was, on all partitions or on one."""
        await self._everywhere(
            topic, lambda partition: CloseWork(partition=partition, group=group), index=index
        )

    async def reset(
        self, topic: Topic, group: str, *, start: int, index: int | None = None
    ) -> None:
        """Let a work group go on from another offset, `EARLIEST` or `LATEST`; leases end."""
        await self._everywhere(
            topic,
            lambda partition: ResetWork(partition=partition, group=group, start=Offset(start)),
            index=index,
        )

    async def purge(self, topic: Topic, group: str = DEFAULT_WORK_GROUP) -> int:
        """Drop everything that is left to do; returns how many messages that was."""
        await self.open(topic, group)
        return await self._everywhere(
            topic, lambda partition: Purge(partition=partition, group=group)
        )

    async def cancel(
        self,
        topic: Topic,
        places: Sequence[tuple[int, Offset]],
        group: str = DEFAULT_WORK_GROUP,
    ) -> int:
        """Call off messages that nobody has; returns how many."""
        total = 0
        for index, offsets in _by_index(places).items():
            total += await self._everywhere(
                topic,
                lambda partition, offsets=offsets: Cancel(  # type: ignore[misc]
                    partition=partition, group=group, offsets=offsets
                ),
                index=index,
            )
        return total

    async def revive(
        self,
        topic: Topic,
        places: Sequence[tuple[int, Offset]] | None = None,
        group: str = DEFAULT_WORK_GROUP,
    ) -> int:
        """Deliver dead messages anew; None: all of them. Returns how many."""
        if places is None:
            return await self._everywhere(
                topic, lambda partition: Revive(partition=partition, group=group)
            )
        total = 0
        for index, offsets in _by_index(places).items():
            total += await self._everywhere(
                topic,
                lambda partition, offsets=offsets: Revive(  # type: ignore[misc]
                    partition=partition, group=group, offsets=offsets
                ),
                index=index,
            )
        return total

    async def bury(
        self,
        topic: Topic,
        index: int,
        offsets: Sequence[Offset],
        group: str = DEFAULT_WORK_GROUP,
        discarded: bool = False,
        copies: Sequence[CopyPlace] = (),
    ) -> int:
        """Dead messages have been moved away, or are not wanted."""
        return await self._everywhere(
            topic,
            lambda partition: Bury(
                partition=partition,
                group=group,
                offsets=tuple(offsets),
                discarded=discarded,
                copies=tuple(copies),
            ),
            index=index,
        )

    # On the leader only.

    async def acquire_here(
        self,
        topic: Topic,
        index: int,
        group: str,
        messages_max: int,
        lease_ms: int | None = None,
        receiver: str = "",
    ) -> Acquired:
        """Lease messages of a partition this node leads."""
        return await self.here.acquire(topic, index, group, messages_max, lease_ms, receiver)

    async def settle_here(
        self, topic: Topic, index: int, group: str, settlements: Sequence[Settlement]
    ) -> list[Outcome]:
        """Settle messages of a partition this node leads."""
        return await self.here.settle(topic, index, group, settlements)

    def work_here(self, topic: Topic, index: int, group: str) -> Work | None:
        """The state of a work group of a partition this node leads; not to be changed."""
        return self.here.work(topic, index, group)

    def read_here(
        self, topic: Topic, index: int, runs: Sequence[tuple[Offset, Offset]]
    ) -> list[Message]:
        """Messages of a partition this node leads."""
        return self.here.read(topic, index, runs)

    def watch(self, topic: Topic, group: str, wake: Callable[[], None]) -> Watch:  # noqa: ARG002
        """Be told when messages may have become available."""
        return self._topics.watch(topic.partitions, wake)

    # Other nodes.

    async def answer(self, body: bytes) -> bytes:
        """Do what another node asks of the leader."""
        asked = decode_body(body, Asked).there
        topic = self._topics.catalog.topic_by_id(asked.topic_id)
        if topic is None:
            raise Unavailable("this node does not know the topic: it is new, or was deleted")
        match asked:
            case ForwardedSend(index=index, messages=messages, protocol=protocol):
                sent = await self.here.send(topic, index, messages, protocol)
                return msgspec.msgpack.encode(sent)
            case ForwardedReceive(index=index, group=group):
                return msgspec.msgpack.encode(
                    await self.here.receive(
                        topic,
                        index,
                        group,
                        messages_max=asked.messages_max,
                        lease_ms=asked.lease_ms,
                        wait_ms=asked.wait_ms,
                        receiver=asked.receiver,
                    )
                )
            case ForwardedCount(index=index, group=group):
                return msgspec.msgpack.encode(self.here.counts(topic, index, group))
            case ForwardedBrowse(index=index, group=group):
                found = self.here.browse(
                    topic,
                    index,
                    group,
                    start=asked.start,
                    states=frozenset(map(current_state, asked.states)),
                    messages_max=asked.messages_max,
                )
                return msgspec.msgpack.encode(
                    [msgspec.structs.replace(one, state=old_state(one.state)) for one in found]
                )

    async def _at_leader(
        self,
        topic: Topic,
        index: int,
        here: Callable[[], Awaitable[T]],
        there: There,
        kind: type[T],
        *,
        seconds: float = ASK_SECONDS,
        harmless: bool = False,
    ) -> T:
        """Do it here if this node leads, else there; again while nobody does. What is harmless is
        tried again, too, when nobody knows whether it has happened."""
        shard = self._topics.shard_of(topic.partitions[index])
        deadline_ms = self._clock.monotonic_ms() + int(TRY_SECONDS * 1_000)
        while True:
            try:
                leader = self._topics.leader(shard).node
                if leader == self._topics.node_id:
                    return await here()
                return await self._ask(leader, there, kind, seconds)
            except (Unavailable, OutcomeUnknown, UnknownPartition) as error:
                if isinstance(error, OutcomeUnknown) and not harmless:
                    raise
                if isinstance(error, UnknownTopic | StorageFull):
                    raise
                if self._clock.monotonic_ms() >= deadline_ms:
                    raise
                if self._topics.catalog.topic_by_id(topic.topic_id) is None:
                    raise UnknownTopicId(f"topic {topic.name} was deleted") from error
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, leader: NodeId, there: There, kind: type[T], seconds: float) -> T:
        if leader == NO_NODE:
            raise NotLeader("the partition has no leader now")
        body = msgspec.msgpack.encode(Asked(there))
        waits = isinstance(there, ForwardedReceive) and there.wait_ms > 0
        with parked() if waits else nullcontext():
            answer = await self._links.ask(leader, QUEUE_METHOD, body, timeout=seconds)
        return decode_body(answer, kind)

    async def _everywhere(
        self,
        topic: Topic,
        command: Callable[[PartitionId], Request],
        *,
        index: int | None = None,
    ) -> int:
        """Change a work group on all partitions, or on one; returns the sum of the counts."""
        chosen = topic.partitions if index is None else (topic.partitions[index],)
        replies = await asyncio.gather(
            *(
                self._forwarding.change(self._topics.shard_of(partition), command(partition))
                for partition in chosen
            )
        )
        return sum(reply.count for reply in replies if isinstance(reply, QueueChanged))

    async def shut(self) -> None:
        """Let go of what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.here.close()


async def _soon(value: T) -> T:
    return value


def _by_index(places: Sequence[tuple[int, Offset]]) -> Mapping[int, tuple[Offset, ...]]:
    found: dict[int, list[Offset]] = {}
    for index, offset in places:
        found.setdefault(index, []).append(offset)
    return {index: tuple(offsets) for index, offsets in found.items()}


__all__ = ["ALL_STATES", "EARLIEST", "LATEST", "QUEUE_METHOD", "Queues"]
