"""Decoding into classes from several threads."""

import subprocess
import sys

import msgspec
import pytest

from penstock.core.decoders import decode_json, decode_msgpack

SCRIPT = """
import sys, threading
import msgspec
from penstock.core.decoders import decode_msgpack

sys.setswitchinterval(1e-6)
for number in range(300):
    class B(msgspec.Struct, array_like=True):
        x: int
        y: int

    class C(msgspec.Struct, array_like=True):
        x: int
        b: B

    class A(msgspec.Struct, array_like=True):
        a: int
        b: B
        c: C
        d: str

    together = threading.Barrier(4)

    def decode():
        together.wait()
        assert decode_msgpack(data, A).c.b.y == 4

    data = msgspec.msgpack.encode([0, [1, 2], [3, [3, 4]], "x"])
    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("alive")
"""


class Pair(msgspec.Struct):
    one: int
    other: str = ""


def test_what_is_decoded_is_what_msgspec_decodes() -> None:
    assert decode_json(b'{"one": 1}', Pair) == Pair(1)
    assert decode_msgpack(msgspec.msgpack.encode(Pair(2, "x")), Pair) == Pair(2, "x")
    with pytest.raises(msgspec.ValidationError):
        decode_json(b'{"one": "x"}', Pair)


def test_threads_that_meet_a_class_together_survive() -> None:
    """Without the lock the process dies of it within some hundred classes."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
