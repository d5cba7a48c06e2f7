"""The connection storm: 100,000 connections are attempted, 10,000 stay idle, 5,000 have half a
head, 2,000 never read; the good client goes on, and health answers within a second.

The attackers are processes of their own, each with its own source addresses in 127.0.0.0/8, because
one address has too few ports and one process too few descriptors.
"""

import argparse
import asyncio
import contextlib
import resource
import select
import socket
import statistics
import subprocess
import sys
import time

from tests.abuse.kafka_wire import Address, fetch_frame, frame
from tests.abuse.oracles import ANSWERED_WITHIN_SECONDS, Outcome
from tests.abuse.streams import http_request, open_silent, silent
from tests.abuse.target import MIB, Sample, Target, open_target
from tests.cluster.waiting import pass_time, wait_until

CONNECTIONS = {"idle": 10_000, "heads": 5_000, "slow": 2_000, "flood": 100_000}
"""How many of each kind: idle ones at the Kafka port, half heads of HTTP requests, readers that
never read, and connections that are closed as soon as they are made."""
CALM_SECONDS = 8.0
HEALTH_SECONDS_MAX = 1.0
P99_FLOOR_SECONDS = 0.1
"""Twice next to nothing is next to nothing: below this the ratio says nothing."""
_PER_SOURCE = 5_000
_FLOOD_ROUND, _FLOOD_WORKERS = 100, 10
MADE_MIN, FLOOD_MIN = 0.9, 0.1
"""The share of the connections without which there was no storm: how many of those that are kept
were made, and how many of the flood's attempts came about. How many there are at once is for the
broker to say: it has 10,000 places for Kafka and closes what is beyond them. The flood comes faster
than a socket is listened at, and an attempt is given up after a second, which is an attempt still.
"""
READY_SECONDS = 120.0
_KEPT_SECONDS = 2.0


async def connection_storm(scale: float = 1.0) -> Outcome:
    """All of it against one broker; `scale` makes it smaller."""
    outcome = Outcome("connection-storm", "connections", "F9")
    with open_target() as target:
        await target.prepare()
        topic = await target.fat_topic()
        assert topic == "fat"
        good = target.good
        assert good is not None
        began = time.monotonic()
        pass_time(CALM_SECONDS)
        calm = _by_kind(good.since(began), target)
        before = max(gauge.now for gauge in target.watch.gauges.values())
        target.watch.reset()
        storm_began = time.monotonic()
        attackers = [_attacker(kind, target, scale) for kind in CONNECTIONS if kind != "flood"]
        try:
            _wait_held(attackers)
            attackers.append(_attacker("flood", target, scale))
            attackers[-1].wait()  # It ends by itself: an attempt is given up soon.
            pass_time(CALM_SECONDS)
            outcome.complaints += _count_connections(attackers, scale)
        finally:
            for one in attackers:
                one.kill()
                one.wait()
        ended = time.monotonic()
        outcome.seconds = ended - storm_began
        with contextlib.suppress(AssertionError):
            wait_until(
                lambda: len({one.what for one in good.since(ended)}) >= len(good.kinds),
                "answers",
                seconds=ANSWERED_WITHIN_SECONDS,
            )
        _compare(outcome, calm, _by_kind(good.since(storm_began), target))
        outcome.peak = max(gauge.peak for gauge in target.watch.gauges.values()) - before
        outcome.kept = max(gauge.now for gauge in target.watch.gauges.values()) - before
        outcome.log_bytes = target.log_bytes()
        if target.tracebacks():
            outcome.complaints += target.tracebacks()[:1]
        if not target.is_alive():
            outcome.complaints.append(f"a process has ended\n{target.tail()}")
        else:
            target.kill_and_restart()
            outcome.complaints += await target.missing()
    return outcome


def _by_kind(samples: list[Sample], target: Target) -> dict[str, list[float]]:
    """The times of the answers, less what the broker waited for a processor: the attackers are on
    the same machine."""
    rows: dict[str, list[float]] = {}
    for sample in samples:
        waited = sum(gauge.waited(sample.began, sample.ended) for gauge in target.watch.all())
        rows.setdefault(sample.what, []).append(max(0.0, sample.seconds - waited))
    return rows


def _p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98] if len(seconds) > 1 else sum(seconds)


