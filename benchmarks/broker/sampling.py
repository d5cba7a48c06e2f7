"""Where a broker's time goes under load:  make profile ARGS="--load requests"

    --load NAME       produce, produce-large, consume, requests (one message each), request (one
                      at a time)
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
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.broker import clients
from benchmarks.broker.client_process import ClientProcess, Pending
from benchmarks.broker.orders import Consumption, Moved, Production, Target
from benchmarks.broker.small_requests import LOADS as REQUEST_LOADS
from benchmarks.broker.systems import System, penstock
from benchmarks.broker.throughput import MILLION, prepare_topic
from benchmarks.report import KIB, MIB

DEFAULT_OUTPUT = Path("benchmarks/results/local")
DEFAULT_DATA = Path("data")
SAMPLES_PER_SECOND = 200
SHOWN = 30
CONSUMED_BYTES = 128 * MIB
_WARM_UP_SECONDS = 1.0
_END_WITHIN_SECONDS = 60.0
_SUFFIXES = {"raw": "txt", "flamegraph": "svg", "speedscope": "json"}


@dataclass(frozen=True, slots=True)
class Load:
    """What the client does meanwhile."""

    value_bytes: int
    consume: bool = False
    requests: int | None = None
    """Which of the loads of single messages, if it is one."""


LOADS = {
    "produce": Load(100),
    "produce-large": Load(KIB),
    "consume": Load(100, consume=True),
    "requests": Load(100, requests=0),
    "request": Load(100, requests=1),
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
        kind = penstock(options.nodes)
        with kind.make(Path(directory) / "system") as system, ClientProcess() as client:
            target = prepare_topic(system, client, "profile")
            prepare(load, client, target)
            before = system.usage().cpu_seconds
            under_way = begin(load, client, target, options.seconds + 2 * _WARM_UP_SECONDS)
            paths = _sample(sampler, system, options) if sampler else []
            moved = under_way.result()
            used = system.usage().cpu_seconds - before
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(
        f"{options.load}, {kind.name}: {moved.per_second:,.0f} messages/s, "
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


def prepare(load: Load, client: ClientProcess, target: Target) -> None:
    """Something to read, if it is about reading."""
    if load.consume:
        filling = Production(
            target=target,
            value_bytes=load.value_bytes,
            seconds=_END_WITHIN_SECONDS,
            messages_max=CONSUMED_BYTES // load.value_bytes,
        )
        client.call(clients.produce, filling)


def begin(load: Load, client: ClientProcess, target: Target, seconds: float) -> Pending[Moved]:
    """Start the load, which ends by itself."""
    if load.consume:
        return client.begin(
            clients.consume, Consumption(target=target, seconds=seconds, again=True)
        )
    order = Production(
        target=target,
        value_bytes=load.value_bytes,
        seconds=seconds,
        messages_max=100 * MILLION,
    )
    if load.requests is not None:
        single = REQUEST_LOADS[load.requests]
        fewer = replace(target, partitions=single.partitions)
        order = replace(order, target=fewer, settings=single.settings)
    return client.begin(clients.produce, order)


def _sample(sampler: str, system: System, options: argparse.Namespace) -> list[Path]:
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
