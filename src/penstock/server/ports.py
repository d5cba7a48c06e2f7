"""Ports: checks that one is free, and the error if it is not.

A port is tried before anything is opened, so that a broker that could not serve anyway fails at
once and in one sentence. Another program may still take it in between; then the real attempt fails
with the same sentence.
"""

import errno
import socket

from penstock.core.errors import LocalError
from penstock.server.notation import Address


def is_free(address: Address) -> bool:
    """True if the address is free. Raises OSError if it cannot be bound at all."""
    try:
        _bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    return True


def check_free(name: str, address: Address) -> None:
    """Raise `LocalError` if a setting names a place that is not to be had."""
    try:
        _bind(address)
    except OSError as error:
        raise refusal(name, address, error) from error


def is_about_place(error: OSError) -> bool:
    """The error says that the place is not to be had, and not something else."""
    numbers = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
    return isinstance(error, socket.gaierror) or error.errno in numbers


def refusal(name: str, address: Address, error: OSError) -> LocalError:
    """The error message for an address that cannot be bound."""
    if isinstance(error, socket.gaierror):
        problem = f"there is no host {address.host}"
    elif error.errno == errno.EADDRINUSE:
        problem = "another program listens there; stop it, or choose another port (0: any)"
    elif error.errno == errno.EADDRNOTAVAIL:
        problem = "this machine does not have that address"
    elif error.errno == errno.EACCES:
        problem = "it is not allowed; ports below 1024 need privileges"
    else:
        problem = error.strerror or str(error)
    return LocalError(f"cannot listen at {name} = {address}: {problem}")


def _bind(address: Address) -> None:
    # As bytes: for a text, Python loads what it takes to write names of hosts in other alphabets.
    host = address.host.encode("ascii")
    found = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, place = found[0]
    with socket.socket(family, kind, protocol) as probe:
        # As the servers themselves do: a port that was closed a moment ago may be used again.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(place)
