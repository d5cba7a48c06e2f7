"""The simulated network between nodes: late, lossy, repeating, reordering, and divided.

Each message is given its own delay, so order is never kept by promise. A link may be cut in one
direction only; a clogged link holds its messages back and lets them through all at once later, as a
full socket buffer does. What was on its way when a link is cut is lost half of the time.
"""

from collections.abc import Callable, Iterable
from random import Random

from penstock.engine.replica.network import PeerMessage
from tests.simulation.timeline import MILLISECOND, Timeline

Deliver = Callable[[PeerMessage], None]


class Weather:
    """How bad the network is in this run; drawn once from the seed."""

    def __init__(self, random: Random) -> None:
        stormy = random.random() < 0.6
        self.delay_us = random.choice([200, 500, 2_000, 10_000])
        self.spread_us = random.choice([300, 2_000, 20_000, 60_000])
        self.loss = random.choice([0.0, 0.01, 0.05, 0.2, 0.3]) if stormy else 0.0
        self.repeat = random.choice([0.0, 0.01, 0.1, 0.4]) if stormy else 0.0

    def calm(self) -> None:
        """The liveness phase: everything arrives, quickly."""
        self.delay_us, self.spread_us, self.loss, self.repeat = 300, 500, 0.0, 0.0

    def describe(self) -> str:
        return (
            f"delay {self.delay_us}+{self.spread_us} us, loss {self.loss:.0%},"
            f" repeat {self.repeat:.0%}"
        )


class SimulatedNetwork:
    """Carries messages between the nodes of one cluster."""

    def __init__(self, timeline: Timeline, weather: Weather) -> None:
        self._timeline = timeline
        self._random = timeline.random("network")
        self.weather = weather
        self._deliver: dict[int, Deliver] = {}
        self._cut: set[tuple[int, int]] = set()
        self._clogged: dict[tuple[int, int], list[PeerMessage]] = {}

    def attach(self, node: int, deliver: Deliver) -> None:
        self._deliver[node] = deliver

    def cut(self, links: Iterable[tuple[int, int]], kind: str) -> None:
        """Lose everything sent along these directed links from now on."""
        self._cut.update(links)
        self._timeline.count(f"network {kind}")

    def clog(self, source: int, target: int) -> None:
        self._clogged.setdefault((source, target), [])
        self._timeline.count("network clog")

    def heal(self) -> None:
        """Mend every link and let what was clogged arrive."""
        self._cut.clear()
        clogged, self._clogged = self._clogged, {}
        for messages in clogged.values():
            for message in messages:
                self.send(message)

    def send(self, message: PeerMessage) -> None:
        link = (message.source, message.target)
        if link in self._cut:
            self._timeline.count("message cut off")
            return
        if link in self._clogged:
            if len(self._clogged[link]) < 1_000:
                self._clogged[link].append(message)
            return
        weather = self.weather
        if weather.loss and self._random.random() < weather.loss:
            self._timeline.count("message lost")
            return
        self._carry(message)
        if weather.repeat and self._random.random() < weather.repeat:
            self._timeline.count("message repeated")
            self._carry(message)

    def _carry(self, message: PeerMessage) -> None:
        weather = self.weather
        delay = weather.delay_us + int(self._random.random() ** 3 * weather.spread_us)
        if self._random.random() < 0.002:
            delay += self._random.randrange(2_000) * MILLISECOND
            self._timeline.count("message very late")
        self._timeline.after(delay, lambda: self._arrive(message))

    def _arrive(self, message: PeerMessage) -> None:
        link = (message.source, message.target)
        if link in self._cut and self._random.random() < 0.5:
            self._timeline.count("message cut off")
            return
        self._deliver[message.target](message)
