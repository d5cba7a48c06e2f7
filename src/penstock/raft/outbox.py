"""What is to be said, and which of it has to wait for the disk.

A promise is a message that would be a lie after a crash: an acknowledgement of entries, a vote, a
request for votes in a term we might forget. It leaves when everything that was to be written when
it was made is durable (Raft §3.8). Three cases, decided when a `Ready` is
taken:

- This `Ready` has something to persist: the promise rides in it, and the caller sends it after.
- Nothing new, but an earlier write is still under way: it is held until that is reported durable.
- Nothing is under way: it is an ordinary message.

One more rule makes the rest easy to reason about: no message leaves with a term that is not
durable. `RaftState.send` keeps it, by turning everything into a promise while the hard state is
not on disk."""

from collections import deque

from penstock.raft.messages import AnyMessage


class Outbox:
    """Messages and promises between the moment they are made and the `Ready` that takes them."""

    __slots__ = ("_held", "_messages", "_promises", "durable", "sequence")

    def __init__(self) -> None:
        self._messages: list[AnyMessage] = []
        self._promises: list[AnyMessage] = []
        self._held: deque[tuple[int, AnyMessage]] = deque()
        self.sequence = 0
        """Of the newest Ready that had something to persist."""
        self.durable = 0
        """Of the newest one that has been persisted."""

    @property
    def empty(self) -> bool:
        return not (self._messages or self._promises)

    def send(self, message: AnyMessage) -> None:
        """Say this at once."""
        self._messages.append(message)

    def promise(self, message: AnyMessage) -> None:
        """Say this when all that stands now is durable."""
        self._promises.append(message)

    def take(self, *, must_persist: bool) -> tuple[tuple[AnyMessage, ...], tuple[AnyMessage, ...]]:
        """The messages and the promises of a Ready. One that persists uses `sequence + 1`."""
        promises: tuple[AnyMessage, ...] = ()
        if self._promises:
            if must_persist:
                promises = tuple(self._promises)
            elif self.durable < self.sequence:
                self._held.extend((self.sequence, promise) for promise in self._promises)
            else:
                self._messages.extend(self._promises)
            self._promises.clear()
        if must_persist:
            self.sequence += 1
        messages = tuple(self._messages)
        self._messages.clear()
        return messages, promises

    def persisted(self, sequence: int) -> None:
        """Everything up to this Ready is durable: what was held for it may go."""
        assert self.durable < sequence <= self.sequence, (
            f"persisted {sequence}, known {self.durable}, issued {self.sequence}"
        )
        self.durable = sequence
        while self._held and self._held[0][0] <= sequence:
            self._messages.append(self._held.popleft()[1])
