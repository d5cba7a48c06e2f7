"""`penstock cluster dev`: a cluster on this machine, one child process a node.

The children are real brokers, started as one would start them by hand; whatever is done to one of
them (kill -9, a pause, a removed directory) is a true test. Rules:

- No child outlives this process, however it ends: each asks the kernel for a signal at its parent's
  death. They have process groups of their own, so that Ctrl-C reaches only this process, which
  stops them in turn.
- A child that ends is reported with the command that starts it again. One that ends before the
  cluster stands takes the others with it.
"""

import asyncio
import contextlib
import ctypes
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.cli.broker.banner import print_box
from penstock.core.errors import LocalError
from penstock.core.limits import MIB
from penstock.server.notation import PORT_MAX
from penstock.server.reserved_ports import ReservedPorts

NODES_MAX = 9
STOP_SECONDS_MAX = 20.0
PAUSE_SECONDS = 0.05
LINE_BYTES_MAX = 1 * MIB
PORTS_PER_NODE = 10
PORTS_USED = 3

_PR_SET_PDEATHSIG = 1
_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A node that is to run."""

    node: int
    kafka: str
    http: str
    peer: str
    directory: str

    @property
    def ready_file(self) -> str:
        return f"{self.directory}.ready"

    def arguments(self, cluster: str) -> list[str]:
        """How it is started, after `penstock`."""
        return [
            "serve",
            f"--node-id={self.node}",
            f"--cluster={cluster}",
            f"--data={self.directory}",
            f"--kafka={self.kafka}",
            f"--http={self.http}",
            f"--peer={self.peer}",
            f"--ready-file={self.ready_file}",
            "--storage.segment-size=16MiB",
            "--storage.ballast-size=16MiB",
        ]


def run_local_cluster(nodes: int, *, data: str | None, base_port: int | None) -> int:
    """Run a cluster until it is stopped; without `data`, in a temporary directory."""
    if not 1 <= nodes <= NODES_MAX:
        raise LocalError(f"--nodes = {nodes} must be from 1 to {NODES_MAX}")
    with contextlib.ExitStack() as held:
        if base_port is None:
            # Until the end, not only until the nodes listen: one that died may be restarted.
            ports = held.enter_context(ReservedPorts(PORTS_USED * nodes)).numbers
        else:
            ports = ports_from(base_port, nodes)
        if data is None:
            directory = held.enter_context(
                tempfile.TemporaryDirectory(prefix="penstock-cluster-", ignore_cleanup_errors=True)
            )
        else:
            os.makedirs(data, exist_ok=True)
            directory = data
        return asyncio.run(_LocalCluster(plan_nodes(directory, ports)).run())


def ports_from(base_port: int, nodes: int) -> tuple[int, ...]:
    """Three ports a node; each node's first is a round number above the one before."""
    last = base_port + PORTS_PER_NODE * (nodes - 1) + PORTS_USED - 1
    if base_port < 1 or last > PORT_MAX:
        raise LocalError(f"--base-port = {base_port} leaves no room for {nodes} nodes")
    firsts = (base_port + PORTS_PER_NODE * index for index in range(nodes))
    return tuple(first + step for first in firsts for step in range(PORTS_USED))


def plan_nodes(data: str, ports: Sequence[int]) -> list[Plan]:
    """Which node goes where; each takes the next three ports."""
    triples = zip(ports[::PORTS_USED], ports[1::PORTS_USED], ports[2::PORTS_USED], strict=True)
    return [
        Plan(
            node=node,
            kafka=f"127.0.0.1:{kafka}",
            http=f"127.0.0.1:{http}",
            peer=f"127.0.0.1:{peer}",
            directory=os.path.join(data, f"node-{node}"),
        )
        for node, (kafka, http, peer) in enumerate(triples, 1)
    ]


