"""A broker process for clients of SQS, and what tests of several files do with one."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.unit.server.brokers import broker

REGION = "eu-west-1"
START_SECONDS_MAX = 60.0
CREDENTIALS = {"aws_access_key_id": "anybody", "aws_secret_access_key": "secret"}


class SqsBroker:
    """A broker that serves: its addresses, and a client."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.kafka: str = ready["kafka"]
        self.url: str = ready["sqs"]
        # Parameters are checked by the broker: that is what is tested.
        config = Config(parameter_validation=False, retries={"max_attempts": 0}, read_timeout=60)
        self.client: Any = boto3.client(
            "sqs", endpoint_url=self.url, region_name=REGION, config=config, **CREDENTIALS
        )

    def wait_receipts(self) -> None:
        """A new cluster needs a moment until it can sign receipts."""
        url = self.create("probe")
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                self.client.delete_message(QueueUrl=url, ReceiptHandle="none")
            except ClientError as error:
                if error.response["Error"]["Code"] == "ReceiptHandleIsInvalid":
                    return
        raise AssertionError("the cluster has no key for receipts")

    def create(self, name: str, **attributes: str) -> str:
        """Make a queue; returns its URL."""
        url: str = self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def create_fifo(self, name: str, **attributes: str) -> str:
        """Make a FIFO queue."""
        return self.create(f"{name}.fifo", FifoQueue="true", **attributes)

    def receive(self, url: str, **more: object) -> list[dict[str, Any]]:
        """Up to ten messages with all that belongs to them; waits for a first one."""
        asked = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 10, **more}
        answer = self.client.receive_message(
            QueueUrl=url,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
            **asked,
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def bodies(self, url: str, **more: object) -> list[str]:
        """What messages say."""
        return [one["Body"] for one in self.receive(url, **more)]

    def delete(self, url: str, messages: list[dict[str, Any]]) -> None:
        """Messages are done."""
        entries = [
            {"Id": str(number), "ReceiptHandle": one["ReceiptHandle"]}
            for number, one in enumerate(messages)
        ]
        assert "Failed" not in self.client.delete_message_batch(QueueUrl=url, Entries=entries)

    def attributes(self, url: str, *names: str) -> dict[str, str]:
        """What a queue says about itself."""
        asked = list(names) or ["All"]
        answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=asked)
        found: dict[str, str] = answer.get("Attributes", {})
        return found

    def counts(self, url: str) -> tuple[int, int, int]:
        """Messages that are ready, in flight, delayed."""
        name = "ApproximateNumberOfMessages"
        found = self.attributes(url, name, f"{name}NotVisible", f"{name}Delayed")
        ready, leased = int(found[name]), int(found[f"{name}NotVisible"])
        return ready, leased, int(found[f"{name}Delayed"])


@contextmanager
def sqs_broker(directory: Path, **settings: str) -> Iterator[SqsBroker]:
    """A broker that is gone in the end; what is deleted can be made again after a second."""
    with broker(directory, **{"sqs.cooldown": "1s", **settings}) as process:
        running = SqsBroker(process.wait_ready())
        try:
            running.wait_receipts()
            yield running
        finally:
            running.client.close()


@contextmanager
def refused(code: str, words: str = "", *, status: int = 400, shape: str = "") -> Iterator[None]:
    """What is done here is answered with this error: the code that old clients know, the shape
    that new ones know, the status, and the words."""
    with pytest.raises(ClientError) as caught:
        yield
    error: dict[str, str] = caught.value.response["Error"]
    assert error["Code"] == code, error
    assert words in error["Message"], error
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status, error
    if shape:
        assert error["QueryErrorCode"] == shape, error
