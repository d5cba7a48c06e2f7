"""One broker, one client library, one codec: everything arrives exactly once and in order.

    a member reads          three members        kill -9, restart        two members
    |---------------------------|-----------------------|-----------------------|----▶ messages
    0                          1/8                     1/3                     2/3

All the while a producer sends. A member commits what it has read before it reads on; what it read
is done when the commit was acknowledged. When the broker is killed during a commit nobody knows, so
what was read then may come again or not. Therefore:

- nothing is done twice;
- everything was done, or was read by somebody whose commit got no certain answer;
- read afterwards from the beginning by somebody who knows nothing, every partition holds exactly
  what was sent to it, in the order in which it was sent.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.cluster.clients import READER, Operator
from tests.cluster.payloads import name_in, payload_of
from tests.cluster.processes import Cluster
from tests.cluster.steady import SteadyClient
from tests.cluster.waiting import wait_until
from tests.interop_full.kinds import Kind, Member, Record

TOPIC = "orders"
GROUP = "workers"
PARTITIONS = 6
STEP_WITHIN_SECONDS = 180.0


class Sender(SteadyClient):
    """Sends all messages, round robin over the partitions."""

    def __init__(self, kind: Kind, bootstrap: str, codec: str, count: int) -> None:
        super().__init__("sender")
        self._kind = kind
        self._servers = bootstrap
        self._codec = codec
        self._count = count
        self._pace = threading.Semaphore(0)
        self.sent = 0
        self.acked = 0

    def work(self) -> None:
        self.acked = self._kind.send_all(self._servers, TOPIC, self._codec, self._messages())

    def allow(self, count: int) -> None:
        """It may send so many more: so the steps of the test all meet messages on their way."""
        self._pace.release(count)

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        for number in range(self._count):
            self._pace.acquire()
            self.sent += 1
            yield number % PARTITIONS, message_of(number)


class Worker(SteadyClient):
    """A member of the group."""

    def __init__(self, member: Member, name: str) -> None:
        super().__init__(name)
        self._member = member
        self.done: list[Record] = []
        self.uncertain: list[Record] = []

    def work(self) -> None:
        try:
            while not self.stopping:
                records = self._member.poll()
                if not records:
                    continue
                positions: dict[int, int] = {}
                for record in records:
                    before = positions.get(record.partition, record.offset)
                    assert record.offset >= before, f"{record} after {before}"
                    positions[record.partition] = record.offset + 1
                certain = self._member.commit(positions)
                (self.done if certain else self.uncertain).extend(records)
        finally:
            self._member.close()


def message_of(number: int) -> bytes:
    """A message that compresses, but not to nothing."""
    return payload_of(f"m-{number}")


def run_scenario(directory: Path, kind: Kind, codec: str, count: int) -> str:
    """Raises if a promise was broken; returns one line about what happened."""
    began = time.monotonic()
    with Cluster(directory, nodes=1, shards=2) as cluster:
        cluster.start()
        bootstrap = cluster.bootstrap
        Operator(bootstrap).create_topic(TOPIC, PARTITIONS)
        sender = Sender(kind, bootstrap, codec, count)
        workers: list[Worker] = []

        def join() -> None:
            name = f"worker-{len(workers) + 1}"
            workers.append(Worker(kind.join(bootstrap, GROUP, TOPIC), name))
            workers[-1].start()

        def handled() -> int:
            for client in (sender, *workers):
                client.check()
            return sum(len(worker.done) + len(worker.uncertain) for worker in workers)

        def wait_handled(share: float) -> None:
            what = f"{kind.name} {codec}: {share:.0%} handled"
            wait_until(lambda: handled() >= share * count, what, seconds=STEP_WITHIN_SECONDS)

        try:
            sender.start()
            join()
            sender.allow(count // 4)
            wait_handled(1 / 8)
            join()
            join()
            sender.allow(count // 4)
            wait_handled(1 / 3)
            sender.allow(count)
            cluster.kill(1)
            cluster.restart(1)
            wait_handled(2 / 3)
            workers[0].stop()
            workers[0].join()
            sender.join(STEP_WITHIN_SECONDS)
            wait_until(
                lambda: handled() >= 0 and not missing(workers, count),
                f"{kind.name} {codec}: everything handled",
                seconds=STEP_WITHIN_SECONDS,
            )
            for worker in workers[1:]:
                worker.stop()
            for worker in workers[1:]:
                worker.join()
        except BaseException:
            for client in (sender, *workers):
                client.stop()
            sender.allow(count)
            raise
        assert sender.acked == count, f"{sender.acked} of {count} were acknowledged"
        check_log(bootstrap, count)
        assert not cluster.complaints(), "\n".join(cluster.complaints())
    check_group(workers, count)
    uncertain = sum(len(worker.uncertain) for worker in workers)
    shares = ", ".join(str(len(worker.done)) for worker in workers)
    seconds = time.monotonic() - began
    return (
        f"{kind.name} {codec}: {count:,} in {seconds:.1f} s; {shares} done, {uncertain} uncertain"
    )


def missing(workers: list[Worker], count: int) -> int:
    """How many messages nobody has read yet."""
    seen = {
        (record.partition, record.offset)
        for worker in workers
        for record in (*worker.done, *worker.uncertain)
    }
    return count - len(seen)


def check_group(workers: list[Worker], count: int) -> None:
    """Nothing done twice, nothing left out, nothing altered."""
    done = Counter(
        (record.partition, record.offset) for worker in workers for record in worker.done
    )
    twice = [place for place, times in done.items() if times > 1]
    assert not twice, f"{len(twice)} messages were done twice, the first at {min(twice)}"
    assert missing(workers, count) == 0
    for worker in workers:
        for record in (*worker.done, *worker.uncertain):
            number = record.offset * PARTITIONS + record.partition
            assert record.value == message_of(number), f"{record} should be message {number}"


def check_log(bootstrap: str, count: int) -> None:
    """Every partition from its beginning, by a client that knows nothing."""
    expected = {part: len(range(part, count, PARTITIONS)) for part in range(PARTITIONS)}
    consumer = Consumer({**READER, "bootstrap.servers": bootstrap, "group.id": "nobody"})
    consumer.assign([TopicPartition(TOPIC, part, OFFSET_BEGINNING) for part in expected])
    reached = dict.fromkeys(expected, 0)
    deadline = time.monotonic() + STEP_WITHIN_SECONDS
    try:
        while reached != expected:
            assert time.monotonic() < deadline, f"read {reached} of {expected}"
            for message in consumer.consume(5_000, 0.2):
                assert message.error() is None, message.error()
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset == reached[partition], f"{partition}: {offset}, {reached[partition]}"
                name = f"m-{offset * PARTITIONS + partition}"
                found = name_in(message.value())
                assert found == name, f"partition {partition} at {offset}: {found}, not {name}"
                reached[partition] += 1
        for part, end in expected.items():
            low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, part), timeout=10)
            assert (low, high) == (0, end), f"partition {part} reaches from {low} to {high}"
    finally:
        consumer.close()
