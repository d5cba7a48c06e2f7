"""Workers that are killed, told to end, and supervised: real processes at a real broker."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import penstock
from penstock.client.client import Client
from tests.cluster.processes import tail
from tests.cluster.waiting import wait_until
from tests.interop.served import Served, serving

pytestmark = [pytest.mark.crash, pytest.mark.slow]

TARGET = "tests.crash.worker_app:app"
PLACE, PAUSE = "PENSTOCK_TEST_PLACE", "PENSTOCK_TEST_PAUSE"
ROOT = Path(__file__).parents[2]
DONE_WITHIN_SECONDS = 60.0
ENDED_WITHIN_SECONDS = 30.0

T = TypeVar("T")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("broker")) as served:
        yield served


class Place:
    """Where the workers of one test leave their traces, and the broker they work for."""

    def __init__(self, broker: Served, directory: Path) -> None:
        self.url = f"penstock://{broker.kafka}"
        self.directory = directory
        self._starts = 0
        with sqlite3.connect(directory / "books.db") as books:
            books.execute("CREATE TABLE bookings (number INTEGER, pid INTEGER)")
        books.close()

    @contextlib.contextmanager
    def workers(self, *flags: str, pause: float = 0.01) -> Iterator["subprocess.Popen[bytes]"]:
        """`penstock work`; it is gone in the end, and so are its children."""
        self._starts += 1
        log = self.directory / f"log-{self._starts}.txt"
        environment = {**os.environ, PLACE: str(self.directory), PAUSE: str(pause)}
        target = (TARGET, "--url", self.url, *flags)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.main", "work", *target],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        except BaseException:
            print(tail(log))
            raise
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(ENDED_WITHIN_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def said(self) -> str:
        """What the workers that were started last have printed."""
        return (self.directory / f"log-{self._starts}.txt").read_text("utf-8")

    def trace(self, word: str) -> list[int]:
        """Numbers of jobs that began, or ended, in this order."""
        path = self.directory / "trace.txt"
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]

    def bookings(self) -> list[int]:
        """Numbers that were booked."""
        with sqlite3.connect(self.directory / "books.db", timeout=30) as books:
            rows = books.execute("SELECT number FROM bookings").fetchall()
        books.close()
        return [number for (number,) in rows]

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        """Ask the broker something, from here."""

        async def asking() -> T:
            async with penstock.connect(self.url) as client:
                return await question(client)

        return asyncio.run(asking())

    def send(self, queue: str, count: int) -> None:
        """Send the numbers below this to a new queue, as there was one before maybe."""

        async def sending(client: Client) -> None:
            if queue in [one.name for one in await client.topics()]:
                await client.delete_queue(queue)
            await client.create_queue(queue, deliveries_max=0, retry="none", dead_letter="")
            await client.queue(queue, codec=int).send_many(range(count))

        self.ask(sending)

    def stats(self, queue: str) -> Any:
        """How many messages are in which state."""

        async def asking(client: Client) -> Any:
            return await client.queue(queue).stats()

        return self.ask(asking)


@pytest.fixture
def place(broker: Served, tmp_path: Path) -> Place:
    return Place(broker, tmp_path)


def wait(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, what, seconds=DONE_WITHIN_SECONDS)


def test_what_a_killed_worker_had_in_hand_is_done_by_another(place: Place) -> None:
    count = 150
    place.send("plain", count)
    for goal in (20, 60, 100):
        with place.workers("--queue", "plain") as process:
            wait(lambda: len(set(place.trace("end"))) >= goal, f"{goal} jobs")  # noqa: B023
            process.kill()
            assert process.wait() == -signal.SIGKILL
    with place.workers("--queue", "plain"):
        wait(lambda: set(place.trace("end")) == set(range(count)), "every job")
        wait(lambda: place.stats("plain").acked == count, "every acknowledgement")
    repeated = Counter(place.trace("begin"))
    # Whatever was leased when it was killed may be repeated, and nothing else.
    assert sum(repeated.values()) - count <= 3 * 16
    assert place.stats("plain").dead == 0


def test_exactly_once_holds_when_workers_are_killed(place: Place) -> None:
    count = 400
    place.send("books", count)
    for goal in (50, 150, 250):
        with place.workers("--queue", "books") as process:
            wait(lambda: len(place.bookings()) >= goal, f"{goal} bookings")  # noqa: B023
            process.kill()
            process.wait()
    with place.workers("--queue", "books"):
        wait(lambda: place.stats("books").acked == count, "every acknowledgement")
    assert sorted(place.bookings()) == list(range(count)), "each once, and none is missing"


def test_workers_outlive_their_broker(place: Place, broker: Served) -> None:
    count = 300
    place.send("books", count)
    place.send("plain", count)
    with place.workers("--queue", "books", "--queue", "plain") as process:
        for goal in (40, 120):
            wait(lambda: len(place.bookings()) >= goal, f"{goal} bookings")  # noqa: B023
            broker.cluster.kill(1)
            broker.cluster.start(1)
        wait(lambda: place.stats("books").acked == count, "every booking is acknowledged")
        wait(lambda: place.stats("plain").acked == count, "every job is acknowledged")
        assert process.poll() is None
    assert sorted(place.bookings()) == list(range(count))
    assert set(place.trace("end")) == set(range(count))


def test_workers_wait_for_a_broker_that_comes_later(place: Place, broker: Served) -> None:
    place.send("plain", 5)
    broker.cluster.kill(1)
    with place.workers("--queue", "plain"):
        wait(lambda: "trying again" in place.said(), "nobody answers")
        broker.cluster.start(1)
        wait(lambda: place.stats("plain").acked == 5, "every job is acknowledged")


def test_a_graceful_end_loses_nothing_and_repeats_nothing(place: Place) -> None:
    count = 60
    place.send("plain", count)
    with place.workers("--queue", "plain", pause=0.05) as process:
        wait(lambda: len(place.trace("end")) >= 8, "some jobs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENDED_WITHIN_SECONDS) == 0
    begun, ended = place.trace("begin"), place.trace("end")
    assert sorted(begun) == sorted(ended), "what was in hand was finished"
    stats = place.stats("plain")
    assert (stats.acked, stats.leased) == (len(ended), 0)
    assert stats.ready == count - len(ended), "the rest is there at once, without a lease to wait"
    with place.workers("--queue", "plain"):
        wait(lambda: place.stats("plain").acked == count, "the rest")
    assert sorted(place.trace("begin")) == list(range(count)), "nothing was done twice"


def test_a_second_signal_ends_at_once(place: Place) -> None:
    place.send("plain", 4)
    with place.workers("--queue", "plain", "--grace", "60", pause=30) as process:
        wait(lambda: len(place.trace("begin")) == 4, "all in hand")
        process.send_signal(signal.SIGINT)
        wait(lambda: "finishing what is in hand" in place.said(), "the first signal is heard")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(ENDED_WITHIN_SECONDS) == 0
    assert place.trace("end") == []


def _reports(place: Place) -> list[dict[str, Any]]:
    """Whole lines only: the last one may still be being written."""
    lines = place.said().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]


def test_processes_are_supervised(place: Place) -> None:
    count = 200
    place.send("plain", count)
    flags = ("--queue", "plain", "--processes", "2", "--json")
    with place.workers(*flags, pause=0.02) as supervisor:
        wait(lambda: len(_children(supervisor.pid)) == 2, "two processes")
        wait(lambda: len(place.trace("end")) >= 20, "some jobs")
        os.kill(_children(supervisor.pid)[0], signal.SIGKILL)
        wait(lambda: "is started again" in place.said(), "a restart")
        wait(lambda: set(place.trace("end")) == set(range(count)), "every job")
        wait(lambda: place.stats("plain").acked == count, "every acknowledgement")
        # The other process may do all the work before the one that was killed is back.
        wait(lambda: {one["process"] for one in _reports(place)} == {1, 2}, "reports of both")
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(ENDED_WITHIN_SECONDS) == 0
    lines = _reports(place)
    assert {line["process"] for line in lines} == {1, 2}
    assert lines[-1]["tasks"][0]["worker"] == "job"


def test_processes_end_when_their_supervisor_is_killed(place: Place) -> None:
    place.send("plain", 100)
    with place.workers("--queue", "plain", "--processes", "2", pause=0.02) as supervisor:
        wait(lambda: len(place.trace("end")) >= 10, "some jobs")
        children = _children(supervisor.pid)
        assert len(children) == 2
        supervisor.kill()
        supervisor.wait()
        wait(lambda: not any(map(_is_alive, children)), "its processes end")
    assert sorted(place.trace("begin")) == sorted(place.trace("end")), "in good order"
    assert place.stats("plain").leased == 0


def test_a_message_that_kills_costs_some_processes_and_never_the_queue(place: Place) -> None:
    place.send("deadly", 20)
    with place.workers("--queue", "deadly", "--processes", "2"):
        wait(lambda: place.stats("deadly").dead == 1, "the poison is found out")
        wait(lambda: place.stats("deadly").acked == 19, "the others are done")

    async def looking(client: Client) -> str:
        (letter,) = await client.queue("deadly").peek(states=["dead"])
        return letter.reason

    assert place.ask(looking).startswith("poison: ")
    assert set(place.trace("end")) == set(range(1, 20))


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8")
    except FileNotFoundError:
        return []
    return [int(child) for child in text.split()]


def _is_alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
