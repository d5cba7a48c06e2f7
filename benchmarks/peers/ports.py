"""A port that is free on every address, and stays so until a server that is slow to start takes it.

Most servers are given an address of the benchmark's own, where every port is free. Some take a port
on all addresses: Erlang's nodes and their name server do, and fauxqs knows no other way. A port
that the system hands out is no good for them: it is of the range from which connections get theirs,
so that any connection made anywhere on the machine may have it, seconds later, when the server
wants it. RabbitMQ then ends with `dist_port_already_used`. These ports are below that range.
"""

import itertools
import os
import socket
from pathlib import Path

FIRST, LAST = 21_000, 32_000
"""Above the ports of the benchmark's own addresses, below those of connections."""
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_turns = itertools.count(os.getpid() * 37)


def free_everywhere() -> int:
    """Another one at each call."""
    last = min(LAST, _connections_from())
    for turn in itertools.islice(_turns, LAST - FIRST):
        port = FIRST + turn % max(1, last - FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        return port
    raise AssertionError(f"every port from {FIRST} to {last} is taken")


def _connections_from() -> int:
    """The first port that a connection may be given."""
    try:
        return int(_RANGE.read_text("ascii").split()[0])
    except OSError:
        return LAST
