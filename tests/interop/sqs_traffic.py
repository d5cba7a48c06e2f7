"""boto3 clients that send and work off a queue, come what may, and remember what they were told.

What a broker that is killed must keep:

- a send that was answered is delivered;
- a message whose deletion was answered is not delivered by any receive that is begun afterwards.

A request without an answer may have happened or not. Both are right; it is tried again.
"""

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from tests.cluster.steady import SteadyClient
from tests.cluster.waiting import pass_time, wait_until
from tests.interop.served import NODE, Served, code_of, counts

LEASE_SECONDS = 3
PAUSE_SECONDS = 0.05
SECONDS_MAX = 120.0
_NOT_NOW = frozenset({"ServiceUnavailable", "InternalFailure"})


class Ledger:
    """What clients were told; `now` orders what they do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clock = 0
        self.sent: set[str] = set()
        self.received: set[str] = set()
        self.deleted: dict[str, int] = {}
        """When the answer to the deletion was there."""
        self.broken: list[str] = []

    def now(self) -> int:
        with self._lock:
            self._clock += 1
            return self._clock

    def note_sent(self, body: str) -> None:
        with self._lock:
            self.sent.add(body)

    def note_received(self, body: str, begun: int) -> None:
        with self._lock:
            self.received.add(body)
            deleted = self.deleted.get(body)
            if deleted is not None and deleted < begun:
                self.broken.append(f"{body} was deleted at {deleted} and received after {begun}")

    def note_deleted(self, body: str) -> None:
        with self._lock:
            self._clock += 1
            self.deleted.setdefault(body, self._clock)

    def problems(self) -> list[str]:
        """What was promised and not kept."""
        lost = sorted(self.sent - self.received)
        return [*self.broken, *(f"{body} was sent and never received" for body in lost)]


def attempt(call: Callable[[], Any]) -> Any:
    """The answer; None if there was none, or one that says: not now."""
    try:
        return call()
    except ClientError as error:
        if code_of(error) not in _NOT_NOW:
            raise
    except (HTTPClientError, BotoCoreError):
        pass
    time.sleep(PAUSE_SECONDS)
    return None


class Sender(SteadyClient):
    """Sends messages with names of their own, alone and in batches."""

    def __init__(self, served: Served, url: str, ledger: Ledger, name: str) -> None:
        super().__init__(name)
        self._client = served.client(connect_timeout=2, read_timeout=20)
        self._url = url
        self._ledger = ledger

    def work(self) -> None:
        number = 0
        while not self.stopping:
            number += 1
            bodies = [f"{self.name}-{number}-{each}" for each in range(1 + number % 5)]
            entries = [{"Id": str(each), "MessageBody": body} for each, body in enumerate(bodies)]
            answer = attempt(
                lambda entries=entries: self._client.send_message_batch(  # type: ignore[misc]
                    QueueUrl=self._url, Entries=entries
                )
            )
            if answer is not None:
                assert len(answer["Successful"]) == len(bodies), answer
                for body in bodies:
                    self._ledger.note_sent(body)


class Worker(SteadyClient):
    """Receives and deletes; leaves every seventh message to the end of its lease."""

    def __init__(self, served: Served, url: str, ledger: Ledger, name: str) -> None:
        super().__init__(name)
        self._client = served.client(connect_timeout=2, read_timeout=20)
        self._url = url
        self._ledger = ledger
        self._seen = 0
        self.drains = False
        """From now on nothing is left."""

    def work(self) -> None:
        while not self.stopping:
            begun = self._ledger.now()
            lease_ends = time.monotonic() + LEASE_SECONDS  # Or later.
            answer = attempt(
                lambda: self._client.receive_message(
                    QueueUrl=self._url,
                    MaxNumberOfMessages=10,
                    WaitTimeSeconds=1,
                    VisibilityTimeout=LEASE_SECONDS,
                )
            )
            for message in (answer or {}).get("Messages", []):
                self._ledger.note_received(message["Body"], begun)
                self._seen += 1
                if self.drains or self._seen % 7:
                    self._finish(message, lease_ends)

    def _finish(self, message: dict[str, str], lease_ends: float) -> None:
        handle = message["ReceiptHandle"]
        done = attempt(
            lambda: self._client.delete_message(QueueUrl=self._url, ReceiptHandle=handle)
        )
        # A deletion that comes after the end of its lease is answered too, and does nothing.
        if done is not None and time.monotonic() < lease_ends:
            self._ledger.note_deleted(message["Body"])


def run_under_kills(served: Served, kills: int, chance: Random) -> Ledger:
    """Send and work off while the broker is killed again and again; then work off the rest."""
    client = served.client()
    url = client.create_queue(QueueName="killed")["QueueUrl"]
    ledger = Ledger()
    senders = [Sender(served, url, ledger, f"sender-{number}") for number in range(3)]
    workers = [Worker(served, url, ledger, f"worker-{number}") for number in range(2)]
    clients = (*senders, *workers)
    for one in clients:
        one.start()
    for _ in range(kills):
        pass_time(chance.uniform(0.3, 1.5))
        served.cluster.kill(NODE)
        served.cluster.restart(NODE)
        for one in clients:
            one.check()
    pass_time(0.5)
    for sender in senders:
        sender.stop()
        sender.join()
    for worker in workers:
        worker.drains = True
    wait_until(
        lambda: counts(client, url) == (0, 0, 0),
        lambda: f"everything is worked off: {counts(client, url)}",
        seconds=SECONDS_MAX,
    )
    for worker in workers:
        worker.stop()
        worker.join()
    return ledger
