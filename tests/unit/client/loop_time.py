"""Deadlines of a client by the time of a manual loop.

The client counts them from `timer.fresh_time`, the time that a real loop's is a reading of. Under a
loop whose time is moved by the test there would be two clocks."""

import sys

import pytest

from penstock.client.connection import timer
from tests.manual_loop import manual_loop


def _loop_time() -> float:
    return manual_loop().time()


def count_by_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """For clients that are made, and work, until the patch is undone."""
    monkeypatch.setattr(timer.Alarm.__init__, "__defaults__", (_loop_time,))
    for name, module in list(sys.modules.items()):
        if name.startswith("penstock.") and "fresh_time" in vars(module):
            monkeypatch.setattr(module, "fresh_time", _loop_time)
