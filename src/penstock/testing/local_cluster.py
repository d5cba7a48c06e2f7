"""A cluster of real broker processes for a test, to be killed and restarted at will.

    with LocalCluster() as cluster:
        client = await penstock.connect(cluster.url)
        cluster.kill(1)
        …
        cluster.restart(1)

Each node is a process with its own directory and its own fixed ports on this machine, so that a
node comes back where it was. Starting takes a second or two: every process has an interpreter to
start, and the nodes have leaders to elect. No process outlives the test (see `broker_process`).
What a node has to say is in `log(node)`.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import TracebackType

import msgspec

from penstock.core.errors import LocalError, Unavailable
from penstock.engine.cluster.keys.key_store import shared_key_file
from penstock.server.node_process import NodeProcess
from penstock.server.reserved_ports import ReservedPorts

NODES_MAX = 9
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0


class _Node(NodeProcess):
    """A node of the cluster, on fixed ports."""

    def __init__(self, number: int, ports: tuple[int, int, int]) -> None:
        kafka, http, self.peer = (f"127.0.0.1:{port}" for port in ports)
        super().__init__(number, kafka=kafka, http=http, ready_file="")
        self.directory = ""

    def move_to(self, directory: str) -> None:
        """Set the data directory, and the files beside it for the ready file and the output."""
        self.directory = directory
        self.ready_file, self.log_file = f"{directory}.ready", f"{directory}.log"


class LocalCluster:
    """Brokers on this machine, from `start` to `stop`, or as long as a `with` block."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        data: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Without `data`, directories are temporary. `settings` are every node's, by the names
        they have in the configuration."""
        if not 1 <= nodes <= NODES_MAX:
            raise LocalError(f"a cluster of {nodes} nodes; from 1 to {NODES_MAX} are possible here")
        from penstock.testing.broker_settings import load_settings  # noqa: PLC0415 - for later

        self._data = None if data is None else os.fspath(data)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._key_file = ""
        self._settings = dict(settings or {})
        load_settings(self._settings)  # Errors in them are reported here, and once.
        self._ports = ReservedPorts(3 * nodes)  # As long as this object: nodes are restarted.
        ports = iter(self._ports)
        self._nodes = {
            number: _Node(number, (next(ports), next(ports), next(ports)))
            for number in range(1, nodes + 1)
        }

    # Where it is.

    @property
    def nodes(self) -> list[int]:
        """The numbers of all nodes, running or not."""
        return list(self._nodes)

    @property
    def running(self) -> list[int]:
        """The nodes that run."""
        return [number for number, node in self._nodes.items() if node.running]

    @property
    def kafka(self) -> str:
        """Bootstrap addresses of all nodes, running or not."""
        return ",".join(node.kafka for node in self._nodes.values())

    @property
    def url(self) -> str:
        """The URL for `penstock.connect`."""
        return f"penstock://{self.kafka}"

    @property
    def sqs_url(self) -> str:
        """The SQS endpoint of a node that runs."""
        return self.http_url

    @property
    def http_url(self) -> str:
        """The HTTP port of a node that runs."""
        for node in self._nodes.values():
            if node.running:
                return f"http://{node.http}"
        raise Unavailable("no node runs")

    def pid(self, node: int) -> int | None:
        """The process of a node; None while it does not run."""
        return self._node(node).pid

    def log(self, node: int) -> str:
        """The last lines that a node has logged."""
        return self._node(node).log_tail()

    # Life.

    def start(self) -> "LocalCluster":
        """Start all nodes; returns when each of them serves."""
        assert not self.running, "the cluster runs already"
        try:
            self._make_directories()
            for node in self._nodes.values():
                self._launch(node)
            for node in self._nodes.values():
                node.wait_ready(READY_SECONDS_MAX)
        except BaseException:
            self.stop()
            raise
        return self

    def _make_directories(self) -> None:
        data = self._data
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(
                prefix="penstock-cluster-", ignore_cleanup_errors=True
            )
            data = self._temporary.name
        os.makedirs(data, exist_ok=True)
        self._key_file = shared_key_file(data)
        for node in self._nodes.values():
            node.move_to(os.path.join(data, f"node-{node.number}"))

    def kill(self, node: int) -> None:
        """kill -9: writes that were not acknowledged may be lost."""
        chosen = self._node(node)
        chosen.send(signal.SIGKILL)
        self._reap(chosen)

    def terminate(self, node: int) -> None:
        """Stop a node in good order: it hands its leadership over before it ends."""
        chosen = self._node(node)
        chosen.send(signal.SIGTERM)
        self._reap(chosen)

    def restart(self, node: int) -> None:
        """Start a node again that was killed or stopped; returns when it serves."""
        chosen = self._node(node)
        if chosen.running:
            self.terminate(node)
        self._launch(chosen)
        chosen.wait_ready(READY_SECONDS_MAX)

    def pause(self, node: int) -> None:
        """Freeze a node: it neither answers nor ends, like one whose disk or network hangs."""
        self._node(node).send(signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """Resume a frozen node."""
        self._node(node).send(signal.SIGCONT)

    def stop(self) -> None:
        """End all of them and remove temporary directories. No node is left to take over, and
        the data need not be closed in good order, so this is quick."""
        self._kill_all()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> "LocalCluster":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _node(self, number: int) -> _Node:
        if number not in self._nodes:
            raise LocalError(f"there is no node {number}; there are 1 to {len(self._nodes)}")
        return self._nodes[number]

    def _launch(self, node: _Node) -> None:
        listed = ",".join(f"{one.number}@{one.peer}" for one in self._nodes.values())
        settings = {
            **self._settings,
            "data": node.directory,
            "node_id": node.number,
            "cluster": listed,
            "kafka": node.kafka,
            "http": node.http,
            "peer": node.peer,
            "cluster_key_file": self._key_file,
            "ready_file": node.ready_file,
        }
        encoded = msgspec.json.encode(settings).decode()
        command = [sys.executable, "-m", "penstock.testing.broker_process", encoded]
        node.launch(command, stdin=subprocess.PIPE)  # Its other end is the leash.

    def _kill_all(self) -> None:
        for node in self._nodes.values():
            node.send(signal.SIGKILL)
        for node in self._nodes.values():
            self._reap(node)

    def _reap(self, node: _Node) -> None:
        if node.process is None:
            return
        # To close the leash would kill one that is still stopping in good order.
        try:
            node.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            node.send(signal.SIGKILL)
            node.wait(STOP_SECONDS_MAX)
