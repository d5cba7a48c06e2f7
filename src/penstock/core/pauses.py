"""Growing pauses for polling something that is usually there in a moment (exponential back-off).

The first pauses are short, so that a short wait stays short; later ones grow, so that a long wait
costs nothing.
"""

from collections.abc import Iterator

SHORTEST_SECONDS = 0.001


def growing_pauses(longest_seconds: float) -> Iterator[float]:
    """Pauses without end, each twice as long as the one before, up to the longest."""
    pause = min(SHORTEST_SECONDS, longest_seconds)
    while True:
        yield pause
        pause = min(2 * pause, longest_seconds)
