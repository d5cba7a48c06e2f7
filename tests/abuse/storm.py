"""The connection storm: 100,000 connections are attempted, 10,000 stay idle, 5,000 have half a
head, 2,000 never read; the good client goes on, and health answers within a second.

The attackers are processes of their own, each with its own source addresses in 127.0.0.0/8, because
one address has too few ports and one process too few descriptors.
"""

import argparse
import asyncio
import contextlib
import resource
import statistics
import subprocess
import sys
import time

from tests.abuse.kafka_wire import Address, fetch_frame, frame
from tests.abuse.oracles import ANSWERED_WITHIN_SECONDS, Outcome
from tests.abuse.streams import http_request, silent
from tests.abuse.target import MIB, Sample, Target, open_target
from tests.cluster.waiting import pass_time, wait_until

ATTEMPTS = 100_000
IDLE, HALF_HEADS, SLOW_READERS = 10_000, 5_000, 2_000
CALM_SECONDS = 8.0
HEALTH_SECONDS_MAX = 1.0
P99_FLOOR_SECONDS = 0.1
"""Twice next to nothing is next to nothing: below this the ratio says nothing."""
_PER_SOURCE = 5_000
_FLOOD_ROUND, _FLOOD_WORKERS = 100, 10


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
        calm = _by_kind(good.since(began))
        before = max(gauge.now for gauge in target.watch.gauges.values())
        target.watch.reset()
        storm_began = time.monotonic()
        attackers = [_attacker(kind, target, scale) for kind in ("idle", "heads", "slow", "flood")]
        try:
            _wait_flood(attackers[-1])
            pass_time(CALM_SECONDS)
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
        _compare(outcome, calm, _by_kind(good.since(storm_began)))
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


def _by_kind(samples: list[Sample]) -> dict[str, list[float]]:
    rows: dict[str, list[float]] = {}
    for sample in samples:
        rows.setdefault(sample.what, []).append(sample.seconds)
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
        stdout=subprocess.PIPE,
    )


def _wait_flood(flood: "subprocess.Popen[bytes]") -> None:
    """The flood ends by itself: attempts that are not answered are given up soon."""
    assert flood.stdout is not None
    assert flood.stdout.readline(), "the flood ended early"
    flood.stdout.close()


async def _hold(address: Address, data: bytes, count: int, network: int, buffer: int = 0) -> None:
    """Keep connections open until this process is killed; those that are closed are made anew."""
    sources = [f"127.{network}.0.{1 + number}" for number in range(-(-count // _PER_SOURCE))]

    async def keep(source: str, number: int) -> None:
        while True:
            async with silent(address, data, number, source=source, receive_buffer=buffer):
                await asyncio.sleep(5.0)

    await asyncio.gather(*(keep(source, count // len(sources)) for source in sources))


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
                address, b"", _FLOOD_ROUND, source=source, connect_seconds=0.5
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
    match options.kind:
        case "idle":
            await _hold(kafka, frame(18, 0, {}), int(IDLE * scale), 10)
        case "heads":
            await _hold(web, b"GET /v1/queues HTTP/1.1\r\nHo", int(HALF_HEADS * scale), 11)
        case "slow":
            data = fetch_frame("fat", [(0, 0)], bytes_max=MIB, times=4)
            await _hold(kafka, data + http_request("GET", "/"), int(SLOW_READERS * scale), 12, 4096)
        case "flood":
            done = await _flood([kafka, web], int(ATTEMPTS * scale))
            print(done, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("idle", "heads", "slow", "flood"))
    parser.add_argument("--kafka", nargs=2, required=True)
    parser.add_argument("--http", nargs=2, required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    asyncio.run(_attack(parser.parse_args()))
