"""TCP keepalive: a client whose machine has gone without a word is found out by the system."""

import asyncio
import socket
from typing import Final

IDLE_SECONDS: Final = 60
INTERVAL_SECONDS: Final = 10
PROBES_MAX: Final = 6


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the system probe a connection that is silent."""
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL_SECONDS)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES_MAX)
