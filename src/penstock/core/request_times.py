"""Requests of one protocol: how long each kind takes, and which errors it is answered with.

One object for each front-end, one call for each request and none for each message. The time that a
client asked to wait for messages is no time that a request took: front-ends leave it out.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.core.histogram import Histogram, HistogramReading

KINDS_MAX: Final = 200
"""The number of kinds of requests that are timed separately; the others share one histogram."""
OTHER: Final = "other"


class RequestReading(msgspec.Struct, frozen=True):
    """The counts at one moment."""

    times: Mapping[str, HistogramReading]
    errors: Mapping[tuple[str, str], int]
    """By the kind of request and the name of the error."""


class RequestTimes:
    """Durations and errors of one front-end, by API."""

    __slots__ = ("_errors", "_times")

    def __init__(self) -> None:
        self._times: dict[str, Histogram] = {}
        self._errors: dict[tuple[str, str], int] = {}

    def observe(self, api: str, seconds: float) -> None:
        """A request was answered, well or not, after so long."""
        self.of(api).observe(seconds)

    def of(self, api: str) -> Histogram:
        """Return the histogram of one kind of request."""
        histogram = self._times.get(api)
        if histogram is None:
            histogram = self._begin(api)
        return histogram

    def error(self, api: str, name: str) -> None:
        """A request was answered with this error."""
        if api not in self._times:
            self._begin(api)
        known = api if api in self._times else OTHER
        self._errors[known, name] = self._errors.get((known, name), 0) + 1

    def _begin(self, api: str) -> Histogram:
        if len(self._times) >= KINDS_MAX:
            api = OTHER
        return self._times.setdefault(api, Histogram())

    def statistics(self) -> RequestReading:
        """Return a frozen copy."""
        times = {api: one.statistics() for api, one in self._times.items() if any(one.counts)}
        return RequestReading(times, dict(self._errors))
