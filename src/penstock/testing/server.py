"""A real broker inside a test's process, on a thread of its own.

    with PenstockServer() as broker:
        Producer({"bootstrap.servers": broker.kafka})
        boto3.client("sqs", endpoint_url=broker.sqs_url, …)
        penstock.connect(broker.url)

It is the broker that `penstock serve` runs, with its ports, its log and its threads; only its loop
runs on a thread beside the test, and its data may be in memory. It takes about a tenth of a second
to start. Signals, logging and the collector of garbage are left to the test's process.

The broker's code is imported when one is made: `penstock.testing` is also there for tests that need
none.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock.core.clock import Clock
from penstock.core.errors import LocalError, Unavailable
from penstock.core.limits import GIB
from penstock.storage.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from penstock.server.server import Places, Server

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
MEMORY_BYTES_MAX = 1 * GIB
TICK = "20ms"
"""A broker that is alone waits for no other, and a test should not wait for its ticks."""


class PenstockServer:
    """A broker that runs from `start` to `stop`, or as long as a `with` block."""

    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        kafka_port: int = 0,
        http_port: int = 0,
        clock: Clock | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Without `data`, everything is in memory and ends with the broker. A port of 0 is any
        that is free. A `clock` may be moved by hand. `settings` go by the names they have in the
        configuration: `{"topics.partitions_default": 1}`."""
        from penstock.testing.broker_settings import load_settings  # noqa: PLC0415

        chosen: dict[str, object] = {
            "data": "memory" if data is None else os.fspath(data),
            "kafka": f"127.0.0.1:{kafka_port}",
            "http": f"127.0.0.1:{http_port}",
            "raft.tick": TICK,
        }
        self._loaded = load_settings({**chosen, **(settings or {})})
        self._disk = MemoryDisk(capacity_bytes=MEMORY_BYTES_MAX) if data is None else None
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._ready: concurrent.futures.Future[Places] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()

    # Where it is.

    @property
    def places(self) -> "Places":
        """All addresses of the broker."""
        if not self._ready.done():
            raise LocalError("the broker is not started yet: use it in a `with` block")
        return self._ready.result()

    @property
    def kafka(self) -> str:
        """The bootstrap address for Kafka clients."""
        return self.places.kafka

    @property
    def url(self) -> str:
        """The URL for `penstock.connect`."""
        return f"penstock://{self.places.kafka}"

    @property
    def http_url(self) -> str:
        """The address of the HTTP port: health, metrics, API and dashboard."""
        return f"http://{self.places.http}"

    @property
    def sqs_url(self) -> str:
        """The endpoint URL for SQS clients."""
        if not self.places.sqs:
            raise LocalError("this broker does not serve SQS: leave sqs.enabled as it is")
        return self.places.sqs

    # Life.

    def start(self) -> "PenstockServer":
        """Return when it serves; raises what makes that impossible."""
        assert self._thread is None, "a broker is started once; make another one"
        self._thread = threading.Thread(target=self._run, name="penstock-server", daemon=True)
        self._thread.start()
        either: list[concurrent.futures.Future[Any]] = [self._ready, self._ended]
        concurrent.futures.wait(
            either, START_SECONDS_MAX, return_when=concurrent.futures.FIRST_COMPLETED
        )
        if self._ended.done():
            self._ended.result()
            raise Unavailable("the broker stopped before it served")
        if not self._ready.done():
            self.stop()
            raise Unavailable(f"the broker did not serve within {START_SECONDS_MAX:.0f} s")
        return self

    def stop(self) -> None:
        """Stop in good order; harmless the second time. Raises what ended the broker before."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._server is not None and not self._ended.done():
            with contextlib.suppress(RuntimeError):  # It has just ended by itself.
                self._loop.call_soon_threadsafe(self._server.stop)
        thread.join(STOP_SECONDS_MAX)
        if thread.is_alive():
            raise Unavailable(f"the broker did not stop within {STOP_SECONDS_MAX:.0f} s")
        self._ended.result()

    def __enter__(self) -> "PenstockServer":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised where it was started or is stopped
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        from penstock.server.server import Server  # noqa: PLC0415

        self._loop = asyncio.get_running_loop()
        self._server = Server(
            self._loaded,
            on_ready=self._ready.set_result,
            guest=True,
            disk=self._disk,
            clock=self._clock,
        )
        await self._server.run()
