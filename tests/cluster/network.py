"""The network between the nodes of a cluster, as the test sees it: links to cut and to heal.

`tests/cluster/proxy.py` does the work in a process of its own, so that the links do not wait for
whatever the test is computing.
"""

import select
import subprocess
import sys
import threading
from collections.abc import Iterable
from itertools import permutations
from types import TracebackType

import msgspec

from tests.cluster.proxy import Done, Listener, Order, State

_ANSWER_WITHIN_SECONDS = 20.0
Address = tuple[str, int]


class Network:
    """Cuts and heals; everything passes until it is told otherwise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.proxy"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> "Network":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def add_link(self, *, dialler: int, dialled: int, listen: Address, target: Address) -> None:
        """From now on `dialler` reaches `dialled` at `listen`."""
        self._nodes |= {dialler, dialled}
        self._tell(Order(listener=Listener(dialler, dialled, listen, target)))

    # Cutting.

    def stall(self, source: int, target: int) -> None:
        """Nothing goes from one to the other any more, and nobody is told."""
        self._change(source, target, "stall")

    def refuse(self, one: int, other: int) -> None:
        """Connections between the two are reset, both ways."""
        self._change(one, other, "refuse")
        self._change(other, one, "refuse")

    def delay(self, source: int, target: int, milliseconds: int) -> None:
        self._change(source, target, "pass", milliseconds)

    def split(self, group: Iterable[int], *, state: State = "stall") -> None:
        """This group on one side, all others on the other."""
        inside = set(group)
        for source in inside:
            for target in self._nodes - inside:
                self._change(source, target, state)
                self._change(target, source, state)

    def isolate(self, node: int, *, state: State = "stall") -> None:
        self.split([node], state=state)

    def deafen(self, node: int) -> None:
        """It hears nobody and is heard."""
        for other in self._nodes - {node}:
            self.stall(other, node)

    def silence(self, node: int) -> None:
        """It hears everybody and is not heard."""
        for other in self._nodes - {node}:
            self.stall(node, other)

    def heal(self) -> None:
        """Everything passes again, at once."""
        for source, target in permutations(sorted(self._nodes), 2):
            self._change(source, target, "pass")

    def bytes_passed(self, source: int, target: int) -> int:
        """How much has gone from one to the other; makes the flow pass."""
        return self._change(source, target, "pass")

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_ANSWER_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _change(self, source: int, target: int, state: State, delay_ms: int = 0) -> int:
        order = Order(flow=(source, target), state=state, delay_ms=delay_ms)
        return self._tell(order).bytes_passed

    def _tell(self, order: Order) -> Done:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(msgspec.json.encode(order) + b"\n")
            stdin.flush()
            assert select.select([stdout], [], [], _ANSWER_WITHIN_SECONDS)[0], "the proxy is silent"
            done = msgspec.json.decode(stdout.readline(), type=Done)
        assert not done.error, f"the proxy cannot do that: {done.error}"
        return done
