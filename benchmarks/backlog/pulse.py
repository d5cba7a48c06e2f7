"""How long a broker keeps somebody waiting who asks for next to nothing: its longest silence.

A thread asks `/livez`, which is answered by the event loop that does everything else, over and over
again. What it waits for is the loop; the rest takes a fraction of a millisecond.
"""

import http.client
import threading
import time
from types import TracebackType

from benchmarks.report import quantile

_EVERY_SECONDS = 0.005
_ANSWER_WITHIN_SECONDS = 120.0


class Pulse:
    """Asks as long as the `with` block lasts."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._end = threading.Event()
        self._waits: list[float] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)

    @property
    def worst_seconds(self) -> float:
        return max(self._waits, default=0.0)

    @property
    def p99_seconds(self) -> float:
        return quantile(self._waits, 0.99) if self._waits else 0.0

    def __enter__(self) -> "Pulse":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join(_ANSWER_WITHIN_SECONDS)

    def _ask(self) -> None:
        line = http.client.HTTPConnection(self._host, timeout=_ANSWER_WITHIN_SECONDS)
        while not self._end.is_set():
            began = time.perf_counter()
            try:
                line.request("GET", "/livez")
                line.getresponse().read()
            except (OSError, http.client.HTTPException):
                line.close()
            else:
                self._waits.append(time.perf_counter() - began)
            self._end.wait(_EVERY_SECONDS)
        line.close()
