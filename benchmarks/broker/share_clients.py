"""Share consumers of the measurements: librdkafka's, one thread each, with its defaults."""

import threading
import time
from typing import Any

import confluent_kafka.admin
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient

from benchmarks.broker.clients import ANSWER_WITHIN_SECONDS, CLIENT, ClientFailed
from benchmarks.broker.orders import Moved, Target

_POLL_SECONDS = 0.1
_admin: Any = confluent_kafka.admin
"""Its names are public, but not to the type checker."""


def read_from_the_beginning(bootstrap: str, group: str) -> None:
    """Make a share group begin with the first message, as it would not by itself."""
    change = _admin.ConfigEntry(
        "share.auto.offset.reset",
        "earliest",
        incremental_operation=_admin.AlterConfigOpType.SET,
    )
    resource = _admin.ConfigResource(_admin.ResourceType.GROUP, group, incremental_configs=[change])
    admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(ANSWER_WITHIN_SECONDS)


def drain(target: Target, group: str, consumers: int, messages: int, seconds: float) -> Moved:
    """Receive and accept so many messages; the clock starts when the consumers are made.

    A message is accepted by the poll after the one that brought it. The last ones are committed, as
    a consumer that closes gives back what it has not accepted.
    """
    received = [0] * consumers
    errors: list[str] = []
    over = threading.Event()

    def work(number: int) -> None:
        consumer = ShareConsumer(
            {**CLIENT, "bootstrap.servers": target.bootstrap, "group.id": group}
        )
        try:
            consumer.subscribe([target.topic])
            while not over.is_set():
                for message in consumer.poll(_POLL_SECONDS):
                    if message.error() is not None:
                        errors.append(str(message.error()))
                        return
                    received[number] += 1
                if sum(received) >= messages:
                    consumer.commit_sync(ANSWER_WITHIN_SECONDS)
                    over.set()
        finally:
            consumer.close()

    began_cpu, began = time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(consumers)]
    for thread in threads:
        thread.start()
    if not over.wait(seconds):
        over.set()
        errors.append(f"{sum(received)} of {messages} messages within {seconds:g} s")
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if errors:
        raise ClientFailed("; ".join(errors[:3]))
    return Moved(sum(received), took, time.process_time() - began_cpu)
