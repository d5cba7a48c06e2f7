"""Throughput and memory as partitions grow from one to ten thousand, in one topic of one node.

Each number of partitions is a broker of its own. The client names no partition: it sends to one for
some milliseconds and then to another, as librdkafka does by default, so that the load is the same
for all. A second time messages have keys and go to all partitions evenly: a request of librdkafka
holds one batch of one partition, so that its batches become smaller as partitions grow.
"""

from contextlib import ExitStack
from pathlib import Path

from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.orders import Target
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import prepare_topic
from benchmarks.report import Finding, Progress
from benchmarks.scaling import heads
from benchmarks.scaling.backlog import READ_WITHIN_SECONDS, VALUE_BYTES, production, weigh
from benchmarks.scaling.curves import Curve, Rate

SIZES = (1, 10, 100, 1_000, 10_000)
SIZES_QUICK = (1, 10, 100, 1_000)
ROUNDS = 5
ROUNDS_QUICK = 2
SECONDS = 0.7
KEYED_MESSAGES_MAX = 200_000
KEYED_MESSAGES_LEAST = 20_000
"""Of ten thousand partitions: each is a request then, and all must be waited for."""
WAYS = ("produce", "consume", "produce with keys")
AIM, AIM_PARTITIONS = 0.7, 1_000


def measure_partition_scaling(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every number of partitions, three ways."""
    curve = Curve("partitions", SIZES_QUICK if quick else SIZES, WAYS)
    with ClientProcess() as client, ExitStack() as stack:
        places: dict[int, tuple[Penstock, Target]] = {}
        for size in curve.sizes:
            progress(f"scaling, partitions: creating {size:,}")
            home = Path(directory) / f"partitions-{size}"
            system = stack.enter_context(Penstock(home, 1))
            places[size] = system, prepare_topic(system, client, "messages", size)
        rounds = ROUNDS_QUICK if quick else ROUNDS
        curve.gather(progress, rounds, lambda size: _measure(*places[size], client))
    return [
        curve.finding(
            "scaling-partitions",
            f"Scaling, partitions of one topic, messages of {VALUE_BYTES} B, one node",
            label="partitions",
            notes=[
                "confluent-kafka with its defaults, acks=all, one process, synced.",
                "consume: one consumer of all partitions, without a group.",
                "with keys: to all partitions evenly; a request holds a batch of one partition.",
                f"aim: {AIM} of one partition at {AIM_PARTITIONS:,}, without keys.",
            ],
        )
    ]


def _measure(system: Penstock, target: Target, client: ClientProcess) -> dict[str, Rate]:
    begin = client.call(heads.ends, target)
    order = production(target, seconds=SECONDS)
    produced = weigh(system, lambda: client.call(heads.produce, order))
    reading = heads.Reading(
        target=target,
        begin=begin,
        messages=produced.moved.messages,
        seconds=READ_WITHIN_SECONDS,
    )
    consumed = weigh(system, lambda: client.call(heads.read, reading))
    most = max(KEYED_MESSAGES_LEAST, KEYED_MESSAGES_MAX // max(1, target.partitions // 1_000))
    keyed = production(target, seconds=SECONDS, messages=most)
    spread = weigh(system, lambda: client.call(heads.produce, keyed, keys=True))
    return dict(zip(WAYS, (produced, consumed, spread), strict=True))
