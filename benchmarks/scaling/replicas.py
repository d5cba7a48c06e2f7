"""What three replicas cost: a cluster of three beside a single node, on the same two cores.

Three nodes are three processes of one machine. Every message is written and synced three times to
one disk and crosses the loopback twice, and all of that takes processor time from the leader and
from the client: a real cluster has three machines for it. Both are started anew in each round, and
never run at the same time.
"""

from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Consumption
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import prepare_topic
from benchmarks.native import loads
from benchmarks.peers.orders import QueueOrder
from benchmarks.report import Finding, Progress
from benchmarks.scaling import crews
from benchmarks.scaling.backlog import (
    BATCH,
    MESSAGES_MAX,
    READ_WITHIN_SECONDS,
    VALUE_BYTES,
    production,
    weigh,
)
from benchmarks.scaling.curves import Curve, Rate

SIZES = (1, 3)
ROUNDS = 5
ROUNDS_QUICK = 1
SECONDS = 0.8
WARM_UP_SECONDS = 0.3
WAYS = ("produce", "consume", "send", "receive, ack")
AIM = 0.4


def measure_replica_scaling(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: one node and three, four ways."""
    curve = Curve("nodes", SIZES, WAYS)
    with ClientProcess() as client:

        def measure(size: int) -> dict[str, Rate]:
            with Penstock(Path(directory) / "replicas", size) as system:
                return _measure(system, client)

        curve.gather(progress, ROUNDS_QUICK if quick else ROUNDS, measure)
    return [
        curve.finding(
            "scaling-replicas",
            f"Scaling, replicas, messages of {VALUE_BYTES} B",
            label="replicas",
            notes=[
                "three: three processes on this machine, sharing its cores and its disk.",
                "acknowledged after fdatasync on the one, or on two of three.",
                f"send, receive: the native client by {BATCH:,}.",
                f"aim: {AIM} of one.",
            ],
        )
    ]


def _measure(system: Penstock, client: ClientProcess) -> dict[str, Rate]:
    target = prepare_topic(system, client, "messages")
    client.call(clients.produce, production(target, seconds=WARM_UP_SECONDS))
    order = production(target, seconds=SECONDS)
    produced = weigh(system, lambda: client.call(clients.produce, order))
    reading = Consumption(target=target, seconds=READ_WITHIN_SECONDS)
    consumed = weigh(system, lambda: client.call(clients.consume, reading))
    place = f"penstock://{system.bootstrap}"
    client.call(loads.prepare, place, "queue")
    warm = _order(place, MESSAGES_MAX, WARM_UP_SECONDS)
    client.call(crews.take, _order(place, client.call(loads.send, warm).messages))
    sending = _order(place, MESSAGES_MAX, SECONDS)
    sent = weigh(system, lambda: client.call(loads.send, sending))
    taking = _order(place, sent.moved.messages)
    taken = weigh(system, lambda: client.call(crews.take, taking))
    return dict(zip(WAYS, (produced, consumed, sent, taken), strict=True))


def _order(place: str, messages: int, seconds: float = READ_WITHIN_SECONDS) -> QueueOrder:
    return QueueOrder(
        place=place,
        queue="queue",
        batch=BATCH,
        messages_max=messages,
        seconds=seconds,
        body_bytes=VALUE_BYTES,
    )
