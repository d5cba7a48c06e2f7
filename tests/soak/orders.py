"""The shop of `examples.orders` under kill -9: every order is charged exactly once.

Real brokers (`penstock serve`), real workers (`penstock work`), one process that places orders, and
a strike every second or two: a worker or a broker is killed, or several at once, and comes back
after a moment; or a worker is frozen until its leases have ended, and goes on with what is no
longer its own. Orders are placed all the while. When the time is up everything that is dead is
started again, the rest is worked off, and the books are checked.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from examples.orders.check import complaints, unfinished
from examples.orders.ledger import Ledger
from examples.orders.orders import Order, order_of
from examples.orders.workers import LEASE_SECONDS
from tests.cluster.processes import Cluster, tail, tracebacks
from tests.cluster.waiting import pass_time, wait_until
from tests.cluster.warden import Warden
from tests.house.sources import ROOT
from tests.installed import penstock_command

ORDERS_PER_SECOND = 20.0
STRIKE_EVERY_SECONDS = (0.5, 3.0)
AWAY_SECONDS = (0.0, 1.5)
FROZEN_SECONDS = (LEASE_SECONDS, LEASE_SECONDS + 3.0)
OPEN_WITHIN_SECONDS = 60.0
DONE_WITHIN_SECONDS = 180.0
ENDED_WITHIN_SECONDS = 60.0
COMPLAINTS_SHOWN = 20
APPLICATION = "examples.orders.app:app"
STRIKES = ("worker", "worker", "workers", "broker", "broker", "both", "freeze")


@dataclass
class ShopOutcome:
    """What a time of strikes came to."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def describe(self) -> str:
        counted = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        verdict = "\n".join(self.complaints) or "every order is charged exactly once"
        return f"seed {self.seed}, {self.seconds:.0f} s: {counted}\n{verdict}"


class Worker:
    """One `penstock work` process that is started again and again."""

    def __init__(self, number: int, directory: Path, url: str, ledger: Path) -> None:
        self.log = directory / f"worker-{number}.txt"
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._url = url
        self._ledger = ledger

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, warden: Warden, environment: dict[str, str]) -> None:
        assert not self.running, "it runs already"
        self.starts += 1
        with self.log.open("ab") as log:
            log.write(f"---- start {self.starts}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                [penstock_command(), "work", "--url", self._url, APPLICATION],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**environment, "ORDERS_LEDGER": str(self._ledger)},
                start_new_session=True,
            )
        warden.watch(self.process.pid)

    def said(self, words: str) -> int:
        """How many lines of its log have these words."""
        return sum(words in line for line in self.log.read_text("utf-8").splitlines())

    def freeze(self) -> None:
        """SIGSTOP: it does nothing, and does not know it."""
        assert self.process is not None, "it was never started"
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, if it has not been killed meanwhile."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def kill(self, warden: Warden) -> None:
        assert self.process is not None, "it was never started"
        self.process.kill()
        self.process.wait(ENDED_WITHIN_SECONDS)
        warden.forget(self.process.pid)


