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
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from penstock.cli.admin import print_json
from penstock.cli.broker.banner import command, print_lines
from penstock.core.errors import LocalError
from penstock.core.limits import MIB
from penstock.engine.cluster.keys.key_store import SHARED_KEY_FILE, shared_key_file
from penstock.server.node_process import POLL_SECONDS, NodeProcess
from penstock.server.notation import PORT_MAX
from penstock.server.reserved_ports import ReservedPorts

NODES_MAX = 9
STOP_SECONDS_MAX = 20.0
LINE_BYTES_MAX = 1 * MIB
PORTS_PER_NODE = 10
PORTS_USED = 3
USUAL_PORTS = (9092, 8080)
"""For Kafka and native clients, and for HTTP."""

_PR_SET_PDEATHSIG = 1
_COLOURS = (36, 33, 35, 32, 34, 31, 96, 93, 95)


class DevNode(NodeProcess):
    """A node of a local development cluster."""

    def __init__(self, number: int, ports: tuple[int, int, int], directory: str) -> None:
        kafka, http, self.peer = (f"127.0.0.1:{port}" for port in ports)
        super().__init__(number, kafka=kafka, http=http, ready_file=f"{directory}.ready")
        self.directory = directory

    def arguments(self, cluster: str) -> list[str]:
        """The arguments of `penstock` that start the node."""
        return [
            "serve",
            f"--node-id={self.number}",
            f"--cluster={cluster}",
            f"--data={self.directory}",
            f"--kafka={self.kafka}",
            f"--http={self.http}",
            f"--peer={self.peer}",
            f"--cluster-key-file={os.path.join(os.path.dirname(self.directory), SHARED_KEY_FILE)}",
            f"--ready-file={self.ready_file}",
            "--storage.segment-size=16MiB",
            "--storage.ballast-size=16MiB",
        ]

    def document(self) -> dict[str, object]:
        """The node's addresses and directory as a JSON document."""
        return {
            "node": self.number,
            "pid": self.pid,
            "kafka": self.kafka,
            "http": self.http,
            "data": self.directory,
        }


def run_local_cluster(
    nodes: int, *, data: str | None, base_port: int | None, json: bool = False
) -> int:
    """Run a cluster until it is stopped; without `data`, in a temporary directory."""
    if not 1 <= nodes <= NODES_MAX:
        raise LocalError(f"--nodes = {nodes} must be from 1 to {NODES_MAX}")
    with contextlib.ExitStack() as held:
        remarks: list[str] = []
        if base_port is None:
            # Until the end, not only until the nodes listen: one that died may be restarted.
            ports = held.enter_context(ReservedPorts(PORTS_USED * nodes)).numbers
            usual = usual_ports(held)
            if usual is None:
                listed = " or ".join(map(str, USUAL_PORTS))
                remarks.append(f"Another program has port {listed}; node 1 has others.")
            else:
                ports = (*usual, *ports[len(usual) :])
        else:
            ports = ports_from(base_port, nodes)
        if data is None:
            directory = held.enter_context(
                tempfile.TemporaryDirectory(prefix="penstock-cluster-", ignore_cleanup_errors=True)
            )
        else:
            os.makedirs(data, exist_ok=True)
            directory = data
        shared_key_file(directory)
        return asyncio.run(_LocalCluster(plan_nodes(directory, ports), remarks, json=json).run())


def usual_ports(
    held: contextlib.ExitStack, wanted: Sequence[int] = USUAL_PORTS
) -> tuple[int, ...] | None:
    """The ports at which commands look for a broker, for node 1, reserved until `held` is closed.
    None if one of them is taken: with half of them, a command that finds the other program would
    show its messages and this cluster's nodes."""
    try:
        return held.enter_context(ReservedPorts(len(wanted), among=wanted)).numbers
    except LocalError:
        return None


def ports_from(base_port: int, nodes: int) -> tuple[int, ...]:
    """Three ports a node; each node's first is a round number above the one before."""
    last = base_port + PORTS_PER_NODE * (nodes - 1) + PORTS_USED - 1
    if base_port < 1 or last > PORT_MAX:
        raise LocalError(f"--base-port = {base_port} leaves no room for {nodes} nodes")
    firsts = (base_port + PORTS_PER_NODE * index for index in range(nodes))
    return tuple(first + step for first in firsts for step in range(PORTS_USED))


