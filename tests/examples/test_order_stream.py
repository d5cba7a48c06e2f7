"""The demo: what must become of each order, and the whole of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.order_stream.orders import body_of, complaints, expected, is_bad, key_of
from tests.house.sources import ROOT

COUNT = 400


def test_every_way_of_being_bad_is_there_and_every_order_is_known_by_its_key() -> None:
    bad = [body_of(number) for number in range(COUNT) if is_bad(number)]
    assert len(bad) == 10
    assert any(not body.endswith(b"}") for body in bad)
    assert any(b'"pieces": -1' in body for body in bad)
    assert any(b'"sku": "X-' in body for body in bad)
    assert any(b"sku" not in body for body in bad)
    shipped, refused = expected(COUNT)
    assert len(shipped) + len(refused) == COUNT
    assert not shipped & refused


def test_the_proof_finds_what_is_lost_doubled_or_misplaced() -> None:
    shipped, refused = expected(COUNT)
    everything = shipped | refused
    assert complaints(COUNT, lake=everything, shipped=shipped, refused=refused) == []
    first = key_of(0)
    (lost,) = complaints(COUNT, lake=everything, shipped=shipped - {first}, refused=refused)
    assert lost == f"1 are missing in the shipped orders: {first}"
    (twice,) = complaints(COUNT, lake=[*everything, first], shipped=shipped, refused=refused)
    assert twice == f"1 too many in the lake: {first}"
    (odd,) = complaints(COUNT, lake=everything, shipped=shipped, refused=refused | {first})
    assert odd == f"1 should not be in the refused orders: {first}"


@pytest.mark.soak
def test_the_demo_accounts_for_every_order(tmp_path: Path) -> None:
    """It has two JVMs to start, and brokers and workers beside them."""
    out = tmp_path / "demo"
    done = subprocess.run(
        [
            sys.executable, "-m", "examples.order_stream",
            "--orders", "600", "--per-second", "60", "--out", str(out),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "600 orders = 585 shipped + 15 refused, each exactly once" in done.stdout
    for picture in ("orders.png", "dead-letters.png"):
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
