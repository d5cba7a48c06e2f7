"""What is done to a cluster. A fault begins, lasts, and ends; a seed decides who is hit.

    kill leader, kill any       kill -9, later a restart
    kill two                    the majority is gone for a while
    kill all                    every node at once
    freeze leader, freeze any   SIGSTOP, later SIGCONT: it believes that no time has passed
    isolate leader, isolate any no bytes to or from its peers; connections stay open
    reset leader                connections with its peers are reset, and new ones refused
    deafen leader               it is heard and hears nobody
    silence leader              it hears everybody and is not heard
    slow links                  everything between nodes arrives later
    restart each                SIGTERM and restart, one node after the other
    replace any                 kill -9 and no disk any more: removed, another one takes its place

And of a cluster that began with an older version:

    upgrade next                the next node that runs it is stopped and starts as the present
                                version; the one that leads the catalog comes last
    upgrade leader              the same of the one that leads the catalog, while it is the old one
    upgrade killed              the same of any node, with kill -9

Clients reach every node all the time: a leader that was cut off from its peers can still be asked,
and must not answer what is no longer so. Every strike is noted in the history.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import permutations
from random import Random

from penstock.core.types import CATALOG_SHARD
from tests.cluster.clients import Operator
from tests.cluster.history import Recorder, key_of
from tests.cluster.processes import PRESENT, Cluster
from tests.cluster.waiting import wait_until

SLOW_MS = 60
LEADER_WITHIN_SECONDS = 60.0


class Nemesis:
    """Strikes; one fault at a time."""

    def __init__(
        self,
        cluster: Cluster,
        operator: Operator,
        recorder: Recorder,
        topic: str,
        *,
        seed: int,
        more: "Mapping[str, Fault] | None" = None,
    ) -> None:
        """`more` faults can strike than those of this module."""
        self.struck: list[str] = []
        """Which faults have begun, in order."""
        self.cluster = cluster
        self._faults = {**FAULTS, **UPGRADES, **(more or {})}
        self._operator = operator
        self._recorder = recorder
        self._topic = topic
        self.random = Random(seed)

    @contextlib.contextmanager
    def strike(self, name: str) -> Iterator[None]:
        """A fault, for as long as the block lasts."""
        with self._faults[name](self):
            self.struck.append(name)
            yield
        self._recorder.note("faults", f"{name} is over")

    # Who.

    def leader(self) -> int:
        """The leader of some partition."""

        def led() -> list[int]:
            return sorted(set(self._operator.leaders(self._topic).values()))

        led_by = wait_until(led, "no partition has a leader", seconds=LEADER_WITHIN_SECONDS)
        return self.random.choice(led_by)

    def any_node(self) -> int:
        return self.random.choice(sorted(self.cluster.nodes))

    def old_node(self, *, leader: bool = False) -> int:
        """One that runs an older version: the one that leads the catalog last, or first."""
        cluster = self.cluster
        old = [number for number, node in cluster.nodes.items() if node.build is not PRESENT]
        assert old, "every node runs the present version"
        (catalog,) = (
            shard["leader"]
            for shard in cluster.status(cluster.running()[0])["shards"]
            if shard["shard"] == CATALOG_SHARD
        )
        order = sorted(old, key=lambda number: (number == catalog) != leader)
        return order[0]

    def nodes(self, count: int) -> list[int]:
        return self.random.sample(sorted(self.cluster.nodes), count)

    # What.

    @contextlib.contextmanager
    def killed(self, *nodes: int, before: Callable[[], None] = lambda: None) -> Iterator[None]:
        """kill -9, and a restart after the block; `before` comes after the strike has been chosen
        and before the first node ends."""
        led = self._led_by(*nodes)
        before()
        for node in nodes:
            self.cluster.kill(node)
        self._note(f"kill {_list(nodes)}", led)
        yield
        for node in nodes:
            self.cluster.launch(node)
        for node in nodes:
            self.cluster.wait_ready(node)

    @contextlib.contextmanager
    def frozen(self, node: int) -> Iterator[None]:
        led = self._led_by(node)
        self.cluster.freeze(node)
        self._note(f"freeze {node}", led)
        yield
        self.cluster.thaw(node)

    @contextlib.contextmanager
    def cut(self, what: str, node: int, cut: Callable[[int], None]) -> Iterator[None]:
        led = self._led_by(node)
        cut(node)
        self._note(f"{what} {node}", led)
        yield
        self.cluster.network.heal()

    @contextlib.contextmanager
    def slow(self) -> Iterator[None]:
        self._note("slow links")
        for source, target in permutations(self.cluster.nodes, 2):
            self.cluster.network.delay(source, target, SLOW_MS)
        yield
        self.cluster.network.heal()

    @contextlib.contextmanager
    def restarted(self) -> Iterator[None]:
        """All of it happens before the block."""
        for node in sorted(self.cluster.nodes):
            self._note(f"restart {node}")
            code = self.cluster.terminate(node)
            assert code == 0, f"node {node} ended with {code} when asked to stop"
            self.cluster.restart(node)
        yield

    @contextlib.contextmanager
    def upgraded(self, node: int, *, killed: bool = False) -> Iterator[None]:
        """All of it happens before the block: it lasts while nodes of two versions work."""
        led = self._led_by(node)
        began = self._recorder.invoke("faults", "fault")
        self.cluster.upgrade(node, killed=killed)
        began.complete("ok", note=f"upgrade {node}", positions=led)
        yield

    @contextlib.contextmanager
    def replaced(self, node: int) -> Iterator[None]:
        """The node is gone during the block, and replaced after it."""
        led = self._led_by(node)
        self.cluster.kill(node)
        self.cluster.wipe(node)
        self._note(f"lose {node}", led)
        yield
        self._note(f"node {self.cluster.replace(node)} takes the place of {node}")

    def _led_by(self, *nodes: int) -> dict[str, None]:
        """The partitions these nodes lead, as far as anybody can tell."""
        return {
            key_of(self._topic, partition): None
            for partition, leader in self._operator.leaders(self._topic).items()
            if leader in nodes
        }

    def _note(self, what: str, led: dict[str, None] | None = None) -> None:
        """Write down a strike, after it: what is sent from now on meets its consequences."""
        self._recorder.invoke("faults", "fault").complete("ok", note=what, positions=led or {})


def _list(nodes: tuple[int, ...]) -> str:
    return " and ".join(map(str, nodes))


Fault = Callable[[Nemesis], contextlib.AbstractContextManager[None]]

FAULTS: dict[str, Fault] = {
    "kill leader": lambda it: it.killed(it.leader()),
    "kill any": lambda it: it.killed(it.any_node()),
    "kill two": lambda it: it.killed(*it.nodes(2)),
    "kill all": lambda it: it.killed(*sorted(it.cluster.nodes)),
    "freeze leader": lambda it: it.frozen(it.leader()),
    "freeze any": lambda it: it.frozen(it.any_node()),
    "isolate leader": lambda it: it.cut("isolate", it.leader(), it.cluster.network.isolate),
    "isolate any": lambda it: it.cut("isolate", it.any_node(), it.cluster.network.isolate),
    "reset leader": lambda it: it.cut(
        "reset", it.leader(), lambda node: it.cluster.network.isolate(node, state="refuse")
    ),
    "deafen leader": lambda it: it.cut("deafen", it.leader(), it.cluster.network.deafen),
    "silence leader": lambda it: it.cut("silence", it.leader(), it.cluster.network.silence),
    "slow links": lambda it: it.slow(),
    "restart each": lambda it: it.restarted(),
    "replace any": lambda it: it.replaced(it.any_node()),
}
UPGRADES: dict[str, Fault] = {
    "upgrade next": lambda it: it.upgraded(it.old_node()),
    "upgrade leader": lambda it: it.upgraded(it.old_node(leader=True)),
    "upgrade killed": lambda it: it.upgraded(it.old_node(), killed=True),
}
POWER_OF_ALL = "cut power of all"
"""Of disks that a run brings along: see `tests.soak.everything`."""
BEYOND_A_MAJORITY = frozenset({"kill two", "kill all", POWER_OF_ALL})
"""While these last, nothing can be acknowledged."""


def in_some_order(names: Iterable[str], seed: int) -> list[str]:
    """Shuffled, but replacements last: other nodes find a newcomer without the proxy, so that it
    cannot be cut off from them."""
    order = sorted(names)
    Random(seed).shuffle(order)
    return sorted(order, key=lambda name: name == "replace any")
