"""Throughput as consumers grow from one to sixty-four: workers of a queue, members of a group.

A machine with two cores has none for each consumer, so they share two client processes, and one
consumer is alone in one. What grows is therefore the number of connections, of requests under way
and of leases held at a time, not the processors that work for them: the most a line can show is
that more consumers cost nothing.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved, Target
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import prepare_topic
from benchmarks.native import loads
from benchmarks.peers.orders import QueueOrder
from benchmarks.report import Finding, Progress
from benchmarks.scaling import crews, groups
from benchmarks.scaling.backlog import FILL_WITHIN_SECONDS, VALUE_BYTES, production, weigh
from benchmarks.scaling.curves import Curve, Rate

SIZES = (1, 4, 16, 64)
PROCESSES = 2
ROUNDS = 5
ROUNDS_QUICK = 2
QUEUE_MESSAGES = 32_000
"""For each worker up to four: one alone waits for the disk most of the time."""
QUEUE_MESSAGES_QUICK = 8_000
TOPIC_MESSAGES = 1_280_000
TOPIC_MESSAGES_QUICK = 256_000
BATCH = 100
FILL_BATCH = 4_000
QUEUE = "work"
ASSIGNED_WITHIN_SECONDS = 60.0
READ_WITHIN_SECONDS = 60.0
CONNECT_SECONDS = 0.3
CONNECT_SECONDS_EACH = 0.015
"""Until all consumers begin."""
WAYS = ("receive, ack", "group consume")


def measure_consumer_scaling(directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
    """One finding: every number of consumers, both ways."""
    curve = Curve("consumers", SIZES, WAYS)
    home = Path(directory) / "consumers"
    with Penstock(home, 1) as system, ClientProcess() as first, ClientProcess() as second:
        place = _Place(system, (first, second), quick=quick)
        for size in curve.sizes:
            progress(f"scaling, consumers: {size} join their group")
            place.join(size)
        rounds = ROUNDS_QUICK if quick else ROUNDS
        curve.gather(
            progress,
            rounds,
            lambda size: dict(zip(WAYS, (place.work_off(size), place.read(size)), strict=True)),
        )
        place.leave()
    return [
        curve.finding(
            "scaling-consumers",
            f"Scaling, consumers, messages of {VALUE_BYTES} B, one node",
            label="consumers",
            notes=[
                f"two cores: consumers share {PROCESSES} client processes; one is alone in one.",
                f"receive, ack: a worker of a queue waits for {BATCH}, acknowledges, waits again;",
                "each has a connection of its own, and leases and acks are synced.",
                "group consume: a group of confluent-kafka consumers, a partition for each.",
            ],
        )
    ]


class _Place:
    """A broker with a queue, a topic for each size, and the processes of the consumers."""

    def __init__(
        self, system: Penstock, processes: Sequence[ClientProcess], *, quick: bool
    ) -> None:
        self._system = system
        self._processes = processes
        self._address = f"penstock://{system.bootstrap}"
        self._queued = QUEUE_MESSAGES_QUICK if quick else QUEUE_MESSAGES
        self._logged = TOPIC_MESSAGES_QUICK if quick else TOPIC_MESSAGES
        self._targets: dict[int, Target] = {}
        processes[0].call(loads.prepare, self._address, QUEUE)

    def join(self, size: int) -> None:
        """Fill a topic of so many partitions, and make its group."""
        client = self._processes[0]
        target = prepare_topic(self._system, client, f"topic-of-{size}", size)
        self._targets[size] = target
        order = production(target, seconds=FILL_WITHIN_SECONDS, messages=self._logged)
        client.call(clients.produce, order)
        shares = _shares(size, self._processes)
        for process, members in shares:
            process.call(groups.join, groups.GroupOrder(target=target, members=members))
        deadline = time.monotonic() + ASSIGNED_WITHIN_SECONDS
        while True:
            asked = [process.begin(groups.assignments, target.topic) for process, _ in shares]
            held = [parts for one in asked for parts in one.result()]
            if held == [1] * size:
                return
            if time.monotonic() > deadline:
                raise ClientFailed(f"the members of {target.topic} have {held} partitions")

    def work_off(self, size: int) -> Rate:
        """Fill the queue, then have it emptied."""
        filling = QueueOrder(
            place=self._address,
            queue=QUEUE,
            batch=FILL_BATCH,
            messages_max=self._queued * min(size, 4),
            seconds=FILL_WITHIN_SECONDS,
            body_bytes=VALUE_BYTES,
        )
        sent = self._processes[0].call(loads.send, filling).messages

        def work() -> Moved:
            begin_ns = time.monotonic_ns() + int(
                (CONNECT_SECONDS + CONNECT_SECONDS_EACH * size) * 1e9
            )
            asked = [
                process.begin(
                    crews.work_off,
                    crews.CrewOrder(
                        place=self._address,
                        queue=QUEUE,
                        workers=workers,
                        batch=BATCH,
                        begin_ns=begin_ns,
                    ),
                )
                for process, workers in _shares(size, self._processes)
            ]
            return _together([one.result() for one in asked])

        rate = weigh(self._system, work)
        if rate.moved.messages != sent:
            raise ClientFailed(f"{rate.moved.messages:,} of {sent:,} messages were acknowledged")
        return rate

    def read(self, size: int) -> Rate:
        """The group reads its topic once."""

        def work() -> Moved:
            order = groups.GroupReading(
                topic=self._targets[size].topic,
                messages_each=self._logged // size,
                begin_ns=time.monotonic_ns() + int(CONNECT_SECONDS * 1e9),
                seconds=READ_WITHIN_SECONDS,
            )
            shares = _shares(size, self._processes)
            asked = [process.begin(groups.read_all, order) for process, _ in shares]
            return _together([one.result() for one in asked])

        return weigh(self._system, work)

    def leave(self) -> None:
        """All groups; whoever does not get round to it is ended with its process."""
        for process in self._processes:
            with suppress(ClientFailed):
                process.call(groups.leave)


def _shares(size: int, processes: Sequence[ClientProcess]) -> list[tuple[ClientProcess, int]]:
    """Who runs how many consumers."""
    used = processes[: min(size, len(processes))]
    return [(process, size // len(used)) for process in used]


def _together(parts: Sequence[Moved]) -> Moved:
    """Over when the last one is; they began at the same moment."""
    return Moved(
        sum(one.messages for one in parts),
        max(one.seconds for one in parts),
        sum(one.cpu_seconds for one in parts),
    )
