"""Mutations of captured requests. The same generator and request give the same mutant."""

import base64
import random
import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
_NUMBERS = (0, 1, -1, 127, 128, 255, 32_767, -32_768, (1 << 31) - 1, -(1 << 31), 1 << 20, 1 << 24)
BYTES_MAX = 64 * 1024


@cache
def corpus(name: str) -> tuple[bytes, ...]:
    """The requests that real clients have sent, as `capture` has recorded them."""
    lines = (CORPUS / f"{name}.txt").read_text("ascii").split()
    return tuple(base64.b64decode(line) for line in lines)


def write_corpus(name: str, requests: Sequence[bytes]) -> None:
    """One line for each request, in a stable order."""
    lines = sorted(base64.b64encode(request).decode() for request in set(requests))
    (CORPUS / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "ascii")


def mutate(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A few changes, mostly one."""
    mutant = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _change(rng, mutant, others)
    return bytes(mutant[:BYTES_MAX])


def _change(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    if not data:
        data += rng.randbytes(4)
        return
    at = rng.randrange(len(data))
    match rng.randrange(10):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x0A, 0x22))
        case 2:
            data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 64)))
        case 3:
            del data[at : at + rng.choice((1, 2, 4, 16, 256))]
        case 4:
            data[at:at] = data[at : at + 64] * rng.choice((1, 2, 20))
        case 5:
            del data[at:]
        case 6:
            _put_number(rng, data, at)
        case 7:
            other = rng.choice(others)
            start = rng.randrange(len(other)) if other else 0
            data[at : at + 32] = other[start : start + rng.choice((4, 32, 300))]
        case 8:
            data[at : at + 5] = rng.choice((b"\xff\xff\xff\xff\x0f", b"\x80" * 5, b"\xff" * 5))
        case _:
            data[at:at] = rng.choice(
                (b"\0" * 40, b"9" * 30, b"\xed\xa0\x80", b"\r\n", b"%00", b"{[")
            )


def _put_number(rng: random.Random, data: bytearray, at: int) -> None:
    number = rng.choice(_NUMBERS)
    layout = rng.choice((">i", ">h", ">q", "<I"))
    size = struct.calcsize(layout)
    bits = 8 * size
    if layout == "<I":
        packed = struct.pack(layout, number % (1 << 32))
    else:
        packed = struct.pack(layout, (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
    data[at : at + size] = packed
