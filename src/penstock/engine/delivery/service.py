"""Delivery, asked of any node: every front-end sends, receives and settles through it.

A request about a partition is carried out by the node that leads it (`leader`). A request that
reaches another node is forwarded. While a partition has no leader, or leadership has just moved,
the request is repeated for some seconds; what may or may not have happened (`OutcomeUnknown`) is
for the caller to decide.

The partitions of a queue may have several leaders. A receive asks one after the other, each time
beginning with another one, so that all are worked off alike. If there is nothing, it waits at the
partitions that this node leads, and asks the other nodes every now and then.

Long because every operation on a queue can be asked of any node, and is found here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple, TypeVar, cast

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import (
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    StorageFull,
    TooManyReceives,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
    UnknownTopicId,
    UnknownWork,
)
from penstock.core.internal_topics import check_unprotected
from penstock.core.limits import ACQUIRE_MESSAGES_MAX
from penstock.core.memory_budget import MemoryAccount, MemoryDraw
from penstock.core.message import NewMessage
from penstock.core.message_states import ALL_STATES, current_state, old_state
from penstock.core.queue_rules import DEFAULT_WORK_GROUP, WorkRules
from penstock.core.receiver import worker_name
from penstock.core.retries import LEADER, POLL
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, NO_NODE, NodeId, Offset, PartitionId
from penstock.core.verdicts import Outcome
from penstock.engine.delivery.acquisition import RECEIVE_BYTES_MAX
from penstock.engine.delivery.first_use import FindPlaces, FirstUse
from penstock.engine.delivery.forwarded_requests import (
    QUEUE,
    ForwardedBrowse,
    ForwardedCount,
    ForwardedReceive,
    ForwardedRequest,
    ForwardedSend,
    QueueCall,
)
from penstock.engine.delivery.leader import LeaderDelivery
from penstock.engine.delivery.lease_returns import LeaseReturns
from penstock.engine.delivery.receipts import read_receipt, sign_receipt
from penstock.engine.delivery.requests import (
    BrowsedMessage,
    Delivery,
    ImmediateReceive,
    QueueCounts,
    Receipt,
    Sent,
    Verdicts,
    join_verdicts,
    settlement_of,
    sum_counts,
)
from penstock.engine.peers.calls import RemoteCalls
from penstock.engine.peers.forwarder import Forwarder
from penstock.engine.topics.partitioner import Partitioner
from penstock.engine.topics.poll_time import parked
from penstock.engine.topics.queue_upkeep import opening, work_rules
from penstock.engine.topics.topics import Topics
from penstock.engine.topics.traffic import INTERNAL
from penstock.machines.machine import Request
from penstock.machines.queue_commands import (
    Cancel,
    CloseWork,
    CopyPlace,
    Purge,
    RemoveDead,
    RequeueDead,
    ResetWork,
    Settle,
    Settlement,
)
from penstock.machines.queue_headers import message_group_of
from penstock.machines.queues import QueueChanged, Settled

TRY_SECONDS = 10.0
ELSEWHERE_SECONDS = 0.2
"""How often a receive that waits asks the nodes that lead other partitions."""
WAITS_ELSEWHERE_MAX = 256
SIGNED_REMEMBERED = 4_096
"""So many receipts signed last, and as many before them, are not checked again."""

ONE_SHARE = [[0]]

T = TypeVar("T")


class _ReceiveRequest(NamedTuple):
    topic: Topic
    group: str
    lease_ms: int | None
    receiver: str
    draw: MemoryDraw | None


class DeliveryService:
    """Send, receive and settle for every front-end; one per node."""

    def __init__(
        self,
        topics: Topics,
        forwarder: Forwarder,
        calls: RemoteCalls,
        clock: Clock,
        places: FindPlaces,
    ) -> None:
        """`places` finds out where partitions begin and end, on any node."""
        self._receipt_key = b""
        self._signed: dict[str, Receipt] = {}
        self._signed_before: dict[str, Receipt] = {}
        self._topics = topics
        self._forwarder = forwarder
        self._calls = calls
        self._clock = clock
        self._partitioner = Partitioner()
        self._waits_elsewhere = 0
        self._returns = LeaseReturns(topics, forwarder)
        self.give_back = self._returns.give_back
        self._first_use = FirstUse(topics, forwarder, places)
        self.open_at_first_use = self._first_use.open
        self._leader = leader = LeaderDelivery(topics, clock, self._returns, self._first_use)
        # For front-ends whose clients ask the leader of a partition themselves:
        self.acquisition = leader.acquisition
        self.acquisition_of = leader.acquisition_of
        self.begin_settle = leader.begin_settle
        self.is_at_in_flight_limit = leader.is_at_in_flight_limit
        self.led = leader.led
        self.messages = leader.messages
        self.read_at_leader = leader.read
        self.receivers = leader.receivers
        self.settle_at_leader = leader.settle
        self.work = leader.work

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
            chosen = self._partitioner.choose(message_group_of(message, rules), partitions)
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
            message_group_of(message, topic.settings.queue.queue_rules), partitions
        )

    async def _send(
        self, topic: Topic, index: int, messages: Sequence[NewMessage], protocol: str
    ) -> list[Sent]:
        return await self._at_leader(
            topic,
            index,
            lambda: self._leader.send(topic, index, messages, protocol),
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
        draw: MemoryDraw | None = None,
    ) -> list[Delivery]:
        """Lease messages; waits for some if there are none, or no memory for them. `receiver` is
        for the history. The caller closes `draw` when the messages have become an answer."""
        most = min(messages_max, ACQUIRE_MESSAGES_MAX)
        await self._have_key()
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        left_ms = wait_ms
        while True:
            request = _ReceiveRequest(topic, group, lease_ms, receiver, draw)
            shares = ONE_SHARE if len(topic.partitions) == 1 else self._shares(topic)
            if len(shares) == 1:
                found = await self._receive_at(request, shares[0], most, left_ms)
            else:
                found = await self._receive_in_turn(request, shares, most)
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if found or left_ms <= 0:
                return found
            led = self._leader.led(topic)
            if len(led) < len(topic.partitions):
                found = await self._wait_here(request, led, most, left_ms)
                if found:
                    return found
                left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
            topic = self._topics.catalog.topic_by_id(topic.topic_id) or topic

    def _shares(self, topic: Topic) -> list[list[int]]:
        """The partitions, in turn: those that this node leads are asked together, each of the
        others by itself."""
        led = self._leader.led(topic)
        shares: list[list[int]] = []
        if len(led) == len(topic.partitions):
            return [led]
        for index in self._leader.in_turn(range(len(topic.partitions)), topic.topic_id):
            if index not in led:
                shares.append([index])
            elif led not in shares:
                shares.append(led)
        return shares

    async def _have_key(self) -> None:
        """Nothing is leased for which no receipt could be signed: a cluster that was founded a
        moment ago has no key yet."""
        retries = self._topics.retrier.within(TRY_SECONDS, POLL)
        while True:
            try:
                self._topics.receipt_key()
            except Unavailable:
                if not await retries.pause():
                    raise
            else:
                return

    async def _receive_in_turn(
        self, request: _ReceiveRequest, shares: Sequence[list[int]], most: int
    ) -> list[Delivery]:
        """Ask several nodes one after the other, without waiting."""
        found: list[Delivery] = []
        problems: list[PenstockError] = []
        for share in shares:
            try:
                found += await self._receive_at(request, share, most - len(found), 0)
            except PenstockError as problem:
                problems.append(problem)  # The others may have something.
            if len(found) >= most:
                break
        if not found and len(problems) == len(shares):
            raise problems[0]
        return found

    async def _wait_here(
        self, request: _ReceiveRequest, led: list[int], most: int, left_ms: int
    ) -> list[Delivery]:
        """Wait for messages of the partitions that this node leads, until it is time to ask the
        other nodes again."""
        wait_ms = min(left_ms, int(ELSEWHERE_SECONDS * 1_000))
        if led:
            return await self._receive_at(request, led, most, wait_ms)
        with parked():
            await asyncio.sleep(wait_ms / 1_000)
        return []

    async def _receive_at(
        self,
        request: _ReceiveRequest,
        indexes: list[int],
        most: int,
        wait_ms: int,
        *,
        is_again: bool = False,
    ) -> list[Delivery]:
        """Receive from partitions that one node leads. Only so many requests wait at other nodes:
        they share what two nodes may have under way. The others ask again and again."""
        topic, group, lease_ms, receiver, draw = request
        elsewhere_ms = wait_ms if self._waits_elsewhere < WAITS_ELSEWHERE_MAX else 0
        self._waits_elsewhere += 1
        try:
            return await self._at_leader(
                topic,
                indexes[0],
                lambda: self._leader.receive(
                    topic,
                    indexes,
                    group,
                    messages_max=most,
                    lease_ms=lease_ms,
                    wait_ms=wait_ms,
                    receiver=receiver,
                    draw=draw,
                ),
                ForwardedReceive(
                    topic.topic_id, indexes[0], group, most, lease_ms, elsewhere_ms, receiver
                ),
                list[Delivery],
                seconds=QUEUE.seconds + wait_ms / 1_000,
                # If the leader died with it, the lease ends; the receiver would ask again.
                harmless=True,
                draw=draw,
            )
        except UnknownWork:
            if is_again:
                raise
            # A leader of version 0.1 does not open a group that has a name at its first use.
            await self.open(topic, group)
            return await self._receive_at(request, indexes, most, wait_ms, is_again=True)
        finally:
            self._waits_elsewhere -= 1

    def can_receive_now(self, topic: Topic, index: int) -> bool:
        """Whether a receive of a partition that this node leads would probably get something; the
        same errors as of `receive`."""
        work = self._leader.work(topic, index, DEFAULT_WORK_GROUP)
        if work is None or work.is_held or not work.ready:
            return False
        if work.leased >= work.rules.in_flight_max:
            return False
        return bool(self._receipt_key or self._find_key())

    async def receive_together(
        self, topic: Topic, index: int, wanted: Sequence[ImmediateReceive]
    ) -> list[list[Delivery]]:
        """Lease messages of a partition that this node leads for several requests at once, which
        want the same lease time, without a wait. The messages are dealt out in order; the last
        requests may get none. A lease is of one program, or of several that differ only in their
        connections. They are read on the account of the first one, and dealt out at once."""
        names = {one.receiver for one in wanted}
        account = wanted[0].account
        draw = None if account is None else MemoryDraw(account)
        try:
            found = await self._leader.receive(
                topic,
                (index,),
                DEFAULT_WORK_GROUP,
                messages_max=sum(one.messages_max for one in wanted),
                lease_ms=wanted[0].lease_ms,
                wait_ms=0,
                receiver=names.pop() if len(names) == 1 else worker_name(wanted[0].receiver),
                draw=draw,
            )
        finally:
            if draw is not None:
                draw.close()
        dealt: list[list[Delivery]] = []
        start = 0
        for one in wanted:
            dealt.append(found[start : start + one.messages_max])
            start += one.messages_max
        return dealt

    # Settling.

    async def settle(self, topic: Topic, verdicts: Verdicts) -> list[Outcome]:
        """Carry out verdicts on leased messages; one outcome for each, in order."""
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
        reply = await self._forwarder.change(self._topics.shard_of(partition), command)
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

    # Counting and browsing.

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
            lambda: _soon(self._leader.counts(topic, index, group)),
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
                self._leader.browse(
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
        check_unprotected(topic.name)
        chosen = rules or work_rules(self._topics.catalog, topic, group)
        await self._everywhere(
            topic,
            lambda partition: opening(partition, group, chosen, Offset(start)),
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
        """Reset the offsets of a work group to `start`, `EARLIEST` or `LATEST`; leases end."""
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
        """Cancel messages that are not leased; returns how many."""
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

    async def requeue_dead(
        self,
        topic: Topic,
        places: Sequence[tuple[int, Offset]] | None = None,
        group: str = DEFAULT_WORK_GROUP,
    ) -> int:
        """Deliver dead messages anew; None: all of them. Returns how many."""
        if places is None:
            return await self._everywhere(
                topic, lambda partition: RequeueDead(partition=partition, group=group)
            )
        total = 0
        for index, offsets in _by_index(places).items():
            total += await self._everywhere(
                topic,
                lambda partition, offsets=offsets: RequeueDead(  # type: ignore[misc]
                    partition=partition, group=group, offsets=offsets
                ),
                index=index,
            )
        return total

    async def remove_dead(
        self,
        topic: Topic,
        index: int,
        offsets: Sequence[Offset],
        group: str = DEFAULT_WORK_GROUP,
        discarded: bool = False,
        copies: Sequence[CopyPlace] = (),
    ) -> int:
        """Forget dead messages that have been moved away, or are discarded."""
        return await self._everywhere(
            topic,
            lambda partition: RemoveDead(
                partition=partition,
                group=group,
                offsets=tuple(offsets),
                discarded=discarded,
                copies=tuple(copies),
            ),
            index=index,
        )

    # Other nodes.

    async def serve(self, request: QueueCall, account: MemoryAccount | None = None) -> object:
        """Do what another node asks of the leader; messages are read on the `account` of its
        link."""
        asked = request.there
        topic = self._topics.catalog.topic_by_id(asked.topic_id)
        if topic is None:
            raise Unavailable("this node does not know the topic: it is new, or was deleted")
        match asked:
            case ForwardedSend(index=index, messages=messages, protocol=protocol):
                return await self._leader.send(topic, index, messages, protocol)
            case ForwardedReceive():
                return await self._receive_for_node(topic, asked, account)
            case ForwardedCount(index=index, group=group):
                return self._leader.counts(topic, index, group)
            case ForwardedBrowse(index=index, group=group):
                found = self._leader.browse(
                    topic,
                    index,
                    group,
                    start=asked.start,
                    states=frozenset(map(current_state, asked.states)),
                    messages_max=asked.messages_max,
                )
                return [msgspec.structs.replace(one, state=old_state(one.state)) for one in found]

    async def _receive_for_node(
        self, topic: Topic, asked: ForwardedReceive, account: MemoryAccount | None
    ) -> list[Delivery]:
        draw = None if account is None else MemoryDraw(account)
        bytes_max = asked.bytes_max
        try:
            return await self._leader.receive(
                topic,
                (asked.index,),
                asked.group,
                messages_max=asked.messages_max,
                lease_ms=asked.lease_ms,
                wait_ms=asked.wait_ms,
                receiver=asked.receiver,
                draw=draw,
                bytes_max=min(bytes_max, RECEIVE_BYTES_MAX) if bytes_max else RECEIVE_BYTES_MAX,
            )
        finally:
            if draw is not None:
                draw.close()

    async def _at_leader(
        self,
        topic: Topic,
        index: int,
        here: Callable[[], Awaitable[T]],
        there: ForwardedRequest,
        kind: type[T],
        *,
        seconds: float = QUEUE.seconds,
        harmless: bool = False,
        draw: MemoryDraw | None = None,
    ) -> T:
        """Carry out a request here if this node leads the partition, else at its leader; again
        while there is none. A harmless request is also repeated when its outcome is unknown. `draw`
        is a receive's."""
        shard = self._topics.shard_of(topic.partitions[index])
        retries = self._topics.retrier.within(TRY_SECONDS, LEADER)
        while True:
            try:
                leader = self._topics.leader(shard).node
                if leader == self._topics.node_id:
                    return await here()
                return await self._ask(leader, there, kind, seconds, draw)
            except (Unavailable, OutcomeUnknown, UnknownPartition) as error:
                if isinstance(error, OutcomeUnknown) and not harmless:
                    raise
                if isinstance(error, UnknownTopic | StorageFull | TooManyReceives):
                    raise
                if self._topics.catalog.topic_by_id(topic.topic_id) is None:
                    raise UnknownTopicId(f"topic {topic.name} was deleted") from error
                if not await retries.pause(error):
                    raise

    async def _ask(
        self,
        leader: NodeId,
        there: ForwardedRequest,
        kind: type[T],
        seconds: float,
        draw: MemoryDraw | None,
    ) -> T:
        if leader == NO_NODE:
            raise NotLeader("the partition has no leader now")
        if isinstance(there, ForwardedReceive) and draw is not None:
            room = draw.room(RECEIVE_BYTES_MAX)
            if not room:  # As at a leader; a receive that waits asks again soon.
                return cast("T", [])
            there = msgspec.structs.replace(there, bytes_max=room)
        waits = isinstance(there, ForwardedReceive) and there.wait_ms > 0
        with parked() if waits else nullcontext():
            call = QUEUE.replying(kind)
            found = await self._calls.ask_node(leader, call, QueueCall(there), seconds=seconds)
        if isinstance(there, ForwardedReceive) and draw is not None:
            deliveries = cast("list[Delivery]", found)
            draw.take(sum(len(one.message.value or b"") for one in deliveries))
        return found

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
                self._forwarder.change(self._topics.shard_of(partition), command(partition))
                for partition in chosen
            )
        )
        return sum(reply.count for reply in replies if isinstance(reply, QueueChanged))

    async def shut(self) -> None:
        """Cancel what is under way."""
        await self._returns.close()
        await self._first_use.close()


async def _soon(value: T) -> T:
    return value


def _by_index(places: Sequence[tuple[int, Offset]]) -> Mapping[int, tuple[Offset, ...]]:
    found: dict[int, list[Offset]] = {}
    for index, offset in places:
        found.setdefault(index, []).append(offset)
    return {index: tuple(offsets) for index, offsets in found.items()}


__all__ = ["ALL_STATES", "DeliveryService"]
