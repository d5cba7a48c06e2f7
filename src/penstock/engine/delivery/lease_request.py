"""A lease that was asked for and is not granted yet.

To ask is a call and to wait is another, so that somebody can ask at the very moment messages are
being written: both then go to the disk together (see `waiting_room`). What is granted to somebody
who has gone meanwhile goes back.
"""

import asyncio
from collections.abc import Callable

from penstock.core.errors import PenstockError
from penstock.engine.replica.batcher import Promise
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.long_polls import Batch
from penstock.machines.machine import Refused, Reply, refusal_error
from penstock.machines.queue_commands import Acquire
from penstock.machines.queues import Acquired


class LeaseRequest:
    """`give_back` takes what nobody is there for any more."""

    def __init__(
        self,
        shard: Shard,
        command: Acquire,
        give_back: Callable[[Acquire, Acquired], None],
        batch: Batch | None = None,
    ) -> None:
        """`batch`: what is being written, if that is what it is about."""
        self.command = command
        self.batch = batch
        self._give_back = give_back
        self._granted: asyncio.Future[Acquired] = asyncio.get_running_loop().create_future()
        shard.submit(command, self._answer, Promise.COMMITTED)

    async def granted(self) -> Acquired:
        """What was leased; raises what the broker says against it."""
        try:
            return await self._granted
        except asyncio.CancelledError:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Whoever asked is gone."""
        if not self._granted.done():
            self._granted.cancel()
        elif not self._granted.cancelled() and self._granted.exception() is None:
            self._answer(self._granted.result())  # It was granted at the very moment he left.

    @property
    def got_some(self) -> bool:
        """It was granted, and not for nothing."""
        granted = self._granted
        if not granted.done() or granted.cancelled() or granted.exception() is not None:
            return False
        return bool(granted.result().runs)

    def on_answer(self, told: Callable[[], None]) -> None:
        """Call this when there is an answer, whatever it is."""
        self._granted.add_done_callback(lambda _: told())

    def _answer(self, reply: Reply | PenstockError) -> None:
        if self._granted.done():
            if isinstance(reply, Acquired) and reply.runs:
                self._give_back(self.command, reply)
        elif isinstance(reply, Acquired):
            self._granted.set_result(reply)
        elif isinstance(reply, Refused):
            self._granted.set_exception(refusal_error(reply))
        else:
            assert isinstance(reply, PenstockError), f"an acquire was answered with {reply}"
            self._granted.set_exception(reply)
