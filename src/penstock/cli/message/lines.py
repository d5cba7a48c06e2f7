"""The lines of a file or a pipe, in blocks, with bounded memory.

    file  ──read──▶  blocks, a few ahead  ──split──▶  lists of whole lines  ──▶  send_many

A thread of its own reads, because reading may block for as long as a person thinks, and the loop
has messages to send meanwhile. It is a daemon and reads the descriptor itself: a program that is
asked to end does not wait for a line that never comes. Each block becomes one list of lines, as
soon as it is there, so that what trickles in is sent at once and what pours in is sent by
thousands.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import AsyncIterator

from penstock.core.errors import LocalError
from penstock.core.limits import MIB

BLOCK_BYTES = MIB
BLOCKS_AHEAD = 2
LOOK_SECONDS = 0.5
"""The interval at which the thread checks that the loop still runs."""
LINE_BYTES_MAX = 64 * MIB
"""No message is as long; it bounds what an input without any line end can take."""


async def read_blocks(descriptor: int) -> AsyncIterator[bytes]:
    """Read a descriptor to its end, a few blocks ahead."""
    loop = asyncio.get_running_loop()
    blocks: asyncio.Queue[bytes | OSError] = asyncio.Queue(BLOCKS_AHEAD)
    thread = threading.Thread(
        target=_feed, args=(descriptor, blocks, loop), name="penstock-lines", daemon=True
    )
    thread.start()
    while True:
        block = await blocks.get()
        if isinstance(block, OSError):
            raise LocalError(f"the input cannot be read: {block.strerror}") from block
        if not block:
            return
        yield block


def _feed(
    descriptor: int,
    blocks: asyncio.Queue[bytes | OSError],
    loop: asyncio.AbstractEventLoop,
) -> None:
    block: bytes | OSError = b"\0"
    while block and not isinstance(block, OSError):
        try:
            block = os.read(descriptor, BLOCK_BYTES)
        except OSError as error:
            block = error
        if not _hand_over(blocks, block, loop):
            return


def _hand_over(
    blocks: asyncio.Queue[bytes | OSError], block: bytes | OSError, loop: asyncio.AbstractEventLoop
) -> bool:
    """Give the loop a block, and wait for room; False if the loop has ended, and with it the task
    that would have wanted this."""
    waiting = blocks.put(block)
    try:
        handed_over = asyncio.run_coroutine_threadsafe(waiting, loop)
        while True:
            with contextlib.suppress(TimeoutError):
                handed_over.result(LOOK_SECONDS)
                return True
            if loop.is_closed():  # It ended before it came to this.
                break
    except (concurrent.futures.CancelledError, asyncio.CancelledError, RuntimeError):
        pass
    # Closing a coroutine that runs elsewhere is refused, and then there is nothing to close.
    with contextlib.suppress(RuntimeError, ValueError):
        waiting.close()
    return False


async def split_lines(
    blocks: AsyncIterator[bytes], delimiter: bytes = b"\n"
) -> AsyncIterator[list[bytes]]:
    """Whole lines without their ends, a list for every block that has some. A last line without an
    end is one too; an end at the very end begins none."""
    rest: list[bytes] = []
    size = 0
    async for block in blocks:
        lines = block.split(delimiter)
        if len(lines) == 1:
            rest.append(block)
            size += len(block)
            if size > LINE_BYTES_MAX:
                raise LocalError(
                    f"a line has more than {LINE_BYTES_MAX >> 20} MiB, and no message may;"
                    " messages are parted by line ends, or by zero bytes with --null-delimited"
                )
            continue
        if rest:
            lines[0] = b"".join([*rest, lines[0]])
        last = lines.pop()
        rest, size = ([last], len(last)) if last else ([], 0)
        yield lines
    if rest:
        yield [b"".join(rest)]
