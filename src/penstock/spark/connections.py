"""The clients of this process: one event loop on one thread, one client for each address.

Spark calls a source and a sink from plain threads, in many processes: the driver's planner, and
workers that are forked, used for one task after another, and killed without a word. All of them use
what is here. Calls to a broker run on that loop:

    client = client_of("penstock://127.0.0.1:9092")
    names = run(client.topics())

A client stays connected until the process ends, so a task costs no handshake. A forked child has
its parent's memory and not its threads: it begins anew, and leaves its parent's sockets alone.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from penstock.client.blocking.loop_thread import LoopThread, close_at_exit
from penstock.client.client import Client
from penstock.core.errors import DeadlinePassed, OutcomeUnknown, Unavailable
from penstock.embedded.connector import connect

T = TypeVar("T")

CLIENTS_MAX: Final = 64
"""Of one process. A program with more clusters than this has a leak."""


class _Connections:
    """The loop of this process and its clients, made when they are first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}
        self._thread: LoopThread | None = None
        self._clients: dict[str, Client] = {}

    def thread(self) -> LoopThread:
        with self._lock:
            if self._thread is None or self._thread.is_closed():
                self._thread = LoopThread()
                self._clients.clear()
                close_at_exit(self.close)
            return self._thread

    def client(self, url: str) -> Client:
        thread = self.thread()
        with self._lock:
            found = self._clients.get(url)
            opening = self._opening.setdefault(url, threading.Lock())
        if found is not None:
            return found
        with opening:
            with self._lock:
                found = self._clients.get(url)
                if found is not None:
                    return found
                if len(self._clients) >= CLIENTS_MAX:
                    raise Unavailable(f"this process talks to {CLIENTS_MAX} clusters already")
            client = connect(url)
            try:
                thread.run(client.open())
            except (Unavailable, OutcomeUnknown) as error:
                raise Unavailable(
                    f"no broker answers at {url} ({error}): start one there (`penstock serve`), or"
                    " correct the option kafka.bootstrap.servers"
                ) from error
            with self._lock:
                self._clients[url] = client
        return client

    def close(self) -> None:
        """The process ends, or a test is over: disconnect. The next call connects anew."""
        with self._lock:
            thread, self._thread = self._thread, None
            clients, self._clients = list(self._clients.values()), {}
        if thread is None or thread.is_closed():
            return

        async def close_all() -> None:
            await asyncio.gather(*(one.close() for one in clients), return_exceptions=True)

        thread.close(close_all)


_connections = _Connections()


def client_of(url: str) -> Client:
    """The client of an address, connected; `Unavailable` if no broker answers."""
    return _connections.client(url)


def run(coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    """Run a coroutine on the loop and return its result; wait up to `timeout` seconds."""
    thread = _connections.thread()
    if timeout is None:
        return thread.run(coroutine)
    return thread.run(_within(coroutine, timeout))


def close_clients() -> None:
    """Disconnect this process from all brokers; the next call connects anew."""
    _connections.close()


async def _within(coroutine: Coroutine[Any, Any, T], timeout: float) -> T:
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await coroutine
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise DeadlinePassed(f"it has not happened within {timeout:g} s") from error


def _begin_anew() -> None:
    """In a forked child: what the parent has is the parent's, down to the locks."""
    global _connections  # noqa: PLW0603 - one per process is the point.
    _connections = _Connections()


os.register_at_fork(after_in_child=_begin_anew)
