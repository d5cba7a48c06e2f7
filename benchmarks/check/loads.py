"""What is compared: one broker, one client process, and six loads of under a second each.

A load that takes away what another has left, such as consume after produce, comes right after it.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Moved, Production
from benchmarks.broker.small_requests import LOADS as REQUESTS
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import prepare_topic
from benchmarks.native import loads as native
from benchmarks.peers.orders import QueueOrder
from benchmarks.scaling import crews, heads
from benchmarks.sqs import load as sqs

VALUE_BYTES = 100
BATCH = 1_000
SECONDS = 0.6
MESSAGES_MAX = 400_000
CONNECTIONS = 16
READ_WITHIN_SECONDS = 60.0

PRODUCE, CONSUME, SEND, RECEIVE, SQS_SEND, REQUEST = LOADS = (
    "produce",
    "consume",
    "native send",
    "native receive, ack",
    "SQS send",
    "one-message requests",
)


class Bench:
    """A broker of whichever tree `penstock` is imported from, and its client."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._begin: tuple[int, ...] = ()
        self._left = {CONSUME: 0, RECEIVE: 0}
        self._loads: dict[str, Callable[[], Moved]] = {
            PRODUCE: self._produce,
            CONSUME: self._consume,
            SEND: self._send,
            RECEIVE: self._receive,
            SQS_SEND: self._sqs_send,
            REQUEST: self._request,
        }

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            system = stack.enter_context(Penstock(self._directory, 1))
            self._client = client = stack.enter_context(ClientProcess())
            self._log = prepare_topic(system, client, "log")
            self._single = prepare_topic(system, client, "requests")
            self._place = f"penstock://{system.bootstrap}"
            client.call(native.prepare, self._place, "queue")
            self._host = system.http[0]
            self._url = client.call(sqs.create_queue, self._host, "sqs")
            # All is there: from now on it ends with this block, not with that one.
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def measure(self, load: str) -> float:
        """Messages a second."""
        return self._loads[load]().per_second

    def _produce(self) -> Moved:
        self._begin = self._client.call(heads.ends, self._log)
        order = Production(
            target=self._log, value_bytes=VALUE_BYTES, seconds=SECONDS, messages_max=10**8
        )
        moved = self._client.call(heads.produce, order)
        self._left[CONSUME] = moved.messages
        return moved

    def _consume(self) -> Moved:
        order = heads.Reading(
            target=self._log,
            begin=self._begin,
            messages=self._left[CONSUME],
            seconds=READ_WITHIN_SECONDS,
        )
        return self._client.call(heads.read, order)

    def _send(self) -> Moved:
        moved = self._client.call(native.send, self._order(MESSAGES_MAX, SECONDS))
        self._left[RECEIVE] = moved.messages
        return moved

    def _receive(self) -> Moved:
        order = self._order(self._left[RECEIVE], READ_WITHIN_SECONDS)
        return self._client.call(crews.take, order)

    def _order(self, messages: int, seconds: float) -> QueueOrder:
        return QueueOrder(
            place=self._place,
            queue="queue",
            batch=BATCH,
            messages_max=messages,
            seconds=seconds,
            body_bytes=VALUE_BYTES,
        )

    def _sqs_send(self) -> Moved:
        order = sqs.Order(
            host=self._host, queue_url=self._url, connections=CONNECTIONS, seconds=SECONDS
        )
        return self._client.call(sqs.send, order)

    def _request(self) -> Moved:
        order = Production(
            target=self._single,
            value_bytes=VALUE_BYTES,
            seconds=SECONDS,
            messages_max=10**6,
            settings=REQUESTS[0].settings,
        )
        return self._client.call(clients.produce, order)
