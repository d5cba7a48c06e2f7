"""Taking the HTTP port. By itself, because it is done long before anything is loaded that could
answer there."""

import asyncio
import socket

BACKLOG = 1_024


async def bind(host: str, port: int) -> socket.socket:
    """A listening socket; connections wait in its backlog until they are accepted. Raises OSError
    if the address is in use or does not exist."""
    family, kind, protocol, _, place = (
        await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound
