"""The exceptions by which a worker function gives a verdict on its message.

A function that returns says "done". Everything else is said with an exception, so that a function
needs to know nothing about leases: three of them have a meaning of their own, and what all others
mean is the retry policy's business (see `penstock.workers.retry`).

    RetryLater(90)       not now: deliver it again in 90 seconds
    Reject("no such…")   never: it goes to the dead letters at once, with this reason
    NonRetryable         the same; a base class for errors of your own that no retry can cure
"""


class RetryLater(Exception):
    """Deliver the message again after a delay; by default that of the queue's retry policy.

    It counts as a delivery: a message that is put off for ever would never be noticed, so the
    queue's own bound (`deliveries_max`) goes on counting."""

    def __init__(self, delay: float | None = None, reason: str = "") -> None:
        super().__init__(reason or "the worker asked for a later delivery")
        self.delay = None if delay is None else max(0.0, delay)


class NonRetryable(Exception):
    """An error that the same message will meet every time. Derive your own from it."""


class Reject(NonRetryable):
    """The message can never be done. The reason stands in the dead-letter queue beside it."""

    def __init__(self, reason: str = "rejected by the worker") -> None:
        super().__init__(reason)
        self.reason = reason
