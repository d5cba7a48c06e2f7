"""Producers that send all the time, and write down what became of every message."""

import time
from collections.abc import Mapping
from functools import partial
from random import Random

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.cluster.clients import PRODUCER, Setting, certainly_failed, error_in
from tests.cluster.history import Operation, Recorder, key_of
from tests.cluster.payloads import payload_of
from tests.cluster.steady import SteadyClient

IN_FLIGHT_MAX = 4_000
_TURN_SECONDS = 0.01
_FLUSH_SECONDS = 60.0


class SteadyProducer(SteadyClient):
    """An idempotent producer that sends so many messages a second until it is stopped.

    A producer whose client has failed for good (which none should) goes on with a new client under
    a new name; the errors are counted.
    """

    def __init__(
        self,
        recorder: Recorder,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        per_second: int,
        seed: int,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        super().__init__(f"producer-{seed}")
        self._recorder = recorder
        self._settings = {**PRODUCER, "bootstrap.servers": bootstrap, **(settings or {})}
        self._topic = topic
        self._partitions = partitions
        self._per_turn = per_second * _TURN_SECONDS
        self._random = Random(seed)
        self._fatal = False
        self._in_flight = 0
        self.acked = 0

    def work(self) -> None:
        while not self.stopping:
            self._live()

    def _live(self) -> None:
        """One client, from its first message to its last report."""
        process = self._recorder.new_process("producer")
        client = Producer(self._settings)
        self._fatal = False
        count = 0
        owed = 0.0
        while not self.stopping and not self._fatal:
            owed = min(owed + self._per_turn, 100 * self._per_turn)
            while owed >= 1 and self._in_flight < IN_FLIGHT_MAX:
                owed -= 1
                count += 1
                self._send(client, process, f"{process}-{count}")
            turn_ends = time.monotonic() + _TURN_SECONDS
            while (patience := turn_ends - time.monotonic()) > 0:
                client.poll(patience)
        left = client.flush(_FLUSH_SECONDS)
        if left:
            client.purge()  # Reports follow for all of them, and nobody knows.
            client.flush(_FLUSH_SECONDS)

    def _send(self, client: Producer, process: str, name: str) -> None:
        partition = self._random.randrange(self._partitions)
        key = key_of(self._topic, partition)
        operation = self._recorder.invoke(process, "send", sends=[(key, None, name)])
        report = partial(self._reported, operation, key, name)
        try:
            client.produce(self._topic, payload_of(name), partition=partition, on_delivery=report)
        except (BufferError, KafkaException) as refusal:
            # The client did not take it: it never left.
            operation.complete("fail", note=str(refusal))
            if isinstance(refusal, KafkaException):
                self._note(error_in(refusal))
        else:
            self._in_flight += 1

    def _reported(
        self, operation: Operation, key: str, name: str, error: KafkaError | None, message: Message
    ) -> None:
        self._in_flight -= 1
        if error is None:
            self.acked += 1
            operation.complete("ok", sends=[(key, message.offset(), name)])
            return
        self._note(error)
        outcome = "fail" if certainly_failed(error) else "info"
        operation.complete(outcome, note=error.str())  # type: ignore[arg-type]

    def _note(self, error: KafkaError) -> None:
        self.errors[error.name()] += 1
        self._fatal = self._fatal or error.fatal()
