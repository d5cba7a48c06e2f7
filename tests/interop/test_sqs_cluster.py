"""SQS on three nodes: a queue is led by one of them, and used through all."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from botocore.exceptions import ClientError
from confluent_kafka import Producer

from tests.cluster.processes import Cluster
from tests.cluster.waiting import pass_time, wait_until
from tests.interop.served import Served, code_of, counts, many_connections, receive_request

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

MIB = 1 << 20
NODES = (1, 2, 3)
SECONDS_MAX = 60.0
LONG_SECONDS = 20
WAITING = 1_100
ABSENT = "AWS.SimpleQueueService.NonExistentQueue"
rdkafka: Any = confluent_kafka.admin


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(Path(tmp_path_factory.mktemp("sqs-cluster")), nodes=3, shards=2) as running:
        running.start()
        yield running
        assert not running.complaints(), "\n".join(running.complaints())


class Queue:
    """A queue, and a client for it at every node."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.served = {node: Served(cluster, node) for node in NODES}
        self.clients: dict[int, Any] = {node: one.client() for node, one in self.served.items()}
        self.clients[1].create_queue(QueueName=name)
        self.urls = {node: f"{one.url}/000000000000/{name}" for node, one in self.served.items()}
        for node in NODES:
            wait_until(
                lambda node=node: self.is_known(node),  # type: ignore[misc]
                f"node {node} knows the queue",
                seconds=SECONDS_MAX,
            )

    def is_known(self, node: int) -> bool:
        try:
            self.counts(node)
        except ClientError as error:
            if code_of(error) != ABSENT:
                raise
            return False
        return True

    def counts(self, node: int) -> tuple[int, int, int]:
        return counts(self.clients[node], self.urls[node])

    def send(self, node: int, body: str) -> None:
        self.clients[node].send_message(QueueUrl=self.urls[node], MessageBody=body)

    def receive(self, node: int, **more: object) -> list[dict[str, Any]]:
        answer = self.clients[node].receive_message(QueueUrl=self.urls[node], **more)
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def delete(self, node: int, message: dict[str, Any]) -> None:
        handle = message["ReceiptHandle"]
        self.clients[node].delete_message(QueueUrl=self.urls[node], ReceiptHandle=handle)


def test_every_node_is_as_good_as_another(cluster: Cluster) -> None:
    queue = Queue(cluster, "every-node")
    for sends in NODES:
        for receives in NODES:
            queue.send(sends, f"{sends}-{receives}")
            (message,) = queue.receive(receives)
            assert message["Body"] == f"{sends}-{receives}"
            assert [queue.counts(node) for node in NODES] == [(0, 1, 0)] * 3
            for deletes in NODES:  # The second and the third are told nothing else.
                queue.delete(deletes, message)
            assert queue.counts(receives) == (0, 0, 0)


def test_the_largest_messages_go_through_every_node(cluster: Cluster) -> None:
    queue = Queue(cluster, "largest")
    for node in NODES:
        for number in range(10):
            queue.send(node, str(number) * MIB)
        found = queue.receive(node, MaxNumberOfMessages=10)
        assert [message["Body"][0] for message in found] == list("0123456789")
        for message in found:
            queue.delete(node, message)


def test_who_waits_at_any_node_is_told_at_once(cluster: Cluster) -> None:
    queue = Queue(cluster, "waited-for")
    for waits in NODES:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(queue.receive, waits, WaitTimeSeconds=LONG_SECONDS)
            pass_time(0.3)
            queue.send(1 + waits % 3, "come")
            (message,) = waiting.result(LONG_SECONDS / 2)
        queue.delete(waits, message)


def test_who_has_left_any_node_is_given_nothing(cluster: Cluster) -> None:
    queue = Queue(cluster, "left")
    for node in NODES:
        with many_connections(queue.served[node], 1) as (connection,):
            connection.sendall(receive_request(queue.urls[node], LONG_SECONDS))
            pass_time(0.3)
    queue.send(1, "for somebody who is there")
    pass_time(0.3)
    assert queue.counts(1) == (1, 0, 0)


def test_many_who_wait_at_any_node_are_in_nobodys_way(cluster: Cluster) -> None:
    queue = Queue(cluster, "many-wait")
    for node in NODES:
        with many_connections(queue.served[node], WAITING) as connections:
            for connection in connections:
                connection.sendall(receive_request(queue.urls[node], LONG_SECONDS))
            pass_time(0.5)
            queue.send(node, "at once")


def test_messages_that_are_large_even_for_kafka(cluster: Cluster) -> None:
    """SQS sends no such messages, but it receives them."""
    servers = {"bootstrap.servers": cluster.bootstrap, "log_level": 2}
    admin = rdkafka.AdminClient(servers)
    topic = rdkafka.NewTopic("huge", 1, config={"max.message.bytes": str(9 * MIB)})
    admin.create_topics([topic])["huge"].result(SECONDS_MAX)
    queue = Queue(cluster, "huge")
    producer = Producer({**servers, "message.max.bytes": 9 * MIB})
    for number in range(5):
        producer.produce("huge", str(number) * (8 * MIB))
        assert producer.flush(SECONDS_MAX) == 0
    for node in NODES:
        found: list[dict[str, Any]] = []
        while len(found) < 5:
            more = queue.receive(node, MaxNumberOfMessages=10, WaitTimeSeconds=5)
            assert more, f"{len(found)} of 5 messages at node {node}"
            found += more
        for message in found:
            handle = message["ReceiptHandle"]
            queue.clients[node].change_message_visibility(
                QueueUrl=queue.urls[node], ReceiptHandle=handle, VisibilityTimeout=0
            )
