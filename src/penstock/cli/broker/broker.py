"""A broker in this process, until it is stopped; what `penstock serve` and `penstock dev` share."""

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.core.errors import DiskFailed
from penstock.server.sources import LoadedConfig

if TYPE_CHECKING:
    from penstock.server.server import Places, Server


def run_broker(
    loaded: LoadedConfig, *, on_ready: Callable[["Places"], None] = lambda _places: None
) -> int:
    """Run a broker until it is stopped; on uvloop where it is to be had."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with _loading():
        from penstock.server.logs import configure_logs
        from penstock.server.server import Server

        if sys.platform == "linux":
            import uvloop

            factory = uvloop.new_event_loop
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    configure_logs(loaded.config.log, colour=colour)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_run(lambda: Server(loaded, on_ready=on_ready)))
    return 0


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """Suspend garbage collection while modules are loaded, and exempt the loaded objects from it
    afterwards: they stay until the process ends."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


async def _run(make: Callable[[], "Server"]) -> None:
    try:
        await make().run()
    except OSError as error:
        raise DiskFailed(f"the broker cannot go on: {error}") from error
