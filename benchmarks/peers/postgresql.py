"""A queue in PostgreSQL by way of psycopg: COPY in, DELETE … SKIP LOCKED … RETURNING out.

A transaction for each batch; receiving and acknowledging are one statement, which is what makes
this queue fast, and why a message is lost to nobody: a worker that dies rolls it back.
"""

import time
from typing import Any

from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Schedule
from benchmarks.broker.schedules import Arrivals, Sent
from benchmarks.peers.orders import QueueOrder, library, split_place
from benchmarks.peers.pace import ArrivalBook, SentBook

_WAIT_SECONDS = 0.1
_CHUNK = 100
_TAKE = (
    "DELETE FROM {queue} WHERE id IN (SELECT id FROM {queue} ORDER BY id LIMIT {batch}"
    " FOR UPDATE SKIP LOCKED) RETURNING body"
)


def prepare(place: str, queue: str) -> None:
    """An empty table."""
    with _connection(place) as connection:
        connection.execute(f"CREATE TABLE {queue} (id BIGSERIAL PRIMARY KEY, body BYTEA NOT NULL)")


def send(order: QueueOrder) -> Moved:
    """A COPY and a commit for each batch."""
    bodies = order.bodies()
    with _connection(order.place) as connection:
        cursor = connection.cursor()
        sent, began, cpu = 0, time.perf_counter(), time.process_time()
        while sent < order.messages_max and time.perf_counter() - began < order.seconds:
            with cursor.copy(f"COPY {order.queue} (body) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["bytea"])
                for body in bodies:
                    copy.write_row((body,))
            connection.commit()
            sent += len(bodies)
        return Moved(sent, time.perf_counter() - began, time.process_time() - cpu)


def receive(order: QueueOrder) -> Moved:
    """A batch is taken, looked at and gone, until there is none."""
    statement = _TAKE.format(queue=order.queue, batch=order.batch)
    with _connection(order.place) as connection:
        cursor = connection.cursor(binary=True)
        done, seen, began, cpu = 0, 0, time.perf_counter(), time.process_time()
        while done < order.messages_max and time.perf_counter() - began < order.seconds:
            rows = cursor.execute(statement).fetchall()
            if not rows:
                break
            seen += sum(len(body) for (body,) in rows)
            connection.commit()
            done += len(rows)
        took = Moved(done, time.perf_counter() - began, time.process_time() - cpu)
    if seen != done * order.body_bytes:
        raise ClientFailed(f"{seen} bytes came in {done} messages")
    return took


def send_on_schedule(schedule: Schedule) -> Sent:
    """Each message when it is due, with a word to whoever listens."""
    queue = schedule.target.topic
    with _connection(schedule.target.bootstrap) as connection:
        book = SentBook(schedule)
        for body in book.due():
            connection.execute(f"INSERT INTO {queue} (body) VALUES (%b)", (body,))
            connection.execute(f"NOTIFY {queue}")
            connection.commit()
            book.acknowledged()
        return book.sent


def receive_on_schedule(schedule: Schedule) -> Arrivals:
    """Note when each arrives."""
    book = ArrivalBook(schedule)
    queue = schedule.target.topic
    statement = _TAKE.format(queue=queue, batch=_CHUNK)
    with _connection(schedule.target.bootstrap, autocommit=True) as connection:
        connection.execute(f"LISTEN {queue}")
        cursor = connection.cursor(binary=True)
        while book.is_open:
            rows = cursor.execute(statement).fetchall()
            for (body,) in rows:
                book.arrived(body)
            if not rows:
                list(connection.notifies(timeout=_WAIT_SECONDS, stop_after=1))
    return book.arrivals


def answers(place: str) -> bool:
    """Whether a server is there."""
    try:
        with _connection(place):
            return True
    except library("psycopg").OperationalError:
        return False


def _connection(place: str, *, autocommit: bool = False) -> Any:
    host, port = split_place(place)
    return library("psycopg").connect(
        host=host, port=port, user="benchmark", dbname="postgres", autocommit=autocommit
    )
