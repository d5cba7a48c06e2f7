"""Ports that are chosen before the process that listens on them is started.

A process that binds port 0 gets a free port, but a different one after each restart. The nodes of a
cluster must know each other's ports beforehand, and a restarted node must come back on its own. To
find a port by binding port 0 and closing it again is a race: between that moment and the real bind,
another program that searches the same way, or any outgoing connection, may get the port.

A reservation closes both gaps:

- The ports lie outside the range from which the kernel takes the local ports of connections.
- While a reservation is open, it keeps the *UDP* ports of the same numbers bound. UDP and TCP ports
  are separate, so a server can bind and release its TCP port at will; a second reservation, in this
  or in any other process, fails to bind the UDP port and takes the next one. The kernel releases
  the lock when the process ends, however it ends.
"""

import contextlib
import secrets
import socket
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType

from penstock.core.errors import LocalError
from penstock.server.notation import PORT_MAX

FIRST = 21_000
"""Lower ones have their usual owners."""
ROOM_MIN = 1_000
_CONNECTIONS = "/proc/sys/net/ipv4/ip_local_port_range"
_USUAL_FIRST = 32_768


class ReservedPorts:
    """Ports that no other reservation on this machine gets until `close`."""

    def __init__(
        self, count: int, *, host: str = "127.0.0.1", among: Sequence[int] | None = None
    ) -> None:
        """`host` "" reserves them on every address. `among` are tried in their order; by default
        all that no connection takes, from a random one on."""
        candidates = _shuffled_start(usable_ports()) if among is None else among
        with contextlib.ExitStack() as locks:
            found: list[int] = []
            for port in candidates:
                if len(found) == count:
                    break
                if lock := _lock(host, port):
                    locks.enter_context(lock)
                    found.append(port)
            if len(found) < count:
                raise LocalError(
                    f"there are no {count} free ports from {min(candidates)} to {max(candidates)}"
                )
            # A holder that is forgotten releases its ports: tests need not be careful.
            self._release = weakref.finalize(self, locks.pop_all().close)
        self.numbers = tuple(found)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def close(self) -> None:
        self._release()

    def __enter__(self) -> "ReservedPorts":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def usable_ports(connections: str = _CONNECTIONS) -> range:
    """Ports outside the range, read from this file, that the kernel gives to connections."""
    try:
        with open(connections, encoding="ascii") as file:
            first, last = map(int, file.read().split())
    except OSError:  # Not Linux; the ranges of other systems begin higher.
        first, last = _USUAL_FIRST, PORT_MAX
    if first - FIRST >= ROOM_MIN:
        return range(FIRST, first)
    if PORT_MAX - last >= ROOM_MIN:
        return range(last + 1, PORT_MAX + 1)
    # Connections may have every port of this machine: only other reservations are kept away.
    return range(FIRST, _USUAL_FIRST)


def _shuffled_start(ports: range) -> list[int]:
    start = secrets.randbelow(len(ports))
    return [*ports[start:], *ports[:start]]


def _lock(host: str, port: int) -> socket.socket | None:
    """The bound UDP socket; None if the port is reserved or if something uses it."""
    lock = socket.socket(type=socket.SOCK_DGRAM)
    try:
        lock.bind((host, port))
        with socket.socket() as probe:
            probe.bind((host, port))
    except OSError:
        lock.close()
        return None
    return lock
