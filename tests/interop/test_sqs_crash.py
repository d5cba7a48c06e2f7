"""An SQS queue whose broker is killed, and one whose disk is full."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.cluster.waiting import wait_until
from tests.crash.images import mounted_memory, mounting_missing, workspace
from tests.interop.served import code_of, counts, serving
from tests.interop.sqs_traffic import Ledger, run_under_kills

pytestmark = [pytest.mark.slow, pytest.mark.crash]

KILLS = 2
SECONDS_MAX = 120.0
SMALL_DISK_BYTES = 96 << 20
FILL_BYTES = 64 << 10


def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        ledger = run_under_kills(served, KILLS, Random(1))
    assert len(ledger.sent) > 100
    assert len(ledger.deleted) > 100
    assert not ledger.problems()


def test_what_is_lost_or_returns_is_noticed() -> None:
    ledger = Ledger()
    ledger.note_sent("lost")
    ledger.note_sent("back")
    ledger.note_received("back", ledger.now())
    ledger.note_deleted("back")
    ledger.note_received("back", ledger.now())
    assert ledger.problems() == [
        "back was deleted at 2 and received after 3",
        "lost was sent and never received",
    ]


# A full disk.


@pytest.fixture
def small_disk() -> Iterator[Path]:
    if (missing := mounting_missing()) is not None:
        pytest.skip(missing)
    with workspace() as space, mounted_memory(SMALL_DISK_BYTES, f"{space}/small") as place:
        yield Path(place)


def fill(path: Path) -> None:
    """Take all the space there is."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * FILL_BYTES)
        except OSError:
            pass


def send_until_refused(client: Any, url: str, body: str) -> tuple[int, ClientError]:
    for number in range(10_000):
        try:
            client.send_message(QueueUrl=url, MessageBody=body)
        except ClientError as error:
            return number, error
    raise AssertionError("a full disk takes everything")


def is_sent(client: Any, url: str, body: str) -> bool:
    try:
        client.send_message(QueueUrl=url, MessageBody=body)
    except ClientError as error:
        if code_of(error) != "ServiceUnavailable":
            raise
        return False
    return True


def work_off(client: Any, url: str) -> list[str]:
    found: list[str] = []
    while messages := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        found += [message["Body"] for message in messages]
    return found


def test_a_full_disk_takes_nothing_more_and_gives_everything(small_disk: Path) -> None:
    flags = ("--storage.segment-size=2MiB", "--storage.ballast-size=2MiB")
    with serving(small_disk, *flags) as served:
        client = served.client()
        url = client.create_queue(QueueName="full")["QueueUrl"]
        client.send_message(QueueUrl=url, MessageBody="first")
        fill(small_disk / "filler")
        large = "x" * 200_000
        sent, refused = send_until_refused(client, url, large)
        assert code_of(refused) == "ServiceUnavailable"
        assert refused.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert "disk is full" in refused.response["Error"]["Message"]
        (leased,) = client.receive_message(QueueUrl=url)["Messages"]
        client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=leased["ReceiptHandle"], VisibilityTimeout=0
        )
        # What was given back comes after what waits.
        assert work_off(client, url) == [*[large] * sent, "first"]
        assert counts(client, url) == (0, 0, 0)
        os.unlink(small_disk / "filler")
        wait_until(
            lambda: is_sent(client, url, "there is room again"),
            "sends succeed when there is room",
            seconds=SECONDS_MAX,
        )
        assert work_off(client, url) == ["there is room again"]
