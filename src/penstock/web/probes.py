"""Probes: is the broker alive, started, ready? Answered without an ASGI application, from what the
process knows, so that they can be answered beside every bound of the HTTP port.

    /livez             the loop turns; never looks outside
    /startupz          the log is recovered, the node is in its cluster
    /readyz, /healthz  requests are served; 503 with a list of what is wrong. Warnings, such as a
                       full disk, do not count: consumers must reach the broker to make room
"""

from typing import Final

import msgspec

from penstock.core.clock import precise_seconds
from penstock.core.request_times import RequestTimes
from penstock.web.answers import SAFE_HEADERS
from penstock.web.broker import Broker, Phase

PROBE_PATHS: Final = ("/livez", "/startupz", "/readyz", "/healthz")
_HEADER_LINES: Final = b"Content-Type: application/json\r\n" + b"".join(
    f"{name}: {value}\r\n".encode() for name, value in SAFE_HEADERS.items()
)


class ProbeAnswer(msgspec.Struct, frozen=True):
    """The status, headers and body of a probe's answer."""

    status: int
    body: bytes
    header_lines: bytes = _HEADER_LINES


class Probes:
    """Answers the probes of one broker."""

    def __init__(self, broker: Broker, times: RequestTimes) -> None:
        self._broker = broker
        self._times = times

    def answer(self, raw_path: bytes) -> ProbeAnswer | None:
        """None: the path is no probe's."""
        if raw_path == b"/" or len(raw_path) > len("/startupz"):
            return None
        path = raw_path.decode("latin-1")
        if path not in PROBE_PATHS:
            return None
        began = precise_seconds()
        document = verdict(self._broker, path)
        status = 503 if document.get("problems") else 200
        name = f"GET {path}"
        self._times.observe(name, precise_seconds() - began)
        if status != 200:
            self._times.error(name, str(status))
        return ProbeAnswer(status, msgspec.json.encode(document) + b"\n")


def verdict(broker: Broker, path: str) -> dict[str, object]:
    """The answer to a probe: with `problems`, the node is not live, started or ready."""
    if path == "/livez":
        return {"live": True}
    if path == "/startupz":
        problems = [] if broker.node is not None else broker.problems() or ["it is starting"]
        return {"started": not problems, "problems": problems}
    problems = broker.problems()
    if broker.phase is not Phase.SERVING and not problems:
        problems = [f"it is {broker.phase.value}"]
    return {"ready": not problems, "problems": problems, "warnings": broker.warnings()}
