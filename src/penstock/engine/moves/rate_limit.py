"""A rate limit in operations per second.

Cost is paid afterwards, unlike with a token bucket: a caller that has done a hundred operations at
a limit of ten a second waits until ten seconds have passed since it began. Idle time earns no
burst.
"""

_SECOND_US = 1_000_000


class RateLimit:
    def __init__(self, rate: int) -> None:
        """`rate` is how many each second."""
        assert rate > 0, f"{rate} each second would never end"
        self._rate = rate
        self._free_us = 0

    def pay(self, count: int, *, began_ms: int, now_ms: int) -> int:
        """Count operations since `began_ms`; return the milliseconds to wait before the next."""
        began_us = max(self._free_us, began_ms * 1_000)
        self._free_us = began_us + count * _SECOND_US // self._rate
        return max(0, -(-(self._free_us - now_ms * 1_000) // 1_000))