class StruckShop:
    """Brokers, workers, and the one who places orders."""

    def __init__(
        self, directory: Path, outcome: ShopOutcome, *, nodes: int, workers: int, orders: int
    ) -> None:
        self.outcome = outcome
        self.cluster = Cluster(directory, nodes=nodes)
        self.warden = Warden()
        self.url = f"penstock://{self.cluster.bootstrap}"
        self.ledger = Ledger(directory / "shop.db")
        self.orders: list[Order] = [order_of(number) for number in range(orders)]
        self.workers = [
            Worker(number, directory, self.url, self.ledger.path) for number in range(workers)
        ]
        # As for the brokers: they have their defaults, whatever is set for the test itself.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
        }
        self._customer_log = directory / "customer.txt"
        self._customer: subprocess.Popen[bytes] | None = None
        self._returns: list[tuple[float, Callable[[], None]]] = []
        """When who comes back."""

    def open(self) -> None:
        self.cluster.start()
        for worker in self.workers:
            worker.start(self.warden, self._environment)
        with self._customer_log.open("wb") as log:
            self._customer = subprocess.Popen(
                [
                    *(sys.executable, "-m", "examples.orders.place_orders", self.url),
                    *("--orders", str(len(self.orders)), "--every", str(1 / ORDERS_PER_SECOND)),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        self.warden.watch(self._customer.pid)
        wait_until(
            lambda: self.ledger.counts("receipts").total() > 0,
            lambda: f"the first order is done\n{tail(self.workers[0].log)}",
            seconds=OPEN_WITHIN_SECONDS,
        )

    def close(self) -> None:
        for worker in self.workers:
            if worker.running:
                worker.kill(self.warden)
        if self._customer is not None:
            self._customer.kill()
            self._customer.wait(ENDED_WITHIN_SECONDS)
            self.warden.forget(self._customer.pid)
        self.ledger.close()
        self.cluster.close()
        self.warden.close()

    # Striking.

    def strike(self, chance: Random) -> None:
        """Kill somebody, perhaps several at once, who comes back after a moment."""
        brokers = [node for node in self.cluster.nodes.values() if node.running]
        workers = [worker for worker in self.workers if worker.running]
        what = chance.choice(STRIKES)
        if what == "freeze" and workers:
            worker = chance.choice(workers)
            worker.freeze()
            self.outcome.counts["workers frozen"] += 1
            self._back(chance, worker.thaw, FROZEN_SECONDS)
        if what in ("worker", "workers", "both") and workers:
            count = 1 if what != "workers" else len(workers)
            for worker in chance.sample(workers, min(count, len(workers))):
                worker.kill(self.warden)
                self.outcome.counts["workers killed"] += 1
                self._back(chance, partial(worker.start, self.warden, self._environment))
        if what in ("broker", "both") and brokers:
            node = chance.choice(brokers)
            self.cluster.kill(node.number)
            self.outcome.counts["brokers killed"] += 1
            self._back(chance, partial(self.cluster.launch, node.number))

    def _back(
        self, chance: Random, start: Callable[[], None], away: tuple[float, float] = AWAY_SECONDS
    ) -> None:
        self._returns.append((time.monotonic() + chance.uniform(*away), start))

    def bring_back(self, *, everybody: bool = False) -> None:
        """Start those whose time has come."""
        now = time.monotonic()
        due = [start for when, start in self._returns if everybody or when <= now]
        self._returns = [one for one in self._returns if not everybody and one[0] > now]
        for start in due:
            start()
        if not self._returns:
            self._supervise()

    def _supervise(self) -> None:
        """Start workers that gave up because no broker was there when they began, as systemd or
        Kubernetes would."""
        for worker in self.workers:
            if not worker.running:
                self.outcome.counts["workers that gave up"] += 1
                worker.start(self.warden, self._environment)

    # The end.

    def wait_done(self) -> None:
        """Wait until the books say something final about every order."""
        assert self._customer is not None, "it is open"
        try:
            code = self._customer.wait(DONE_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            code = -1
        if code != 0:
            said = tail(self._customer_log)
            self.outcome.complaints.append(f"placing orders ended with {code}:\n{said}")
            return
        try:
            wait_until(
                self._is_done,
                lambda: f"{unfinished(self.ledger, self.orders)} orders are not done",
                seconds=DONE_WITHIN_SECONDS,
            )
        except AssertionError as error:
            self.outcome.complaints.append(str(error))

    def _is_done(self) -> bool:
        self._supervise()
        return unfinished(self.ledger, self.orders) == 0

    def judge(self) -> None:
        """Look into the books and the logs."""
        outcome = self.outcome
        outcome.complaints += complaints(self.ledger, self.orders)[:COMPLAINTS_SHOWN]
        outcome.complaints += self.cluster.complaints()
        for worker in self.workers:
            outcome.complaints += [f"a worker:\n{trace}" for trace in tracebacks(worker.log)]
            outcome.counts["second charges prevented"] += worker.said("was charged before")
            outcome.counts["answers lost"] += worker.said("charge failed: ")
        outcome.counts["orders"] = len(self.orders)
        outcome.counts["charges"] = self.ledger.counts("charges").total()


def strike_shop(
    directory: Path, *, seed: int, seconds: float, nodes: int, workers: int = 3
) -> ShopOutcome:
    """Let the shop work for so many seconds under strikes; what came of it."""
    outcome = ShopOutcome(seed)
    chance = Random(seed)
    orders = int(seconds * ORDERS_PER_SECOND)
    shop = StruckShop(directory, outcome, nodes=nodes, workers=workers, orders=orders)
    began = time.monotonic()
    try:
        shop.open()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            next_strike = time.monotonic() + chance.uniform(*STRIKE_EVERY_SECONDS)
            while time.monotonic() < min(next_strike, end):
                pass_time(0.02)
                shop.bring_back()
            shop.strike(chance)
        shop.bring_back(everybody=True)
        struck = time.monotonic()
        shop.wait_done()
        outcome.counts["seconds to work off the rest"] = round(time.monotonic() - struck)
        shop.judge()
    finally:
        shop.close()
    outcome.seconds = time.monotonic() - began
    return outcome