class _LocalCluster:
    def __init__(self, plans: list[Plan]) -> None:
        self._plans = plans
        self._listed = ",".join(f"{plan.node}@{plan.peer}" for plan in plans)
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._reporters: list[asyncio.Task[None]] = []
        self._colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._stopping = False
        self._failed = False
        self._stop = asyncio.Event()

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._take_signal)
        try:
            for plan in self._plans:
                await self._start(plan)
            await self._wait_ready()
            if not self._stop.is_set():
                self._print_box()
            await self._stop.wait()
        finally:
            await self._stop_children()
        return 1 if self._failed else 0

    def _take_signal(self) -> None:
        if self._stop.is_set():
            for child in self._children.values():
                _send(child, signal.SIGKILL)
        self._stop.set()

    async def _start(self, plan: Plan) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(plan.ready_file)
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "penstock.cli.main",
            *plan.arguments(self._listed),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=LINE_BYTES_MAX,
            process_group=0,
            preexec_fn=_die_with_parent(),
        )
        self._children[plan.node] = child
        self._reporters.append(asyncio.create_task(self._report(plan, child)))

    async def _report(self, plan: Plan, child: asyncio.subprocess.Process) -> None:
        """Pass on what a child says, and that it has ended."""
        assert child.stdout is not None, "the child's output is a pipe"
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:  # Longer than the limit; the reader has dropped it.
                continue
            if not line:
                break
            self._say(plan.node, line.decode("utf-8", "replace").rstrip())
        code = await child.wait()
        if self._stopping:
            return
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        again = shlex.join(["penstock", *plan.arguments(self._listed)])
        self._say(plan.node, f"has ended ({how}). Start it again with:\n{again}")
        if not self._is_ready(plan) or all(
            other.returncode is not None for other in self._children.values()
        ):
            self._failed = True
            self._stop.set()

    async def _wait_ready(self) -> None:
        while not self._stop.is_set():
            if all(map(self._is_ready, self._plans)):
                return
            await asyncio.sleep(PAUSE_SECONDS)

    def _is_ready(self, plan: Plan) -> bool:
        return os.path.exists(plan.ready_file)

    def _print_box(self) -> None:
        bootstrap = ",".join(plan.kafka for plan in self._plans)
        sqs = f"http://{self._plans[0].http}"
        rows = [
            ("Python", f"penstock://{bootstrap}"),
            ("Kafka", bootstrap),
            ("SQS", f"{sqs}, or at any other node"),
        ]
        for plan in self._plans:
            pid = self._children[plan.node].pid
            rows.append((f"node {plan.node}", f"http://{plan.http}  pid {pid}  {plan.directory}"))
        rows.append(("status", f"penstock cluster status --http {self._plans[0].http}"))
        print_box(f"A cluster of {len(self._plans)} is running", rows, kafka=bootstrap, sqs=sqs)

    async def _stop_children(self) -> None:
        """The last one first, each in good order; whoever takes too long is killed."""
        self._stopping = True
        for plan in reversed(self._plans):
            child = self._children.get(plan.node)
            if child is None or child.returncode is not None:
                continue
            _send(child, signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_SECONDS_MAX):
                    await child.wait()
            except TimeoutError:
                self._say(plan.node, "does not stop and is killed")
                _send(child, signal.SIGKILL)
                await child.wait()
        if self._reporters:
            await asyncio.wait(self._reporters)

    def _say(self, node: int, text: str) -> None:
        prefix = f"node {node} │ "
        if self._colour:
            prefix = f"\x1b[{_COLOURS[(node - 1) % len(_COLOURS)]}m{prefix}\x1b[0m"
        for line in text.splitlines() or [""]:
            sys.stdout.write(f"{prefix}{line}\n")
        sys.stdout.flush()


def _send(child: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)


def _die_with_parent() -> Callable[[], None] | None:
    """What a child does before it becomes a broker: ask for SIGTERM when its parent dies."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # It died before we could ask.
            os._exit(1)

    return ask
