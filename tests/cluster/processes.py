"""A cluster of real `penstock serve` processes that can be killed, frozen and cut off.

Each node has an address, ports and a directory of its own, all fixed beforehand. It knows its peers
only under addresses of the proxy, one for each pair, so that every link can be cut by itself; what
clients use is not proxied. Leaving the `with` block ends everything, whatever happened; the logs of
the nodes stay in the directory, and a node that ended although nobody ended it is told of.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock.core.errors import Unavailable
from penstock.server.node_process import NodeProcess
from tests.cluster.addresses import Block, free_block
from tests.cluster.network import Network
from tests.cluster.waiting import wait_until
from tests.cluster.warden import Warden
from tests.cluster_key import key_file
from tests.installed import penstock_command

READY_WITHIN_SECONDS = 60.0
ANSWER_WITHIN_SECONDS = 10.0
ENDED_WITHIN_SECONDS = 60.0
COMMAND_WITHIN_SECONDS = 60.0
WHOLE_WITHIN_SECONDS = 120.0
LAG_ENTRIES_MAX = 100
_KAFKA, _HTTP, _PEER = 0, 1, 2
_LINKS = 100
"""Where the proxy's ports begin; node 1 dials node 3 at port 103 of node 1's own address."""


@dataclass(frozen=True)
class Build:
    """A version of Penstock that a node can run."""

    name: str
    command: tuple[str, ...]
    """Its command line, without arguments."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it needs on top of those of every node."""


PRESENT = Build("present", (penstock_command(),))
"""The version under test."""


class Node(NodeProcess):
    """One broker: where it is, and its process if it runs."""

    def __init__(
        self, number: int, host: str, directory: Path, block: Block, build: Build = PRESENT
    ) -> None:
        super().__init__(
            number,
            kafka=f"{host}:{block.port(_KAFKA)}",
            http=f"{host}:{block.port(_HTTP)}",
            ready_file=str(directory / "ready.json"),
            log_file=str(directory / "log.txt"),
        )
        self.host = host
        self.directory = directory
        self.block = block
        self.build = build
        self.extra: tuple[str, ...] = ()
        self.frozen = False
        self.starts = 0
        self.ends: list[str] = []
        """How its processes ended when nobody had ended them."""

    @property
    def peer(self) -> tuple[str, int]:
        return self.host, self.block.port(_PEER)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return Path(self.log_file)

    def dials(self, other: int) -> tuple[str, int]:
        """Where this node finds another one: an address of the proxy."""
        return self.host, self.block.port(_LINKS + other)