def plan_nodes(data: str, ports: Sequence[int]) -> list[DevNode]:
    """Assign directories and ports to nodes; each takes the next three ports."""
    triples = zip(ports[::PORTS_USED], ports[1::PORTS_USED], ports[2::PORTS_USED], strict=True)
    return [
        DevNode(number, triple, os.path.join(data, f"node-{number}"))
        for number, triple in enumerate(triples, 1)
    ]


class _LocalCluster:
    def __init__(self, nodes: list[DevNode], remarks: Sequence[str], *, json: bool) -> None:
        self._json = json
        self._nodes = nodes
        self._remarks = remarks
        self._listed = ",".join(f"{node.number}@{node.peer}" for node in nodes)
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
            for node in self._nodes:
                self._start(node)
            await self._wait_ready()
            if not self._stop.is_set():
                self._print_places()
            await self._stop.wait()
        finally:
            await self._stop_children()
        return 1 if self._failed else 0

    def _take_signal(self) -> None:
        if self._stop.is_set():
            for node in self._nodes:
                node.send(signal.SIGKILL)
        self._stop.set()

    def _start(self, node: DevNode) -> None:
        command = [sys.executable, "-m", "penstock.cli.main", *node.arguments(self._listed)]
        node.launch(command, before=_die_with_parent())
        self._reporters.append(asyncio.create_task(self._report(node)))

    async def _report(self, node: DevNode) -> None:
        """Pass on what a child says, and that it has ended."""
        assert node.process is not None, f"node {node.number} was not started"
        loop = asyncio.get_running_loop()
        output = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        protocol = asyncio.StreamReaderProtocol(output)
        await loop.connect_read_pipe(lambda: protocol, node.process.stdout)
        while True:
            try:
                line = await output.readline()
            except ValueError:  # Longer than the limit; the reader has dropped it.
                continue
            if not line:
                break
            self._say(node.number, line.decode("utf-8", "replace").rstrip())
        code = await asyncio.to_thread(node.process.wait)
        if self._stopping:
            return
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        again = shlex.join(["penstock", *node.arguments(self._listed)])
        self._say(node.number, f"has ended ({how}). Start it again with:\n{again}")
        if not node.is_ready() or not any(one.running for one in self._nodes):
            self._failed = True
            self._stop.set()

    async def _wait_ready(self) -> None:
        while not self._stop.is_set():
            if all(node.is_ready() for node in self._nodes):
                return
            await asyncio.sleep(POLL_SECONDS)

    def _print_places(self) -> None:
        url = "penstock://" + ",".join(node.kafka for node in self._nodes)
        if self._json:
            print_json({"url": url, "nodes": [node.document() for node in self._nodes]})
            sys.stdout.flush()
            return
        print_lines(
            [
                *self._remarks,
                f"A cluster of {len(self._nodes)} is running at {url}",
                *(
                    f"node {node.number}: http://{node.http}  pid {node.pid}  {node.directory}"
                    for node in self._nodes
                ),
                f"In another terminal: {command('cluster status', url)}",
                f"Programs to paste: {command('cheat python', url)} (or kafka, sqs, cli)",
                "Ctrl-C stops it.",
            ]
        )

    async def _stop_children(self) -> None:
        """The last one first, each in good order; a node that takes too long is killed."""
        self._stopping = True
        for node in reversed(self._nodes):
            if node.process is None or not node.running:
                continue
            node.send(signal.SIGTERM)
            try:
                await asyncio.to_thread(node.process.wait, STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._say(node.number, "does not stop and is killed")
                node.send(signal.SIGKILL)
                await asyncio.to_thread(node.process.wait)
        if self._reporters:
            await asyncio.wait(self._reporters)

    def _say(self, node: int, text: str) -> None:
        prefix = f"node {node} │ "
        if self._colour:
            prefix = f"\x1b[{_COLOURS[(node - 1) % len(_COLOURS)]}m{prefix}\x1b[0m"
        channel = sys.stderr if self._json else sys.stdout
        for line in text.splitlines() or [""]:
            channel.write(f"{prefix}{line}\n")
        channel.flush()


def _die_with_parent() -> Callable[[], None] | None:
    """Return a function that makes a child process receive SIGTERM when its parent dies."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def ask() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # It died before we could ask.
            os._exit(1)

    return ask
