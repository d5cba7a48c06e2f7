"""One broker with a full queue: how it is asked, weighed, stopped and started."""

import json
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.broker.orders import Target
from benchmarks.broker.starts import forget_tree
from benchmarks.broker.systems import Penstock

ANSWER_WITHIN_SECONDS = 60.0
START_WITHIN_SECONDS = 300.0
STOP_WITHIN_SECONDS = 120.0


class Broker(Penstock):
    """`penstock serve` with its defaults, if there are no flags."""

    def __init__(self, directory: Path, flags: Sequence[str] = ()) -> None:
        super().__init__(directory, 1, flags)

    @property
    def web(self) -> str:
        """Where it answers HTTP, and SQS."""
        ready = msgspec.json.decode((self.directory / "node-1" / "ready.json").read_bytes())
        return str(ready["http"])

    def sqs(self, action: str, **parameters: Any) -> Any:
        """Ask something of SQS."""
        headers = {
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Content-Type": "application/x-amz-json-1.0",
        }
        return self._ask(urllib.request.Request(
            f"http://{self.web}/", json.dumps(parameters).encode(), headers
        ))  # fmt: skip

    def make_queue(self, name: str, **attributes: str) -> str:
        """Returns its URL."""
        return str(self.sqs("CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"])

    def counts(self, name: str) -> dict[str, int]:
        """How many messages are in which state."""
        answer = self._ask(urllib.request.Request(f"http://{self.web}/v1/queues/{name}"))
        return dict(answer["groups"][0]) if answer["groups"] else {}

    def target(self, topic: str) -> Target:
        """The same queue for Kafka's clients."""
        return Target(bootstrap=self.bootstrap, topic=topic, partitions=1)

    def restart(self, *, kill: bool) -> tuple[float, float]:
        """Stop it, one way or the other, and start it on files that are not in memory: the seconds
        that both took."""
        (program,) = self.programs
        began = time.perf_counter()
        if kill:
            program.kill()
        else:
            program.terminate(STOP_WITHIN_SECONDS)
        stopped = time.perf_counter() - began
        forget_tree(self.directory)
        for path in self.directory.glob("*/ready.json"):
            path.unlink()
        began = time.perf_counter()
        program.launch()
        program.wait_ready(START_WITHIN_SECONDS)
        return stopped, time.perf_counter() - began

    def _ask(self, request: urllib.request.Request) -> Any:
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_SECONDS) as answer:
            return json.load(answer)
