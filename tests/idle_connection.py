"""A connection that has an account with the memory budget, and nothing to send or receive."""


class IdleConnection:
    def moved_bytes(self) -> int | None:
        return None

    def evict(self, reason: str) -> None:
        raise AssertionError(reason)
