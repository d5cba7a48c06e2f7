"""What the soaks of Spark share: rows that are sent all the while, and what strikes came to."""

import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from penstock import blocking
from penstock.core.errors import OutcomeUnknown, Unavailable

PAUSE_SECONDS = 0.5
SEND_WITHIN_SECONDS = 60
END_WITHIN_SECONDS = 300.0


@dataclass
class StrikesOutcome:
    """What a time of strikes came to."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def describe(self) -> str:
        counted = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        verdict = "\n".join(self.complaints) or "everything is there exactly once"
        return f"seed {self.seed}, {self.seconds:.0f} s: {counted}\n{verdict}"


class Rows(threading.Thread):
    """Sends rows to a topic, each another, as long as it is let. What the log has of them is what
    counts: of a batch whose answer got lost some may be there."""

    def __init__(self, url: str, topic: str, per_second: int) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._topic = topic
        self._at_once = int(per_second * PAUSE_SECONDS)
        self._over = threading.Event()

    def run(self) -> None:
        number = 0
        with blocking.connect(self._url) as client:
            topic = client.topic(self._topic, codec=bytes)
            while not self._over.wait(PAUSE_SECONDS):
                bodies = [b"%d" % (number + row) for row in range(self._at_once)]
                number += len(bodies)
                with suppress(Unavailable, OutcomeUnknown):
                    topic.send_many(bodies, timeout=SEND_WITHIN_SECONDS)

    def finish(self) -> None:
        self._over.set()
        self.join(END_WITHIN_SECONDS)
