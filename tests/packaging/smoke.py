"""What must work right after `pip install` of the wheel with [server]; prints what it ran on.

The environment that runs it has nothing else: no tests, no clone.
"""

import asyncio
import os
import platform
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import penstock
from penstock import blocking

COMMAND = str(Path(sys.executable).with_name("penstock"))


async def in_memory() -> None:
    async with penstock.connect("memory:") as client:
        queue = client.queue("orders")
        await queue.create()
        await queue.send({"order": 7})
        [message] = await queue.receive(1, wait=10)
        assert message.body == {"order": 7}
        await message.ack()


def with_a_broker() -> None:
    broker = subprocess.Popen(
        [COMMAND, "dev", "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", "data"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        native, http = addresses(broker)
        with blocking.connect(f"penstock://{native}") as client:
            queue = client.queue("orders")
            queue.create(exist_ok=True)
            queue.send({"order": 8})
            [message] = queue.receive(1, wait=10)
            assert message.body == {"order": 8}
            message.ack()
        with urllib.request.urlopen(f"http://{http}/", timeout=20) as page:
            assert b"orders" in page.read()
        with urllib.request.urlopen(f"http://{http}/metrics", timeout=20) as page:
            assert b"penstock_build_info" in page.read()
    finally:
        broker.send_signal(signal.SIGINT)
        rest, _ = broker.communicate(timeout=60)
    assert broker.returncode in (0, 130), rest
    assert "Traceback" not in rest, rest


def checklist() -> None:
    """The chapters of the production checklist are in the wheel, too."""
    found = subprocess.run(
        [COMMAND, "doctor", "--explain", "poison"], capture_output=True, text=True, check=True
    )
    assert "Poison messages are put aside" in found.stdout, found.stdout


def runbooks() -> None:
    text = subprocess.run(
        [COMMAND, "alert", "runbook", "depth"], capture_output=True, text=True, check=True
    ).stdout
    assert text.startswith("# Runbook: queue depth"), text


def addresses(broker: "subprocess.Popen[str]") -> tuple[str, str]:
    """Of the native port and of the HTTP port, as the broker prints them."""
    native = http = ""
    assert broker.stdout is not None
    for line in broker.stdout:
        if found := re.search(r"penstock://([\w.]+:\d+)", line):
            native = found[1]
        if found := re.search(r"http://([\w.]+:\d+)", line):
            http = found[1]
        if native and http:
            return native, http
    raise AssertionError(f"the broker ended: {broker.wait()}")


def main() -> None:
    asyncio.run(in_memory())
    runbooks()
    checklist()
    with_a_broker()
    done = subprocess.run([COMMAND, "version"], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == penstock.__version__, done.stdout
    print(f"works: {penstock.__version__} on Python {platform.python_version()}")


if __name__ == "__main__":
    main()
