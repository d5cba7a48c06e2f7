"""RabbitMQ by way of pika: a quorum queue, publisher confirms, acknowledgements of many at once.

Sending keeps one batch unconfirmed at all times, receiving one batch unacknowledged; waiting for
each message's confirm, as pika's blocking channel does, would be slower by a factor of ten.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.peers.orders import QueueOrder, library, split_place
from benchmarks.peers.pace import ArrivalBook, SentBook

UNCONFIRMED_MAX = 5_000
"""With more messages unconfirmed, a quorum queue only gets slower."""
PREFETCH_MAX = 2_000
"""With more messages unacknowledged, likewise."""
_WAIT_SECONDS = 0.1
_PERSISTENT = 2
_QUIET_SECONDS = 5.0


def prepare(place: str, queue: str) -> None:
    """An empty quorum queue."""
    pika = library("pika")
    connection = pika.BlockingConnection(_parameters(place))
    arguments = {"x-queue-type": "quorum"}
    connection.channel().queue_declare(queue, durable=True, arguments=arguments)
    connection.close()


class Confirms:
    """How many messages are confirmed, whatever the order they are confirmed in.

    A confirm is of one message, or of all up to one. RabbitMQ may confirm a message before those
    sent earlier, and confirm these all at once later, itself included: it counts once.
    """

    def __init__(self) -> None:
        self._all_up_to = 0
        self._beyond: set[int] = set()

    def __len__(self) -> int:
        return self._all_up_to + len(self._beyond)

    def add(self, tag: int, *, multiple: bool) -> None:
        """A confirm has come."""
        if multiple:
            self._all_up_to = max(self._all_up_to, tag)
            self._beyond = {one for one in self._beyond if one > self._all_up_to}
        elif tag > self._all_up_to:
            self._beyond.add(tag)
        while self._all_up_to + 1 in self._beyond:
            self._all_up_to += 1
            self._beyond.remove(self._all_up_to)


class _Sender:
    """Publishes whenever fewer than a batch are unconfirmed."""

    def __init__(self, order: QueueOrder) -> None:
        self._order = order
        self._bodies = order.bodies()
        self._window = min(order.batch, UNCONFIRMED_MAX)
        self._properties = library("pika").BasicProperties(delivery_mode=_PERSISTENT)
        self._channel: Any = None
        self._sent = 0
        self._confirms = Confirms()
        self._began = self._cpu = 0.0
        self.moved: Moved | None = None

    def start(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._begin())

    def _begin(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._publish()

    def _publish(self) -> None:
        order, bodies = self._order, self._bodies
        unconfirmed = self._sent - len(self._confirms)
        room = min(self._window - unconfirmed, order.messages_max - self._sent)
        for number in range(self._sent, self._sent + room):
            body = bodies[number % len(bodies)]
            self._channel.basic_publish("", order.queue, body, self._properties)
        self._sent += max(0, room)

    def _on_confirm(self, frame: Any) -> None:
        if frame.method.NAME != "Basic.Ack":
            raise ClientFailed("RabbitMQ refused a message")
        self._confirms.add(frame.method.delivery_tag, multiple=frame.method.multiple)
        unconfirmed = self._sent - len(self._confirms)
        late = time.perf_counter() - self._began >= self._order.seconds
        if not late and self._sent < self._order.messages_max:
            if unconfirmed <= self._window // 2:
                self._publish()
        elif not unconfirmed:
            took = time.perf_counter() - self._began
            self.moved = Moved(self._sent, took, time.process_time() - self._cpu)
            self._channel.connection.close()


class _Receiver:
    """Acknowledges half a batch at a time, so that the next one is on its way meanwhile."""

    def __init__(self, order: QueueOrder) -> None:
        self._order = order
        self._batch = min(order.batch, PREFETCH_MAX)
        self._channel: Any = None
        self._done = self._seen = 0
        self._began = self._cpu = 0.0
        self.moved: Moved | None = None

    def start(self, channel: Any) -> None:
        self._channel = channel
        channel.basic_qos(prefetch_count=self._batch, callback=lambda _: self._begin())

    def _begin(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._channel.basic_consume(self._order.queue, self._on_message)

    def _on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        if self.moved is not None:
            return  # The connection is closing, and takes no acknowledgements any more.
        self._done += 1
        self._seen += len(body)
        order = self._order
        over = self._done >= order.messages_max
        if over or self._done % max(1, self._batch // 2) == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)
            over = over or time.perf_counter() - self._began >= order.seconds
        if over:
            took = time.perf_counter() - self._began
            self.moved = Moved(self._done, took, time.process_time() - self._cpu)
            channel.connection.close()


def send(order: QueueOrder) -> Moved:
    """Everything is confirmed when it ends."""
    sender = _Sender(order)
    _run(order.place, sender.start)
    return _moved(sender.moved)


def receive(order: QueueOrder) -> Moved:
    """As many as the order says are there."""
    receiver = _Receiver(order)
    _run(order.place, receiver.start)
    return _moved(receiver.moved)


def _moved(found: Moved | None) -> Moved:
    if found is None:
        raise ClientFailed("RabbitMQ closed the connection, or was silent for too long")
    return found


def _run(place: str, start: Callable[[Any], None]) -> None:
    """Drive a connection until somebody closes it, or for so long that something is wrong."""
    pika = library("pika")

    def opened(connection: Any) -> None:
        connection.ioloop.call_later(120.0, connection.ioloop.stop)
        connection.channel(on_open_callback=start)

    connection = pika.SelectConnection(
        _parameters(place),
        on_open_callback=opened,
        on_open_error_callback=lambda connection, _: connection.ioloop.stop(),
        on_close_callback=lambda connection, _: connection.ioloop.stop(),
    )
    connection.ioloop.start()


def send_on_schedule(schedule: Schedule) -> Sent:
    """Each message when it is due, its confirm waited for."""
    pika = library("pika")
    connection = pika.BlockingConnection(_parameters(schedule.target.bootstrap))
    channel = connection.channel()
    channel.confirm_delivery()
    properties = pika.BasicProperties(delivery_mode=_PERSISTENT)
    book = SentBook(schedule)
    for body in book.due():
        channel.basic_publish("", schedule.target.topic, body, properties)
        book.acknowledged()
    connection.close()
    return book.sent


def receive_on_schedule(schedule: Schedule) -> Arrivals:
    """Note when each arrives."""
    pika = library("pika")
    book = ArrivalBook(schedule)
    connection = pika.BlockingConnection(_parameters(schedule.target.bootstrap))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    found = channel.consume(schedule.target.topic, inactivity_timeout=_WAIT_SECONDS)
    for method, _, body in found:
        if method is not None:
            book.arrived(body)
            channel.basic_ack(method.delivery_tag)
        if not book.is_open:
            break
    connection.close()
    return book.arrivals


def answers(place: str) -> bool:
    """Whether a server is there."""
    pika = library("pika")
    try:
        pika.BlockingConnection(_parameters(place)).close()
    except pika.exceptions.AMQPError:
        return False
    return True


def _parameters(place: str) -> Any:
    host, port = split_place(place)
    return library("pika").ConnectionParameters(
        host, port, heartbeat=0, blocked_connection_timeout=_QUIET_SECONDS, stack_timeout=30
    )
