"""Fetches that wait for messages: which of them are woken, and how many look in a turn of the loop.

An append wakes every fetch that waits for its partition, and each looks and reads. Two rules bound
what one append costs, whatever clients send:

- Answers of a connection leave in the order of its requests, so only the oldest of its waiting
  fetches is woken. The next one looks when the oldest has been answered; Kafka, too, looks at one
  request of a connection at a time.
- So many fetches look in one turn of the loop; the others follow in the next turns, in the order in
  which they were woken. A connection has one fetch in that queue, and none can fill it.
"""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from penstock.core.limits import KAFKA_LOOKS_PER_TURN
from penstock.kafka.turn_queue import TurnQueue

if TYPE_CHECKING:
    from penstock.kafka.connection import Connection


class ParkedFetch(Protocol):
    def lead(self) -> None:
        """It is the oldest of its connection now: to be woken, and to look soon."""


class ParkedFetches:
    """Of one port."""

    def __init__(self) -> None:
        self._by_connection: dict[Connection, deque[ParkedFetch]] = {}
        self.looks = TurnQueue(KAFKA_LOOKS_PER_TURN)

    def __len__(self) -> int:
        return sum(map(len, self._by_connection.values()))

    def park(self, connection: "Connection", fetch: ParkedFetch) -> bool:
        """It begins to wait; whether it is the oldest of its connection."""
        waiting = self._by_connection.get(connection)
        if waiting is None:
            self._by_connection[connection] = deque((fetch,))
            return True
        waiting.append(fetch)
        return False

    def leave(self, connection: "Connection", fetch: ParkedFetch) -> None:
        """It waits no more."""
        waiting = self._by_connection[connection]
        if waiting[0] is not fetch:
            waiting.remove(fetch)
            return
        waiting.popleft()
        if waiting:
            waiting[0].lead()
        else:
            del self._by_connection[connection]
