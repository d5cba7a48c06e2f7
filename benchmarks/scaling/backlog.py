"""Throughput as the backlog grows from nothing to ten million messages, as a log and as a queue.

Each backlog is a broker of its own, with a topic and a queue that hold so many messages. A turn
sends to the topic for a moment and reads just that, at the head; then sends to the queue and
receives and acknowledges as many, which are the oldest ones there: a turn leaves the backlog as
long as it was.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Production, Target
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import prepare_topic
from benchmarks.native import loads
from benchmarks.peers.orders import QueueOrder
from benchmarks.report import Finding, Progress
from benchmarks.scaling import crews, heads
from benchmarks.scaling.curves import Curve, Rate

SIZES = (0, 100_000, 1_000_000, 10_000_000)
SIZES_QUICK = (0, 10_000, 100_000, 1_000_000)
ROUNDS = 5
ROUNDS_QUICK = 2
SECONDS = 0.6
VALUE_BYTES = 100
BATCH = 1_000
MESSAGES_MAX = 400_000
"""Of one turn: what the slowest part may have to take back."""
READ_WITHIN_SECONDS = 60.0
FILL_WITHIN_SECONDS = 400.0
PATIENCE_SECONDS = FILL_WITHIN_SECONDS + 60.0
WAYS = ("produce", "consume", "send", "receive, ack")
AIM = 0.8


def measure_backlog_scaling(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every backlog, four ways."""
    curve = Curve("backlog_messages", SIZES_QUICK if quick else SIZES, WAYS)
    with ClientProcess() as client, ExitStack() as stack:
        places: dict[int, _Place] = {}
        for size in curve.sizes:
            progress(f"scaling, backlog: filling {size:,}")
            home = Path(directory) / f"backlog-{size}"
            places[size] = _Place(stack.enter_context(Penstock(home, 1)), client)
            places[size].fill(size)
        rounds = ROUNDS_QUICK if quick else ROUNDS
        curve.gather(progress, rounds, lambda size: places[size].measure())
    return [
        curve.finding(
            "scaling-backlog",
            f"Scaling, messages of {VALUE_BYTES} B that lie there already, one node",
            label="backlog",
            notes=[
                "produce, consume: confluent-kafka, acks=all, at the head of the topic.",
                f"send, receive: the native client by {BATCH:,}; received are the oldest.",
                f"synced before acknowledged. aim: {AIM} of the empty one at the largest.",
            ],
        )
    ]


class _Place:
    """A broker with a backlog."""

    def __init__(self, system: Penstock, client: ClientProcess) -> None:
        self._system = system
        self._client = client
        self._target = prepare_topic(system, client, "log")
        self._order = QueueOrder(
            place=f"penstock://{system.bootstrap}",
            queue="queue",
            batch=BATCH,
            messages_max=MESSAGES_MAX,
            seconds=SECONDS,
            body_bytes=VALUE_BYTES,
        )
        client.call(loads.prepare, self._order.place, self._order.queue)

    def fill(self, messages: int) -> None:
        """The topic and the queue, as fast as it goes."""
        if not messages:
            return
        order = production(self._target, seconds=FILL_WITHIN_SECONDS, messages=messages)
        sent = self._client.begin(clients.produce, order).result(PATIENCE_SECONDS).messages
        queued = QueueOrder(
            place=self._order.place,
            queue=self._order.queue,
            # As all others are: what is received is stored as it was sent.
            batch=BATCH,
            messages_max=messages,
            seconds=FILL_WITHIN_SECONDS,
            body_bytes=VALUE_BYTES,
        )
        taken = self._client.begin(loads.send, queued).result(PATIENCE_SECONDS).messages
        if min(sent, taken) < messages:
            raise ClientFailed(f"{sent:,} and {taken:,} of {messages:,} in {FILL_WITHIN_SECONDS} s")

    def measure(self) -> dict[str, Rate]:
        """One turn."""
        client = self._client
        begin = client.call(heads.ends, self._target)
        order = production(self._target, seconds=SECONDS)
        produced = self._weigh(lambda: client.call(heads.produce, order))
        reading = heads.Reading(
            target=self._target,
            begin=begin,
            messages=produced.moved.messages,
            seconds=READ_WITHIN_SECONDS,
        )
        consumed = self._weigh(lambda: client.call(heads.read, reading))
        sent = self._weigh(lambda: client.call(loads.send, self._order))
        taking = QueueOrder(
            place=self._order.place,
            queue=self._order.queue,
            batch=BATCH,
            messages_max=sent.moved.messages,
            seconds=READ_WITHIN_SECONDS,
            body_bytes=VALUE_BYTES,
        )
        taken = self._weigh(lambda: client.call(crews.take, taking))
        return dict(zip(WAYS, (produced, consumed, sent, taken), strict=True))

    def _weigh(self, work: Callable[[], Moved]) -> Rate:
        return weigh(self._system, work)


def production(target: Target, *, seconds: float, messages: int = 100 * MESSAGES_MAX) -> Production:
    """Send small messages for so long."""
    return Production(
        target=target, value_bytes=VALUE_BYTES, seconds=seconds, messages_max=messages
    )


def weigh(system: Penstock, work: Callable[[], Moved]) -> Rate:
    """Do it, and see what it took of the broker."""
    before = system.usage()
    moved = work()
    after = system.usage()
    return Rate(
        moved=moved,
        broker_cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        memory_bytes=after.memory_bytes,
    )