class Cluster:
    """Nodes, the network between them, and what can be done to them."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 3,
        shards: int = 2,
        flags: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        build: Build = PRESENT,
    ) -> None:
        """Every node runs `build` until its `Node.build` is changed before a start."""
        self.directory = directory
        self.shards = shards
        self.nodes: dict[int, Node] = {}
        self.network = Network()
        self.retired: list[Node] = []
        self._warden = Warden()
        self._block = free_block()
        self._flags = tuple(flags)
        self._build = build
        # An older release knows no key: a cluster that it has founded gets one by an upgrade.
        self._key_file = key_file(directory) if build is PRESENT else ""
        # A broker under test has its defaults, whatever is set for the test itself.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
        }
        self._environment = {**inherited, **(environment or {})}
        self._founders = tuple(range(1, nodes + 1))
        for number in self._founders:
            self._prepare(number)
        for number in self._founders:
            for other in self._founders:
                if other != number:
                    self._link(number, other)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """What clients are given: every node, alive or not."""
        return self.addresses()

    def addresses(self) -> str:
        """The same, for those who start clients later, when other nodes may be members."""
        return ",".join(node.kafka for node in self.nodes.values())

    def web_addresses(self) -> list[str]:
        """Where every node, alive or not, answers HTTP."""
        return [node.http for node in list(self.nodes.values())]

    # Starting.

    def start(self, *numbers: int) -> None:
        """Start these nodes, or all, and wait until they serve."""
        wanted = numbers or tuple(self.nodes)
        for number in wanted:
            self.launch(number)
        for number in wanted:
            self.wait_ready(number)

    def launch(self, number: int) -> None:
        """Start a node and do not wait."""
        node = self.nodes[number]
        node.starts += 1
        with open(node.log_file, "ab") as log:
            log.write(f"---- start {node.starts} of {node.build.name}\n".encode())
        node.launch(
            [*node.build.command, "serve", *self._arguments(node)],
            environment={**self._environment, **node.build.environment},
        )
        assert node.pid is not None
        self._warden.watch(node.pid)

    def wait_ready(self, number: int) -> None:
        """Wait until it has written where it listens."""
        try:
            self.nodes[number].wait_ready(READY_WITHIN_SECONDS)
        except Unavailable as error:
            raise AssertionError(str(error)) from None

    # Harming.

    def kill(self, number: int) -> None:
        """kill -9, whether it runs or is frozen."""
        node = self.nodes[number]
        if node.process is None:
            return
        if node.running:
            node.process.kill()
            self._ended(node)
        else:
            self._note_end(node)
            self._ended(node)

    def terminate(self, number: int) -> int:
        """Ask it to stop in good order; its exit code."""
        node = self.nodes[number]
        assert node.process is not None
        assert node.running, f"node {number} does not run:\n{node.log_tail()}"
        node.process.send_signal(signal.SIGTERM)
        return self._ended(node)

    def wait_ended(self, number: int) -> int:
        """Wait until it has ended by itself, as it was meant to; its exit code."""
        return self._ended(self.nodes[number])

    def freeze(self, number: int) -> None:
        """SIGSTOP; when this returns none of its threads runs."""
        node = self.nodes[number]
        assert node.process is not None
        assert node.running, f"node {number} does not run:\n{node.log_tail()}"
        pid = node.process.pid
        node.frozen = True
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: is_stopped(pid), f"node {number} does not stop", seconds=30)

    def thaw(self, number: int) -> None:
        node = self.nodes[number]
        if node.process is not None and node.frozen:
            os.kill(node.process.pid, signal.SIGCONT)
        node.frozen = False

    def restart(self, number: int) -> None:
        """Start it again if it does not run, and wait until it serves."""
        if not self.nodes[number].running:
            self.kill(number)
            self.launch(number)
        self.wait_ready(number)

    def upgrade(self, number: int, *, killed: bool = False) -> None:
        """Replace a node's version by the present one as `docs/guides/upgrade.md` says, and wait
        until it holds everything. `killed`: kill -9 instead of SIGTERM."""
        node = self.nodes[number]
        assert node.build is not PRESENT, f"node {number} runs the present version already"
        self.wait_healthy(number, "/v1/health/quorum-critical")
        if killed:
            self.kill(number)
        else:
            code = self.terminate(number)
            assert code == 0, f"node {number} ended with {code}:\n{node.log_tail()}"
        node.build = PRESENT
        self.launch(number)
        self.wait_ready(number)
        self.wait_healthy(number, "/readyz")
        self.wait_healthy(number, "/v1/health/replicated")

    def wait_healthy(self, number: int, path: str) -> None:
        """Wait until a health check of a node answers 200."""
        answer = ""

        def healthy() -> bool:
            nonlocal answer
            try:
                url = f"http://{self.nodes[number].http}{path}"
                urllib.request.urlopen(url, timeout=ANSWER_WITHIN_SECONDS).close()
            except urllib.error.HTTPError as error:
                answer = f"{error.code} {error.read().decode(errors='replace')}"
                return False
            except OSError as error:
                answer = str(error)
                return False
            return True

        wait_until(
            healthy,
            lambda: f"{path} of node {number} is not 200: {answer}",
            seconds=WHOLE_WITHIN_SECONDS,
        )

    def wipe(self, number: int) -> None:
        """Take its disk away; it must not run."""
        node = self.nodes[number]
        assert not node.running, f"node {number} runs"
        shutil.rmtree(node.data, ignore_errors=True)

    def heal(self) -> None:
        """End every fault: links pass, frozen nodes go on, killed nodes come back."""
        self.network.heal()
        for number, node in self.nodes.items():
            self.thaw(number)
            if not node.running:
                self.kill(number)
                self.launch(number)
        for number in self.nodes:
            self.wait_ready(number)

    # Membership.

    def prepare_another(self, *flags: str) -> Node:
        """A node with a number nobody had, linked to all others both ways; not yet started."""
        number = max([*self.nodes, *(node.number for node in self.retired)]) + 1
        others = list(self.nodes)
        node = self._prepare(number)
        node.extra = flags
        for other in others:
            self._link(number, other)
            self._link(other, number)
        return node

    def administer(self, through: int, *arguments: str) -> str:
        """Run `penstock cluster …` against a node; what it said."""
        command = [penstock_command(), "cluster", *arguments, "--http", self.nodes[through].http]
        done = subprocess.run(
            command, capture_output=True, timeout=COMMAND_WITHIN_SECONDS, check=False, text=True
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def replace(self, number: int) -> int:
        """Remove a node that has lost its disk, and let one with a new number take its place.

        Returns when the newcomer holds everything. It finds the others through the proxy; they
        find it where it says it is."""
        through = next(other for other in self.running() if other != number)
        self.administer(through, "remove", str(number), "--yes")
        self.forget(number)
        newcomer = self.prepare_another()
        self.administer(through, "add", f"{newcomer.number}@{_joined(newcomer.peer)}")
        self.start(newcomer.number)
        self.wait_whole(newcomer.number, through)
        return newcomer.number

    def wait_whole(self, number: int, through: int) -> None:
        """Wait until a node is a voter of every shard and lags behind in none."""

        def whole() -> bool:
            for shard in self.status(through)["shards"]:
                lags = {one["node"]: one["lag_entries"] for one in shard["followers"]}
                if number not in shard["voters"] or lags.get(number, 0) > LAG_ENTRIES_MAX:
                    return False
            return True

        wait_until(
            whole,
            lambda: f"node {number} holds everything: {self.status(through)}",
            seconds=WHOLE_WITHIN_SECONDS,
        )

    def forget(self, number: int) -> None:
        """It is no member any more: end it, and give clients its address no longer."""
        self.kill(number)
        self.retired.append(self.nodes.pop(number))

    def status(self, through: int) -> dict[str, Any]:
        """The cluster as one of its nodes sees it."""
        url = f"http://{self.nodes[through].http}/v1/cluster"
        with urllib.request.urlopen(url, timeout=ANSWER_WITHIN_SECONDS) as answer:
            status: dict[str, Any] = json.load(answer)
        return status

    # Ending.

    def running(self) -> list[int]:
        return [number for number, node in self.nodes.items() if node.running and not node.frozen]

    def complaints(self) -> list[str]:
        """Nodes that ended by themselves, and errors that nobody expected in their logs."""
        found = []
        for node in (*self.nodes.values(), *self.retired):
            if node.process is not None and not node.running:
                self._note_end(node)
            found += [f"node {node.number} {end}" for end in node.ends]
            found += [f"node {node.number}: {line}" for line in tracebacks(node.log)]
        return found

    def close(self) -> None:
        """End everything."""
        for node in (*self.nodes.values(), *self.retired):
            if node.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.kill()
                self._ended(node)
        self.network.close()
        self._warden.close()

    def _prepare(self, number: int) -> Node:
        directory = self.directory / f"node-{number}"
        directory.mkdir(parents=True)
        node = Node(number, self._block.host(number), directory, self._block, self._build)
        self.nodes[number] = node
        return node

    def _link(self, dialler: int, dialled: int) -> None:
        self.network.add_link(
            dialler=dialler,
            dialled=dialled,
            listen=self.nodes[dialler].dials(dialled),
            target=self.nodes[dialled].peer,
        )

    def _arguments(self, node: Node) -> list[str]:
        peers = ",".join(
            f"{other}@{_joined(node.peer if other == node.number else node.dials(other))}"
            for other in self._listed(node)
        )
        return [
            *("--data", str(node.data)),
            *("--node-id", str(node.number)),
            *("--kafka", node.kafka),
            *("--http", node.http),
            *("--peer", _joined(node.peer)),
            *("--cluster", peers),
            *(("--cluster-key-file", self._key_file) if self._key_file else ()),
            *("--shards", str(self.shards)),
            *("--ready-file", node.ready_file),
            *self._flags,
            *node.extra,
        ]

    def _listed(self, node: Node) -> list[int]:
        """Whom a node is told of: the founders, or whoever is there when it joins."""
        if node.number in self._founders:
            return list(self._founders)
        return sorted(self.nodes)

    def _ended(self, node: Node) -> int:
        pid = node.pid
        assert pid is not None
        try:
            code = node.wait(ENDED_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"node {node.number} does not end:\n{node.log_tail()}") from None
        self._warden.forget(pid)
        node.frozen = False
        return code

    def _note_end(self, node: Node) -> None:
        assert node.process is not None
        end = f"ended by itself with {node.process.returncode}:\n{node.log_tail()}"
        if end not in node.ends:
            node.ends.append(end)


def _joined(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def tail(path: Path, lines: int = 40) -> str:
    """The last lines of a log."""
    try:
        return "\n".join(path.read_text("utf-8", errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "it has said nothing"


def tracebacks(path: Path, shown: int = 30) -> list[str]:
    """The tracebacks in a log: a broker has no business printing any."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback ")]
    return ["\n".join(lines[max(0, start - 2) : start + shown]) for start in starts[:3]]


def is_stopped(pid: int) -> bool:
    """True if every thread of a process is stopped."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
            state = file.read().rsplit(")", 1)[1].split()[0]
        if state not in "TtZ":
            return False
    return True
