"""The messages of a queue as a worker gets them, for `penstock consume --lease, --ack, --release`.

    --ack       printed, flushed, then done for good
    --release   leased until all are printed, then given back: deliveries are counted
    neither     left leased; they come back when their leases end

With --release nothing is given back before the end, or the same messages would come again and again
until they are dead. So it ends when there are no more, and holds no more than `RELEASE_MAX`.
"""

import sys
from enum import Enum, auto

from penstock.cli.message.output import Output
from penstock.client.message import Message
from penstock.client.queue import Queue
from penstock.core.plurals import counted

WAIT_SECONDS = 10.0
"""The duration of one long poll when the command follows a queue."""
RELEASE_MAX = 10_000


class Fate(Enum):
    """The treatment of messages after they are printed."""

    ACK = auto()
    RELEASE = auto()
    LEASED = auto()


async def print_leased(
    queue: Queue[bytes], output: Output, *, fate: Fate, lease: float | None, follow: bool
) -> None:
    """Print messages of a queue until there are enough, or no more."""
    held: list[Message[bytes]] = []
    try:
        while not output.is_done:
            wait = WAIT_SECONDS if follow and fate is not Fate.RELEASE else 0.0
            messages = await queue.receive(output.wanted, wait=wait, lease=lease)
            if not messages and not follow:
                break
            if not messages and fate is Fate.RELEASE:
                break
            if fate is Fate.RELEASE:
                held += messages
            output.print(messages)
            if fate is Fate.ACK and messages:
                _tell_lost(len(messages) - await queue.ack(messages))
            if len(held) >= RELEASE_MAX:
                break
    finally:
        if held:
            _tell_lost(len(held) - await queue.release(held))
    if fate is Fate.LEASED and output.printed:
        verb, back = ("stays", "comes") if output.printed == 1 else ("stay", "come")
        print(
            f"{counted(output.printed, 'message')} {verb} leased and {back} back when that ends;"
            " --ack acknowledges, --release gives back",
            file=sys.stderr,
        )


def _tell_lost(count: int) -> None:
    if count:
        print(f"{count} of them were not leased to us any more", file=sys.stderr)
