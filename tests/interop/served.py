"""A broker as a process of its own, for clients that speak SQS, Kafka and HTTP to it.

It is one node of `tests.cluster`, so that it can be killed and started again at the same address.
"""

import json
import resource
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from tests.cluster.processes import Cluster

REGION = "us-east-1"
KEYS: Mapping[str, str] = {
    "region_name": REGION,
    "aws_access_key_id": "any",
    "aws_secret_access_key": "any",
}
ANSWER_SECONDS_MAX = 60
NODE = 1


class Answer(NamedTuple):
    """What came back over HTTP."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def document(self) -> Any:
        """The body, if it is JSON."""
        return json.loads(self.body)


class Served:
    """The broker, or one of several, and ways to speak to it."""

    def __init__(self, cluster: Cluster, node: int = NODE) -> None:
        self.cluster = cluster
        self._node = node

    @property
    def http(self) -> str:
        """host:port."""
        return self.cluster.nodes[self._node].http

    @property
    def url(self) -> str:
        """What SDKs call the endpoint."""
        return f"http://{self.http}"

    @property
    def kafka(self) -> str:
        """What clients call `bootstrap.servers`."""
        return self.cluster.nodes[self._node].kafka

    def client(self, **settings: object) -> Any:
        """boto3, which tries everything once: a test wants to see what it was answered."""
        tries = {"retries": {"total_max_attempts": 1}, "max_pool_connections": 50}
        config = botocore.config.Config(**{**tries, **settings})
        return boto3.session.Session().client("sqs", endpoint_url=self.url, config=config, **KEYS)

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One HTTP request, over a connection of its own."""
        connection = HTTPConnection(self.http, timeout=ANSWER_SECONDS_MAX)
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.read(), dict(response.getheaders()))
        finally:
            connection.close()

    def call(self, action: str, document: object) -> Answer:
        """One action by the JSON protocol; `document` may be bytes that are no JSON at all."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.ask(
            "POST",
            "/",
            body,
            {
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"AmazonSQS.{action}",
                "x-amzn-query-mode": "true",
            },
        )


@contextmanager
def serving(directory: Path, *flags: str) -> Iterator[Served]:
    """A broker that is ready. Its end must not come by itself, nor its log show a traceback."""
    with Cluster(directory, nodes=1, shards=2, flags=flags) as cluster:
        cluster.start()
        yield Served(cluster)
        assert not cluster.complaints(), "\n".join(cluster.complaints())


def path_of(queue_url: str) -> str:
    """The path of a queue's URL."""
    return urlsplit(queue_url).path


def code_of(error: ClientError) -> str:
    """What Amazon's older protocol calls an error; programs go by it."""
    code: str = error.response["Error"]["Code"]
    return code


def counts(client: Any, queue_url: str) -> tuple[int, int, int]:
    """How many messages are available, in flight and delayed."""
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    found = client.get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)["Attributes"]
    available, leased, delayed = (int(found[name]) for name in names)
    return available, leased, delayed


@contextmanager
def many_connections(served: Served, count: int) -> Iterator[list[socket.socket]]:
    """So many connections at once; skips the test if this process may not have them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"this process may open {hard} files")
    host, _, port = served.http.rpartition(":")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    try:
        with ExitStack() as stack:
            yield [
                stack.enter_context(socket.create_connection((host, int(port))))
                for _ in range(count)
            ]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def receive_request(queue_url: str, wait_seconds: int) -> bytes:
    """A receive that waits, as bytes for a connection."""
    body = json.dumps({"QueueUrl": queue_url, "WaitTimeSeconds": wait_seconds}).encode()
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: AmazonSQS.ReceiveMessage\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
