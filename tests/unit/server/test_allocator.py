"""Freed memory goes back to the system."""

from pathlib import Path

import pytest

from penstock.core.limits import KIB, MIB
from penstock.server.allocator import _TRIM, release_freed_memory

BLOCK = 64 * KIB
"""Small enough for the heap, and not a mapping of its own."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4 * KIB


@pytest.mark.skipif(_TRIM is None, reason="the C library has no malloc_trim")
def test_freed_blocks_between_used_ones_go_back() -> None:
    blocks = [bytes([1]) * BLOCK for _ in range(1_024)]
    used = blocks[::64]
    before = resident_bytes()
    del blocks
    release_freed_memory()
    assert resident_bytes() <= before - 32 * MIB
    assert len(used) == 16
