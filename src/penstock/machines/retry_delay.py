"""How long a message that failed waits for its next delivery."""

from penstock.core.checksum import crc32c
from penstock.core.queue_rules import Retry, WorkRules
from penstock.core.types import Offset

_DOUBLINGS_MAX = 40


def retry_delay_ms(rules: WorkRules, deliveries: int, offset: Offset) -> int:
    """How long a message waits after its n-th delivery failed. Nothing is drawn: the jitter comes
    from the message's place and its count, so every replica finds the same. Messages that were
    leased together and fail together are one to it, by the first one's place."""
    base = rules.retry_ms
    match rules.retry:
        case Retry.NONE:
            return 0
        case Retry.FIXED:
            return min(base, rules.retry_max_ms)
        case Retry.LINEAR:
            return min(base * deliveries, rules.retry_max_ms)
        case Retry.EXPONENTIAL:
            return min(_doubled(base, deliveries - 1), rules.retry_max_ms)
        case Retry.JITTERED:
            longest = min(_doubled(base, deliveries), rules.retry_max_ms)
            shortest = min(max(base, longest * 3 // 8), longest)
            chance = crc32c(f"{offset}:{deliveries}".encode())
            return shortest + chance % (longest - shortest + 1)


def _doubled(base: int, times: int) -> int:
    return base << min(max(times, 0), _DOUBLINGS_MAX)
