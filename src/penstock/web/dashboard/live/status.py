"""The status that an open page receives every two seconds, as one node sees it: enough to say how
things are in a banner, and what has just happened in a line.

It is read from this node's memory, without a remote call: a page must be able to say that no leader
answers. Numbers are on the pages themselves, which ask for them again at each beat.
"""

import contextlib
from collections.abc import Iterable, Mapping

import msgspec

from penstock.core.errors import PenstockError
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.web.broker import Broker, Engine, Phase

LINES_MAX = 3
"""The number of alerts named in one beat."""
LEVELS = ("critical", "warning", "attention")


class PageStatus(msgspec.Struct, frozen=True, kw_only=True):
    phase: str
    problems: list[str]
    """Sentences; nothing if all is well."""
    alerts: dict[str, int]
    """The number of firing alerts, by level."""
    lines: list[str]
    """The events since the last beat."""


class StatusWatch:
    """Compares what is with what was a moment ago."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._leaders: dict[int, NodeId] = {}
        self._alive: frozenset[NodeId] = frozenset()
        self._firing: dict[str, str] | None = None
        """The message of each alert that fires, by key; None before the first beat."""

    def beat(self) -> PageStatus:
        """Return the current status and the events since the last beat."""
        lines = self._alert_news()
        if self._broker.node is not None:
            with contextlib.suppress(PenstockError):  # Its catalog is being opened.
                lines += self._news(self._broker.node.engine)
        return msgspec.structs.replace(self.look(), lines=lines)

    def look(self) -> PageStatus:
        """Return the current status."""
        broker = self._broker
        problems = [*broker.problems(), *broker.warnings()]
        if broker.node is not None:
            try:
                problems = [*problems, *_problems(broker.node.engine)]
            except PenstockError as error:
                problems = [*problems, str(error)]
        elif broker.phase is Phase.STARTING and not problems:
            problems = ["it is starting"]
        return PageStatus(
            phase=broker.phase.value,
            problems=list(dict.fromkeys(problems)),
            alerts=alert_counts(broker),
            lines=[],
        )

    def _alert_news(self) -> list[str]:
        """Describe the alerts that began or ended; if there are many, only their number."""
        watch = self._broker.watch
        firing = {} if watch is None else {one.key: one.message for one in watch.firing()}
        before, self._firing = self._firing, firing
        if before is None:
            return []
        begun = [f"alert: {firing[key]}" for key in firing if key not in before]
        ended = [f"over: {before[key]}" for key in before if key not in firing]
        if len(begun) + len(ended) <= LINES_MAX:
            return begun + ended
        return [f"{len(begun)} alerts began to fire, {len(ended)} are over"]

    def _news(self, engine: Engine) -> list[str]:
        leaders, alive, lines = _leaders(engine), _alive(engine), []
        if self._alive:
            lines += [f"node {node} cannot be reached" for node in sorted(self._alive - alive)]
            lines += [f"node {node} is here again" for node in sorted(alive - self._alive)]
        if self._leaders:
            lines += _handovers(self._leaders, leaders)
        self._leaders, self._alive = leaders, alive
        return lines


def alert_counts(broker: Broker) -> dict[str, int]:
    """Return the number of alerts that fire and are not silenced, by level, worst first."""
    counts = dict.fromkeys(LEVELS, 0)
    for alert in () if broker.watch is None else broker.watch.firing():
        counts[alert.level.value] += 1
    return counts


def other_nodes(broker: Broker) -> list[tuple[NodeId, str]]:
    """Return the addresses of the same pages on other nodes, for when this node does not answer."""
    if broker.node is None:
        return []
    engine = broker.node.engine
    try:
        nodes = engine.topics.catalog.nodes
    except PenstockError:
        return []
    return [
        (node, record.http)
        for node, record in sorted(nodes.items())
        if node != engine.topics.node_id and record.http
    ]


def _problems(engine: Engine) -> list[str]:
    problems = []
    if gone := sorted(frozenset(engine.topics.catalog.nodes) - _alive(engine)):
        problems.append(f"{_many('node', gone)} cannot be reached")
    if lost := [number for number, node in _leaders(engine).items() if node == NO_NODE]:
        verb = "has" if len(lost) == 1 else "have"
        problems.append(f"{_many('shard', lost)} {verb} no leader: what belongs there waits")
    return problems


def _leaders(engine: Engine) -> dict[int, NodeId]:
    """The leader of each shard that can be reached."""
    alive = engine.topics.alive()
    found = {
        number: engine.topics.leader(ShardId(number)).node for number in engine.topics.shards()
    }
    return {number: node if node in alive else NO_NODE for number, node in found.items()}


def _alive(engine: Engine) -> frozenset[NodeId]:
    return frozenset(engine.topics.alive()) & frozenset(engine.topics.catalog.nodes)


def _handovers(before: Mapping[int, NodeId], now: Mapping[int, NodeId]) -> list[str]:
    """Return a line for each node that leads more shards than before, and one for shards without a
    leader."""
    lines = []
    gained: dict[NodeId, list[int]] = {}
    for number, node in now.items():
        if before.get(number, node) != node:
            gained.setdefault(node, []).append(number)
    if lost := gained.pop(NO_NODE, []):
        lines.append(f"{_many('shard', lost)} lost {'its' if len(lost) == 1 else 'their'} leader")
    lines += [
        f"node {node} leads {_many('shard', numbers)} now"
        for node, numbers in sorted(gained.items())
    ]
    return lines


def _many(noun: str, numbers: Iterable[int]) -> str:
    """Name things by number: "shard 3", "shards 1, 2 and 3"."""
    names = [str(number) for number in numbers]
    if len(names) == 1:
        return f"{noun} {names[0]}"
    return f"{noun}s {', '.join(names[:-1])} and {names[-1]}"