def _compare(outcome: Outcome, calm: dict[str, list[float]], storm: dict[str, list[float]]) -> None:
    outcome.machine = _p99(storm.get("echo", [0.0]))
    for kind, before in calm.items():
        after = storm.get(kind, [])
        if not after:
            outcome.complaints.append(f"{kind}: no answer during the storm")
            continue
        p99, bar = _p99(after), max(2 * _p99(before), P99_FLOOR_SECONDS) + outcome.machine
        if kind != "echo" and p99 > outcome.stall:
            outcome.stall, outcome.slowest = p99, kind
        if kind in ("livez", "readyz"):
            slowest = max(after) - outcome.machine
            if slowest > HEALTH_SECONDS_MAX:
                outcome.complaints.append(f"stall: {kind} took {slowest:.2f} s")
        elif kind != "echo" and p99 > bar:
            outcome.complaints.append(
                f"stall: p99 of {kind} was {_p99(before) * 1000:.0f} ms and is {p99 * 1000:.0f} ms"
            )


def _attacker(kind: str, target: Target, scale: float) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.abuse.storm", kind),
            *("--kafka", *map(str, target.kafka), "--http", *map(str, target.http)),
            *("--scale", str(scale)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _wait_held(attackers: list["subprocess.Popen[bytes]"]) -> None:
    """Until each has made all of its connections once."""
    for one in attackers:
        assert one.stdout is not None
        ready, _, _ = select.select([one.stdout], [], [], READY_SECONDS)
        assert ready, "an attacker does not get its connections"
        assert one.stdout.readline() == b"held\n", "an attacker has ended"


def _count_connections(attackers: list["subprocess.Popen[bytes]"], scale: float) -> list[str]:
    """End the attackers, and ask each how many connections it has had; what is missing."""
    complaints = []
    for (kind, most), one in zip(CONNECTIONS.items(), attackers, strict=True):
        said, _ = one.communicate()
        made, held = map(int, said.split())
        wanted = int(most * scale)
        text = f"{wanted:,} {kind}: {made:,} were made, {held:,} there were at once"
        print(f"      {text}", flush=True)
        if made < (FLOOD_MIN if kind == "flood" else MADE_MIN) * wanted:
            complaints.append(f"the storm was none: of {text}")
    return complaints


async def _hold(
    address: Address, data: bytes, count: int, network: int, buffer: int = 0
) -> tuple[int, int]:
    """Keep connections open until standard input is closed, and make those anew that the broker
    closes; how many were made, and how many there were at once."""
    sources = [f"127.{network}.0.{1 + number}" for number in range(-(-count // _PER_SOURCE))]
    held: dict[str, list[socket.socket]] = {source: [] for source in sources}
    made = most = 0

    async def renew(source: str) -> None:
        nonlocal made, most
        held[source] = [one for one in held[source] if _is_open(one)]
        missing = count // len(sources) - len(held[source])
        opened = await open_silent(address, data, missing, source=source, receive_buffer=buffer)
        made += len(opened)
        held[source] += opened
        most = max(most, sum(_is_open(one) for several in held.values() for one in several))

    async def keep() -> None:
        await asyncio.gather(*(renew(source) for source in sources))
        print("held", flush=True)
        while True:
            await asyncio.sleep(_KEPT_SECONDS)
            await asyncio.gather(*(renew(source) for source in sources))

    keeping = asyncio.create_task(keep())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    return made, most


def _is_open(one: socket.socket) -> bool:
    """Whether the other side has not closed it; what it has sent stays unread."""
    try:
        return one.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


async def _flood(addresses: list[Address], count: int) -> int:
    """Connect and close, as fast as it goes; how many connections came about."""
    done = 0
    rounds = iter(range(count // _FLOOD_ROUND))

    async def work() -> None:
        nonlocal done
        for number in rounds:
            address = addresses[number % len(addresses)]
            source = f"127.13.{number % 200}.7"
            async with silent(
                address, b"", _FLOOD_ROUND, source=source, connect_seconds=1.0, share_min=0.0
            ) as opened:
                done += len(opened)

    await asyncio.gather(*(work() for _ in range(_FLOOD_WORKERS)))
    return done


async def _attack(options: argparse.Namespace) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert soft <= hard
    kafka = options.kafka[0], int(options.kafka[1])
    web = options.http[0], int(options.http[1])
    scale = options.scale
    most = int(CONNECTIONS[options.kind] * scale)
    match options.kind:
        case "idle":
            made, held = await _hold(kafka, frame(18, 0, {}), most, 10)
        case "heads":
            made, held = await _hold(web, b"GET /v1/queues HTTP/1.1\r\nHo", most, 11)
        case "slow":
            data = fetch_frame("fat", [(0, 0)], bytes_max=MIB, times=4)
            made, held = await _hold(kafka, data + http_request("GET", "/"), most, 12, 4096)
        case _:
            made, held = await _flood([kafka, web], most), 0
    print(made, held, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=tuple(CONNECTIONS))
    parser.add_argument("--kafka", nargs=2, required=True)
    parser.add_argument("--http", nargs=2, required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    asyncio.run(_attack(parser.parse_args()))
