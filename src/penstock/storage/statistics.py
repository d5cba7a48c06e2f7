"""The statistics of a log; read on request, so counting costs nothing."""

import msgspec

from penstock.core.types import Index


class LogStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the log was opened, and sizes now."""

    first_index: Index
    last_index: Index
    durable_index: Index
    snapshot_index: Index
    segments: int
    size_bytes: int
    staged_entries: int
    index_cache_bytes: int
    appended_records: int
    appended_bytes: int
    syncs: int
    rolls: int
    truncations: int
    rewritten_segments: int
    removed_segments: int
    reclaimed_bytes: int
    compaction_rounds: int
    compacted_segments: int
    compacted_bytes: int
    torn_bytes: int
    """Cut off as a torn tail when the log was opened."""
    full: bool
    poisoned: bool
    quarantined: bool
