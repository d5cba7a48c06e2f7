"""python -m benchmarks.tracing: what tracing costs, switched off, half set up, and on.

    none    the program has not loaded OpenTelemetry
    api     it has, and has set no provider up: as with a library that brings the API along
    sdk     it has, and spans are made and thrown away

Each in a process of its own, in turn, several times over; the best counts. And the broker's diary:
what one command costs it, whatever the number of its messages.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter

import penstock
from penstock.client.tracer import Tracing
from penstock.core.entries import Entry, EntryKind
from penstock.core.types import Index, Offset, PartitionId, Term
from penstock.engine.replica.delivery_history import DeliveryHistory
from penstock.machines.queue_commands import Acquire, encode_queue_command
from penstock.machines.queues import Acquired
from penstock.machines.work_records import GrantedRun

MODES = ("none", "api", "sdk")
MESSAGES = 50_000
AT_ONCE = 5_000
CALLS = 100_000
ROUNDS = 3


def set_up(mode: str) -> None:
    """Do what a program of this kind does when it starts."""
    if mode == "none":
        return
    from opentelemetry import trace  # noqa: PLC0415 - that is what is measured.

    if mode == "sdk":
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

        trace.set_tracer_provider(TracerProvider())


def nanoseconds(call: Callable[[], object]) -> float:
    """Of one call."""
    began = perf_counter()
    for _ in range(CALLS):
        call()
    return (perf_counter() - began) / CALLS * 1e9


async def measure(mode: str) -> dict[str, float]:
    """Send, receive and ack, many at a time, on an engine in this process."""
    set_up(mode)
    found = {"a look, ns": nanoseconds(Tracing("me").on)}
    async with penstock.connect("memory:") as client:
        queue = client.queue("orders")
        bodies = [b"x" * 100] * AT_ONCE
        began = perf_counter()
        for _ in range(MESSAGES // AT_ONCE):
            await queue.send_many(bodies)
        found["sent/s"] = MESSAGES / (perf_counter() - began)
        done = 0
        began = perf_counter()
        while done < MESSAGES:
            messages = await queue.receive(AT_ONCE, wait=5)
            done += await queue.ack(messages)
        found["received and acked/s"] = MESSAGES / (perf_counter() - began)
        await queue.send_many(bodies)
        messages = await queue.receive(AT_ONCE, wait=5)
        began = perf_counter()
        for message in messages:
            with message.processing():
                pass
        found["processing(), ns"] = (perf_counter() - began) / len(messages) * 1e9
    return found


def measure_diary() -> float:
    """Nanoseconds of a line about a thousand messages."""
    command = Acquire(
        partition=PartitionId(1), group="queue", messages_max=1_000, receiver="w (native, a:1)"
    )
    payload = encode_queue_command(command, stamp_ms=1_700_000_000_000)
    reply = (Acquired(1, 1_700_000_030_000, (GrantedRun(Offset(0), Offset(1_000), 1, 0),)),)
    diary = DeliveryHistory()
    entries = [
        Entry(Index(number), Term(1), EntryKind.COMMAND, payload) for number in range(1, CALLS)
    ]
    began = perf_counter()
    for entry in entries:
        diary.note(entry, reply)
    return (perf_counter() - began) / len(entries) * 1e9


def main() -> None:
    """Run everything, or, inside a process of its own, one mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=MODES, help="only this, as JSON")
    mode = parser.parse_args().mode
    if mode is not None:
        print(json.dumps(asyncio.run(measure(mode))))
        return
    best: dict[str, dict[str, float]] = {mode: {} for mode in MODES}
    for _ in range(ROUNDS):
        for mode, known in best.items():
            command = [sys.executable, "-m", "benchmarks.tracing", "--mode", mode]
            said = subprocess.run(command, capture_output=True, check=True).stdout
            for name, value in json.loads(said).items():
                choose = max if name.endswith("/s") else min
                known[name] = choose(value, known.get(name, value))
    for name in best["none"]:
        row = "  ".join(f"{mode} {best[mode][name]:>10,.0f}" for mode in MODES)
        print(f"{name:<22}{row}")
    print(f"{'a line of the diary':<22}{measure_diary():,.0f} ns a command, of 1,000 messages")


if __name__ == "__main__":
    main()
