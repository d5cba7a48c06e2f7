"""Telling the cluster how a pipeline is doing: see `core.pipeline_report`.

A report is sent when a state changes and now and then in between. A broker that is away does not
stop a pipeline: its stages notice themselves, and what could not be said is said the next time.
"""

import time

import msgspec

from penstock.core.errors import PenstockError
from penstock.core.pipeline_report import TOPIC, PipelineReport
from penstock.spark.connections import client_of, run

INTERVAL_SECONDS = 1.0
IDLE_SECONDS = 10.0
"""A pipeline without work says at least this often that it lives."""
SEND_SECONDS_MAX = 3.0


class Reporter:
    """Sends the reports of one run."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sent: PipelineReport | None = None
        self._sent_at = 0.0

    def tell(self, report: PipelineReport, *, at_once: bool = False) -> None:
        """Send a report, if it is time to."""
        now = time.monotonic()
        waited = now - self._sent_at
        new = self._sent is None or _said(self._sent) != _said(report)
        if not at_once and waited < (INTERVAL_SECONDS if new else IDLE_SECONDS):
            return
        self._sent_at = now
        try:
            topic = client_of(self._url).topic(TOPIC)
            body = msgspec.json.encode(report)
            run(topic.send(body, key=report.pipeline), SEND_SECONDS_MAX)
            self._sent = report
        except PenstockError:
            self._sent = None


def _said(report: PipelineReport) -> tuple[object, ...]:
    return (report.state, report.stages)
