"""Addresses for the processes of a test, free of what runs beside it.

Linux answers on every address of 127.0.0.0/8. Each cluster takes a block of 256 of them for itself,
so that ports can be fixed beforehand: a node that is killed finds its ports free when it comes
back, and tests that run at the same time never meet. A block is claimed by a name in the abstract
namespace of sockets, which the kernel forgets when the process ends, however it ends.
"""

import atexit
import itertools
import os
import socket
from dataclasses import dataclass

FIRST_PORT = 20_000
_BLOCKS_MAX = 64 << 8
_claims: list[socket.socket] = []
_numbers = itertools.count(os.getpid() * 37)


@dataclass(frozen=True)
class Block:
    """The addresses 127.x.y.0 to 127.x.y.255."""

    number: int

    def host(self, node: int) -> str:
        assert 0 <= node < 255, f"a block has no address for {node}"
        return f"127.{64 + (self.number >> 8)}.{self.number & 255}.{node}"

    def port(self, number: int) -> int:
        return FIRST_PORT + number


def free_block() -> Block:
    """A block that nobody uses; each call returns another one."""
    for attempt in itertools.islice(_numbers, _BLOCKS_MAX):
        number = attempt % _BLOCKS_MAX
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0penstock-addresses-{number}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return Block(number)
    raise AssertionError("every block of addresses is taken")


@atexit.register
def _release() -> None:
    for claim in _claims:
        claim.close()
