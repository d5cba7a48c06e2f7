"""The report that a running pipeline sends to the cluster, and where it is kept.

A pipeline's runner sends its report to the topic `__pipelines`, under the pipeline's name. The
topic is compacted: the last report of each pipeline stays, also when the pipeline does not run any
more or was killed, and every node can show it. Nothing else is kept about pipelines in a cluster.
"""

import msgspec

TOPIC = "__pipelines"
CONFIGS = {
    "cleanup.policy": "compact",
    "max.compaction.lag.ms": "600000",
}
"""Reports are many and small, and only the last counts: old ones go within minutes."""
SILENT_MS = 30_000
"""A pipeline that runs and has said nothing for this long is probably dead."""
ERROR_CHARACTERS_MAX = 1_000


class StageReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one stage after its last micro-batch. Counts are those of this run."""

    stage: str
    state: str
    """waiting, running, done, restarting, failed or stopped."""
    source: str
    """The topic or queue that it reads."""
    target: str
    rows_in: int = 0
    rows_out: int = 0
    rows_dead: int = 0
    rate: float = 0.0
    """Rows a second, read by the last batch that read any."""
    lag: int | None = None
    """Rows not read yet; None if unknown."""
    batches: int = 0
    batch_ms: int = 0
    restarts: int = 0
    error: str = ""
    """The last error."""


class PipelineReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of all stages of one run."""

    pipeline: str
    state: str
    """running, done, stopped or failed."""
    host: str
    """The host it runs on."""
    started_ms: int
    reported_ms: int
    stages: tuple[StageReport, ...]

    def state_at(self, now_ms: int) -> str:
        """The state; `silent` if it is running and has not reported for too long."""
        if self.state == "running" and now_ms - self.reported_ms > SILENT_MS:
            return "silent"
        return self.state
