"""The log of one shard on disk: see `storage.log`."""

from penstock.storage.cleaner import CompactionPolicy
from penstock.storage.disk import Disk, File, Lock, RealDisk
from penstock.storage.identity import Identity
from penstock.storage.incoming_snapshot import Incoming
from penstock.storage.job import Job, LogJob, Step, run
from penstock.storage.log import ShardLog
from penstock.storage.quarantine import Quarantine
from penstock.storage.read_plan import ReadPlan
from penstock.storage.settings import LogSettings
from penstock.storage.snapshots import NewSnapshot
from penstock.storage.statistics import LogStatistics

__all__ = [
    "CompactionPolicy",
    "Disk",
    "File",
    "Identity",
    "Incoming",
    "Job",
    "Lock",
    "LogJob",
    "LogSettings",
    "LogStatistics",
    "NewSnapshot",
    "Quarantine",
    "ReadPlan",
    "RealDisk",
    "ShardLog",
    "Step",
    "run",
]
