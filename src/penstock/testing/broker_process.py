"""A broker as a process of its own that does not outlive the test that started it.

    python -m penstock.testing.broker_process '{"data": "…", "kafka": "127.0.0.1:…", …}'

It is what `penstock serve` runs, with the settings of a test. Its standard input is a leash: when
the process at the other end is gone, however it ended, the broker ends. A signal at the parent's
death would not do: on Linux it comes when the *thread* ends that started the process, and elsewhere
not at all.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading

from penstock.core.decoders import decode_json
from penstock.core.errors import PenstockError
from penstock.server.logs import configure_logs
from penstock.server.server import Server
from penstock.server.sources import LoadedConfig
from penstock.testing.broker_settings import load_settings


def main() -> int:
    """Run until a signal, or the end of standard input."""
    loaded = load_settings(decode_json(sys.argv[1], dict[str, object]))
    configure_logs(loaded.config.log, colour=False)
    threading.Thread(target=_hold_leash, name="leash", daemon=True).start()
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(_serve(loaded))
    except PenstockError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


async def _serve(loaded: LoadedConfig) -> None:
    await Server(loaded).run()


def _hold_leash() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGKILL)


def _new_loop() -> asyncio.AbstractEventLoop:
    """On uvloop where it is to be had, as `penstock serve`."""
    try:
        import uvloop  # noqa: PLC0415 - it is not there on every system
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


if __name__ == "__main__":
    sys.exit(main())
