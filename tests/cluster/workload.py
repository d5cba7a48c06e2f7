"""Everything that uses a cluster while it is harmed: producers, readers, members of a group.

The end of a run is always the same: all faults have ended; the producers stop and wait for what is
under way; the readers are thrown away; clients that know nothing read every partition to its end;
then the history is checked.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.cluster.checker import check
from tests.cluster.clients import Operator, Setting
from tests.cluster.history import Recorder
from tests.cluster.members import GroupMember, committed_offsets
from tests.cluster.producers import SteadyProducer
from tests.cluster.readers import Reader, SteadyReader, drain
from tests.cluster.steady import SteadyClient
from tests.cluster.verdict import Verdict
from tests.cluster.waiting import wait_until

DRAIN_WITHIN_SECONDS = 120.0
GROUP = "workers"


@dataclass(frozen=True, kw_only=True)
class Load:
    """How much is going on."""

    topic: str = "orders"
    partitions: int = 4
    producers: int = 2
    per_second: int = 200
    """Of each producer."""
    readers: int = 1
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Of producers, besides those they all have."""
    members: int = 2
    """Fewer than partitions: each is given some."""


class Workload:
    """All clients of one run."""

    def __init__(
        self, addresses: Callable[[], str], recorder: Recorder, *, seed: int, load: Load
    ) -> None:
        """`addresses` are asked for when a client starts: members come and go."""
        self.load = load
        self.operator = Operator(addresses())
        self.recorder = recorder
        self._addresses = addresses
        self._seed = seed
        self._producers: list[SteadyProducer] = []
        self._readers: list[SteadyReader] = []
        self._members: list[GroupMember] = []

    def start(self) -> None:
        """Make the topic, start everybody, and wait until messages flow."""
        load = self.load
        self.operator.create_topic(load.topic, load.partitions)
        for number in range(load.producers):
            self._producers.append(
                SteadyProducer(
                    self.recorder,
                    self._addresses(),
                    load.topic,
                    load.partitions,
                    per_second=load.per_second,
                    seed=1_000 * self._seed + number,
                    settings=load.settings,
                )
            )
        for _ in range(load.readers):
            reader = Reader(self.recorder, self._addresses(), load.topic, load.partitions)
            self._readers.append(SteadyReader(reader))
        for _ in range(load.members):
            self._members.append(GroupMember(self.recorder, self._addresses(), GROUP, load.topic))
        for client in self._clients():
            client.start()
        self.wait_acked(50, seconds=60)
        wait_until(
            lambda: (
                all(reader.read for reader in self._readers)
                and all(member.read for member in self._members)
            ),
            "everybody reads",
            seconds=60,
        )
        for client in self._clients():
            # A topic that is a moment old is not known everywhere, and readers are told so.
            client.errors.clear()

    @property
    def topic(self) -> str:
        return self.load.topic

    def brace(self) -> None:
        """A fault is about to strike: everybody goes on as before."""

    @property
    def acked(self) -> int:
        return sum(producer.acked for producer in self._producers)

    @property
    def read(self) -> int:
        return sum(reader.read for reader in self._readers)

    @property
    def errors(self) -> Counter[str]:
        """What clients were told and could not get over by themselves."""
        total: Counter[str] = Counter()
        for client in self._clients():
            total.update(client.errors)
        return total

    @property
    def producer_errors(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for producer in self._producers:
            total.update(producer.errors)
        return total

    def wait_acked(self, more: int, *, seconds: float) -> None:
        """Wait until so many more messages are acknowledged."""
        target = self.acked + more

        def reached() -> bool:
            for client in self._clients():
                client.check()
            return self.acked >= target

        wait_until(reached, f"{more} more acknowledgements", seconds=seconds)

    def stop(self) -> None:
        """Producers first, so that readers can see what was sent last."""
        for clients in (self._producers, self._readers, self._members):
            for client in clients:
                client.stop()
            for client in clients:
                client.join()

    def abandon(self) -> None:
        """Stop in the middle of a failure: whatever goes wrong now is not worth telling."""
        for client in self._clients():
            client.stop()

    def drain(self) -> None:
        """Read everything with fresh clients."""
        load = self.load
        drain(
            self.recorder,
            self._addresses(),
            load.topic,
            load.partitions,
            seconds=DRAIN_WITHIN_SECONDS,
        )
        if load.members:
            committed_offsets(self.recorder, self._addresses(), GROUP, load.topic, load.partitions)

    def check(self) -> Verdict:
        return check(self.recorder.history())

    def _clients(self) -> list[SteadyClient]:
        return [*self._producers, *self._readers, *self._members]
