"""Ports for processes of a test that must find them again after a restart.

A port of 0 gives a process any that is free, and another one the next time. A cluster's nodes tell
each other where they are, so their ports are chosen beforehand. They lie below those that systems
take for outgoing connections: there, one could be taken while its node is down.
"""

import contextlib
import secrets
import socket

from penstock.core.errors import LocalError

FIRST, LAST = 20_000, 29_999


def free_ports(count: int) -> list[int]:
    """Ports nobody listens at; all are held until all are found, so that none comes twice."""
    start = FIRST + secrets.randbelow(LAST - FIRST + 1)
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for step in range(LAST - FIRST + 1):
            port = FIRST + (start - FIRST + step) % (LAST - FIRST + 1)
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise LocalError(f"there are no {count} free ports between {FIRST} and {LAST}")
