"""Where a broker's time goes under load:  make profile ARGS="--load requests"

    --load NAME       by Kafka's protocol: produce, produce-large, consume, requests (one message
                      each), request (one at a time); queue: by the native client, messages sent,
                      received and acknowledged one by one; sqs: by SendMessage, 32 connections
    --nodes N         1, or 3 and then every node is sampled
    --seconds N       how long to sample
    --format NAME     raw: stacks with counts, one a line, and the busiest lines are printed;
                      flamegraph: an SVG; speedscope: for speedscope.app
    --all-threads     not only whoever holds the interpreter's lock: writing and waiting too
    --output DIR      where the profiles go

py-spy looks into the running processes from outside, so the broker runs as it always does. It is no
dependency of ours: `pip install py-spy` puts it where this finds it, in .venv or on the PATH. It
must be allowed to look: be root, or have kernel.yama.ptrace_scope at 0. Without it the load is
driven all the same and its rate is told.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess, Pending
from benchmarks.broker.orders import Consumption, Moved, Production, Target
from benchmarks.broker.small_requests import LOADS as REQUEST_LOADS
from benchmarks.broker.systems import Penstock
from benchmarks.broker.throughput import MILLION, prepare_topic
from benchmarks.native import loads as native_loads
from benchmarks.peers.orders import QueueOrder
from benchmarks.report import KIB, MIB
from benchmarks.sqs import load as sqs_load

DEFAULT_OUTPUT = Path("benchmarks/results/local")
DEFAULT_DATA = Path("data")
SAMPLES_PER_SECOND = 200
SHOWN = 30
SMALL_BYTES = 100
CONSUMED_BYTES = 128 * MIB
SQS_CONNECTIONS = 32
_WARM_UP_SECONDS = 1.0
_END_WITHIN_SECONDS = 60.0
_SUFFIXES = {"raw": "txt", "flamegraph": "svg", "speedscope": "json"}


Load = Callable[[Penstock, ClientProcess, float], Pending[Moved]]
"""Makes what it needs, and begins what the client does meanwhile, which ends by itself."""


def _produce(
    value_bytes: int, system: Penstock, client: ClientProcess, seconds: float
) -> Pending[Moved]:
    target = prepare_topic(system, client, "profile")
    return client.begin(clients.produce, _production(target, value_bytes, seconds))


def _consume(system: Penstock, client: ClientProcess, seconds: float) -> Pending[Moved]:
    target = prepare_topic(system, client, "profile")
    filling = _production(target, SMALL_BYTES, _END_WITHIN_SECONDS)
    client.call(clients.produce, replace(filling, messages_max=CONSUMED_BYTES // SMALL_BYTES))
    return client.begin(clients.consume, Consumption(target=target, seconds=seconds, again=True))


def _request(which: int, system: Penstock, client: ClientProcess, seconds: float) -> Pending[Moved]:
    single = REQUEST_LOADS[which]
    target = prepare_topic(system, client, "profile")
    order = _production(replace(target, partitions=single.partitions), SMALL_BYTES, seconds)
    return client.begin(clients.produce, replace(order, settings=single.settings))


def _production(target: Target, value_bytes: int, seconds: float) -> Production:
    return Production(
        target=target, value_bytes=value_bytes, seconds=seconds, messages_max=100 * MILLION
    )


def _queue(system: Penstock, client: ClientProcess, seconds: float) -> Pending[Moved]:
    place = f"penstock://{system.bootstrap}"
    client.call(native_loads.prepare, place, "profile")
    order = QueueOrder(
        place=place,
        queue="profile",
        batch=1,
        messages_max=100 * MILLION,
        seconds=seconds,
        body_bytes=SMALL_BYTES,
    )
    return client.begin(native_loads.one_by_one, order)


def _sqs(system: Penstock, client: ClientProcess, seconds: float) -> Pending[Moved]:
    host = system.http[0]
    order = sqs_load.Order(
        host=host,
        queue_url=client.call(sqs_load.create_queue, host, "profile"),
        connections=SQS_CONNECTIONS,
        seconds=seconds,
        body_bytes=SMALL_BYTES,
    )
    return client.begin(sqs_load.send, order)


LOADS: dict[str, Load] = {
    "produce": partial(_produce, SMALL_BYTES),
    "produce-large": partial(_produce, KIB),
    "consume": _consume,
    "requests": partial(_request, 0),
    "request": partial(_request, 1),
    "queue": _queue,
    "sqs": _sqs,
}


def main(arguments: list[str] | None = None) -> int:
    """Drive the load and sample; 0 if a profile was written."""
    options = _options(arguments)
    sampler = find_sampler()
    load = LOADS[options.load]
    DEFAULT_DATA.mkdir(exist_ok=True)
    options.output.mkdir(parents=True, exist_ok=True)
    directory = tempfile.mkdtemp(prefix="profile-", dir=DEFAULT_DATA.resolve())
    try:
        home = Path(directory) / "system"
        with Penstock(home, options.nodes) as system, ClientProcess() as client:
            under_way = load(system, client, options.seconds + 2 * _WARM_UP_SECONDS)
            before = system.usage().cpu_seconds
            paths = _sample(sampler, system, options) if sampler else []
            moved = under_way.result()
            used = system.usage().cpu_seconds - before
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(
        f"{options.load}, nodes {options.nodes}: {moved.per_second:,.0f} messages/s, "
        f"{used / moved.seconds:.2f} cores, {used / (moved.messages / MILLION):.2f} s a million"
    )
    if not sampler:
        print("py-spy is not there, so nothing was sampled: .venv/bin/pip install py-spy")
        return 1
    for path in paths:
        print(f"\n{path}")
        if options.format == "raw":
            print(busiest(path.read_text("utf-8")))
    return 0


def find_sampler() -> str | None:
    """py-spy of this environment, or of the system."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def _sample(sampler: str, system: Penstock, options: argparse.Namespace) -> list[Path]:
    """All nodes at the same time; where the profiles are."""
    paths, running = [], []
    for number, program in enumerate(system.programs, 1):
        name = f"profile-{options.load}-node-{number}.{_SUFFIXES[options.format]}"
        paths.append(options.output / name)
        command = [
            *(sampler, "record", "--pid", str(program.pid), "--output", str(paths[-1])),
            *("--format", options.format, "--duration", str(options.seconds)),
            *("--rate", str(SAMPLES_PER_SECOND), "--threads"),
            *(() if options.all_threads else ("--gil",)),
        ]
        running.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )
    for process in running:
        try:
            _, complaint = process.communicate(timeout=options.seconds + _END_WITHIN_SECONDS)
        finally:
            process.kill()
        if process.returncode != 0:
            raise SystemExit(f"py-spy ended with {process.returncode}: {complaint}")
    return paths


def busiest(stacks: str) -> str:
    """The functions most often found at work, by themselves and with what they call."""
    alone: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for line in stacks.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        alone[frames[-1]] += int(count)
        for frame in set(frames):
            within[frame] += int(count)
    total = max(1, alone.total())
    lines = [f"{'alone':>6} {'within':>6}  line, of {total:,} samples"]
    for frame, own in alone.most_common(SHOWN):
        lines.append(f"{own / total:6.1%} {within[frame] / total:6.1%}  {frame}")
    return "\n".join(lines)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make profile", description="Profile a broker.")
    parser.add_argument("--load", choices=list(LOADS), default="produce")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--format", choices=list(_SUFFIXES), default="raw")
    parser.add_argument("--all-threads", action="store_true", help="writing and waiting too")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, metavar="DIR")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
