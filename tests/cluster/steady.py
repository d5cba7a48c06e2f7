"""A client that works in a thread of its own until it is told to stop."""

import threading
from collections import Counter


class SteadyClient(threading.Thread):
    """Subclasses say what one does; whatever goes wrong in there is raised where it is joined."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.errors: Counter[str] = Counter()
        """What the client was told and could not get over by itself, by name."""
        self._stop_asked = threading.Event()
        self._fault: BaseException | None = None

    @property
    def stopping(self) -> bool:
        return self._stop_asked.is_set()

    def stop(self) -> None:
        """Begin nothing more; `join` waits for what is under way."""
        self._stop_asked.set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as fault:  # noqa: BLE001 - told to whoever joins
            self._fault = fault

    def work(self) -> None:
        """Until `stopping`."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise what went wrong so far."""
        if self._fault is not None:
            raise self._fault

    def join(self, timeout: float | None = 120) -> None:
        super().join(timeout)
        assert not self.is_alive(), f"{self.name} does not end"
        self.check()
