"""What happened to every message of every queue, put together from a history.

    Sending      one message on its way in
    Receive      somebody asked for messages
    Delivery     one message of the answer: a lease
    Settlement   what its worker said about it

Operations took effect at some moment between their beginning and their end; one whose outcome is
unknown at any moment after its beginning, or never. The rules use nothing but that.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from tests.cluster.history import Completion, Event
from tests.cluster.queue_facts import Promises, QueueFacts, Verdict

Moment = float
"""Nanoseconds; `inf` is never."""


@dataclass(slots=True)
class Operation:
    """When it began, when it ended, and how."""

    began: Moment
    ended: Moment = inf
    outcome: Completion = "info"

    @property
    def ok(self) -> bool:
        """It certainly happened."""
        return self.outcome == "ok"

    @property
    def possible(self) -> bool:
        """It happened, or may have."""
        return self.outcome != "fail"


@dataclass(slots=True)
class Sending(Operation):
    """A message on its way into a queue."""

    value: str = ""
    queue: str = ""
    facts: QueueFacts = field(default_factory=lambda: QueueFacts(""))
    identity: str = ""

    def describe(self) -> str:
        return f"{self.value} ({self.outcome}) of {self.queue}"


@dataclass(slots=True)
class Settlement(Operation):
    """What a worker said about a message."""

    verdict: Verdict = "ack"
    delay_ms: int = 0


@dataclass(slots=True)
class Receive(Operation):
    """A worker that asked for messages."""

    lease_ms: int = 0
    deliveries: "list[Delivery]" = field(default_factory=list)


@dataclass(slots=True)
class Delivery:
    """A message that was leased to a worker."""

    value: str
    queue: str
    count: int
    receipt: str
    identity: str
    place: int
    """In the answer."""
    receive: Receive
    settlements: list[Settlement] = field(default_factory=list)

    def settled(self, *verdicts: Verdict) -> Iterator[Settlement]:
        """What was said about it, or may have been, in the order it was said."""
        for one in self.settlements:
            if one.verdict in verdicts and one.possible:
                yield one

    def describe(self) -> str:
        return f"{self.value} of {self.queue}, delivery {self.count}"


@dataclass(slots=True)
class QueueLog:
    """One queue as its clients know it."""

    name: str
    promises: Promises = field(default_factory=Promises)
    sendings: dict[str, Sending] = field(default_factory=dict)
    deliveries: dict[str, list[Delivery]] = field(default_factory=dict)
    """Value -> its deliveries, by count."""
    receives: list[Receive] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    """As they were told, in order."""

    def unknown_receives(self, before: Moment) -> int:
        """How many may have been answered with messages that nobody saw."""
        return sum(one.outcome == "info" and one.began < before for one in self.receives)

    def acks(self, value: str) -> Iterator[Settlement]:
        """All that were said of a value, whether they took effect or may have."""
        for delivery in self.deliveries.get(value, ()):
            yield from delivery.settled("ack")


class QueueModel:
    """Everything derived from a history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.queues: dict[str, QueueLog] = {}
        self.home: dict[str, str] = {}
        """Value -> the queue it was sent to."""
        self.last_drain_ok = False
        self._open: dict[tuple[str, int], Operation] = {}
        self._by_receipt: dict[str, Delivery] = {}
        for event in events:
            if event.f == "drain" and event.type != "invoke":
                self.last_drain_ok = event.type == "ok"
            elif event.queue is not None:
                self._take(event, event.queue)
        for log in self.queues.values():
            for deliveries in log.deliveries.values():
                deliveries.sort(key=lambda one: (one.count, one.receive.ended))

    def dead_letter_homes(self) -> dict[str, list[QueueLog]]:
        """Dead-letter queue -> the queues whose dead letters it gets."""
        homes: dict[str, list[QueueLog]] = {}
        for log in self.queues.values():
            if log.promises.dead_letters:
                homes.setdefault(log.promises.dead_letters, []).append(log)
        return homes

    def dead_letters(self, log: QueueLog, value: str) -> list[Delivery]:
        """Where a value was found among the dead letters."""
        dead = self.queues.get(log.promises.dead_letters)
        return [] if dead is None else dead.deliveries.get(value, [])

    def deliveries_before(self, log: QueueLog, value: str) -> int:
        """What a queue counts on from: a dead letter has been delivered as often as it may."""
        home = self.queues.get(self.home.get(value, log.name), log)
        if home is log or home.promises.dead_letters != log.name:
            return 0
        for one in home.deliveries.get(value, ()):
            if any(True for _ in one.settled("reject")):
                return log.deliveries[value][0].count - 1
        return home.promises.deliveries_max

    def _take(self, event: Event, facts: QueueFacts) -> None:
        log = self.queues.get(facts.name)
        if log is None:
            log = self.queues[facts.name] = QueueLog(facts.name)
        if event.type != "invoke":
            self._complete(event, facts, log)
        elif event.f == "queue":
            log.promises = facts.promises or Promises()
        elif event.f == "send":
            self._send(event, facts, log)
        elif event.f == "receive":
            receive = Receive(event.at, lease_ms=facts.lease_ms)
            log.receives.append(receive)
            self._open[event.process, event.op] = receive
        elif event.f == "settle":
            delivery = self._by_receipt[facts.receipt]
            settlement = Settlement(event.at, verdict=facts.verdict, delay_ms=facts.delay_ms)
            delivery.settlements.append(settlement)
            self._open[event.process, event.op] = settlement

    def _send(self, event: Event, facts: QueueFacts, log: QueueLog) -> None:
        ((_, _, value),) = event.sends
        assert value not in self.home, f"{value} is sent twice"
        self.home[value] = facts.name
        sending = Sending(event.at, value=value, queue=facts.name, facts=facts)
        log.sendings[value] = sending
        self._open[event.process, event.op] = sending

    def _complete(self, event: Event, facts: QueueFacts, log: QueueLog) -> None:
        if event.f == "counts" and event.type == "ok":
            log.counts.append(facts.counts)
        operation = self._open.pop((event.process, event.op), None)
        if operation is None:
            return
        assert event.type != "invoke", "an invocation completes nothing"
        operation.outcome = event.type
        # Of what is unknown its end says nothing: it may take effect later.
        operation.ended = inf if event.type == "info" else event.at
        if isinstance(operation, Sending):
            operation.identity = facts.identity
        elif isinstance(operation, Receive):
            self._deliver(operation, facts, log)

    def _deliver(self, receive: Receive, facts: QueueFacts, log: QueueLog) -> None:
        for place, one in enumerate(facts.delivered):
            delivery = Delivery(
                one.value, log.name, one.count, one.receipt, one.identity, place, receive
            )
            receive.deliveries.append(delivery)
            log.deliveries.setdefault(one.value, []).append(delivery)
            self._by_receipt[one.receipt] = delivery
