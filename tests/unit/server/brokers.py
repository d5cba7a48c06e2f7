"""Real broker processes for tests, and how to wait for them without sleeping: by reading."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

STOP_SECONDS = 60


class BrokerProcess:
    """A child that runs `penstock serve`, on free ports unless told otherwise."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.data = directory / "data"
        self.ready_file = directory / "ready.json"
        free = dict.fromkeys(("kafka", "http", "peer"), "127.0.0.1:0")
        flags = [f"--{name}={value}" for name, value in {**free, **settings}.items()]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "penstock.cli.main", "serve", f"--data={self.data}"),
                *flags,
                f"--ready-file={self.ready_file}",
                "--storage.segment-size=1MiB",
                "--storage.ballast-size=1MiB",
            ],
            cwd=directory,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []

    def wait_ready(self) -> dict[str, Any]:
        """Read what it says until it is ready; returns what the ready file holds."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if ": ready kafka=" in line:
                content: dict[str, Any] = msgspec.json.decode(self.ready_file.read_bytes())
                return content
        raise AssertionError("the broker ended before it was ready:\n" + "".join(self.lines))

    def wait_end(self) -> int:
        """Read the rest of what it says; returns its exit code."""
        assert self.process.stderr is not None
        self.lines += self.process.stderr.readlines()
        return self.process.wait(STOP_SECONDS)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@contextlib.contextmanager
def broker(directory: Path, **settings: str) -> Iterator[BrokerProcess]:
    """A broker that is gone in the end, whatever happens."""
    started = BrokerProcess(directory, **settings)
    with started.process:
        try:
            yield started
        finally:
            if started.process.poll() is None:
                started.process.kill()


def get(address: str, path: str) -> tuple[int, Any]:
    """Status and JSON document of one HTTP request."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=STOP_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, msgspec.json.decode(response.read())
