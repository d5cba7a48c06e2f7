"""The settings of a shard's log."""

import msgspec

from penstock.core.limits import (
    BALLAST_BYTES,
    COMPACTION_JOB_BYTES,
    COMPACTION_KEYS_MAX,
    GIB,
    MIB,
    SEGMENT_BYTES,
    SEGMENT_REWRITE_LIVE_PERCENT_MAX,
)

INDEX_CACHE_BYTES = 16 * MIB
OPEN_FILES_MAX = 64
_SEGMENT_BYTES_MAX = 1 * GIB
"""Positions in a segment are 32 bits wide in its index."""


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one shard's log."""

    segment_bytes: int = SEGMENT_BYTES
    ballast_bytes: int = BALLAST_BYTES
    rewrite_live_percent_max: int = SEGMENT_REWRITE_LIVE_PERCENT_MAX
    index_cache_bytes: int = INDEX_CACHE_BYTES
    """Pages of side indexes kept in memory."""
    open_files_max: int = OPEN_FILES_MAX
    compaction_keys_max: int = COMPACTION_KEYS_MAX
    """Keys in memory during a round of compaction; more keys take more rounds."""
    compaction_job_bytes: int = COMPACTION_JOB_BYTES
    """The size of one compaction job."""

    def __post_init__(self) -> None:
        assert 1024 <= self.segment_bytes <= _SEGMENT_BYTES_MAX, f"{self.segment_bytes=}"
        assert self.ballast_bytes >= 0, f"{self.ballast_bytes=}"
        assert self.compaction_keys_max > 0, f"{self.compaction_keys_max=}"
        assert 0 <= self.rewrite_live_percent_max < 100, f"{self.rewrite_live_percent_max=}"
