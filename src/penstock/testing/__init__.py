"""Test tools that ship with Penstock: brokers and a clock for users' tests, and the fakes that its
own tests and simulator run on."""

from penstock.testing.clock import ManualClock
from penstock.testing.disk import FaultyDisk, PowerCut
from penstock.testing.local_cluster import LocalCluster
from penstock.testing.page_cache import CrashReport
from penstock.testing.server import PenstockServer

__all__ = [
    "CrashReport",
    "FaultyDisk",
    "LocalCluster",
    "ManualClock",
    "PenstockServer",
    "PowerCut",
]
