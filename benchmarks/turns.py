"""Progress, and the time a benchmark has: how many rounds fit into it.

A run of everything has fifteen minutes on two cores, and machines differ. So each benchmark has a
budget, and takes another round only if the longest round so far would still fit; one round is
always taken. What was left out shows in the title of its table, which names the rounds.
"""

import time
from collections.abc import Callable, Iterator

ENDLESS = float("inf")


class Progress:
    """Takes a line that says what is being done now, and knows how much time there is."""

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        seconds: float = ENDLESS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._clock = clock
        self._deadline = clock() + seconds

    def __call__(self, line: str) -> None:
        self._say(line)

    def turns(self, most: int) -> Iterator[int]:
        """1, 2, … as long as there is time, at most so many."""
        longest = 0.0
        for turn in range(1, most + 1):
            began = self._clock()
            if turn > 1 and began + longest > self._deadline:
                self._say(f"the time is used up after {turn - 1} of {most} rounds")
                return
            yield turn
            longest = max(longest, self._clock() - began)
