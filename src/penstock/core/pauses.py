"""How long to wait before looking again at something that is mostly there in a moment.

The first pauses are short, so that nobody loses time who need not wait; later ones grow, so that
whoever waits long costs nothing.
"""

from collections.abc import Iterator

SHORTEST_SECONDS = 0.001


def growing_pauses(longest_seconds: float) -> Iterator[float]:
    """Pauses without end, each twice as long as the one before, up to the longest."""
    pause = min(SHORTEST_SECONDS, longest_seconds)
    while True:
        yield pause
        pause = min(2 * pause, longest_seconds)
