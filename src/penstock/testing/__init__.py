"""Test tools that ship with Penstock: the fakes its own tests and simulator run on."""

from penstock.testing.clock import ManualClock
from penstock.testing.disk import FaultyDisk, PowerCut
from penstock.testing.page_cache import CrashReport

__all__ = ["CrashReport", "FaultyDisk", "ManualClock", "PowerCut"]
