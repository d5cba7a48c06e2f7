"""How the clients of these tests are set up, and which of their errors mean what.

They are librdkafka, by way of confluent-kafka: the client most programs use under the hood. It is
set up as a careful user would, with shorter waits than by default, since the faults are short too.
"""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.waiting import wait_until

Setting = str | int | bool
TOPIC_WITHIN_SECONDS = 60.0
_ANSWER_WITHIN_SECONDS = 5.0
_CERTAINLY_NOT = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
"""Refused for what it is, so every attempt was refused. Anything else may have been the answer to
the second attempt, while the first one happened: nobody knows."""

COMMON: Mapping[str, Setting] = {
    "log_level": 2,
    "socket.timeout.ms": 4_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2_000,
    "topic.metadata.refresh.fast.interval.ms": 100,
}
PRODUCER: Mapping[str, Setting] = {
    **COMMON,
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "request.timeout.ms": 4_000,
    "delivery.timeout.ms": 90_000,
    "queue.buffering.max.messages": 100_000,
}
READER: Mapping[str, Setting] = {
    **COMMON,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 50,
    "allow.auto.create.topics": False,
}


def certainly_failed(error: KafkaError) -> bool:
    """True if a message with this error is in no log and never will be."""
    return error.code() in _CERTAINLY_NOT


def error_in(exception: KafkaException) -> KafkaError:
    """What a client's exception is about."""
    error = exception.args[0]
    assert isinstance(error, KafkaError)
    return error


class Operator:
    """Creates topics and looks who leads them."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({**COMMON, "bootstrap.servers": bootstrap})

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create it, and wait until every partition has a leader."""
        refusal = ""

        def created() -> bool:
            nonlocal refusal
            new = NewTopic(topic, num_partitions=partitions, config=dict(configs or {}))
            try:
                self._admin.create_topics([new], operation_timeout=_ANSWER_WITHIN_SECONDS)[
                    topic
                ].result(_ANSWER_WITHIN_SECONDS * 2)
            except KafkaException as exception:
                refusal = str(exception)
                # Asked again after a lost answer, it is there already.
                return error_in(exception).code() == KafkaError.TOPIC_ALREADY_EXISTS
            return True

        wait_until(
            created,
            lambda: f"topic {topic} is not made, {refusal}",
            seconds=TOPIC_WITHIN_SECONDS,
        )
        wait_until(
            lambda: len(self.leaders(topic)) == partitions,
            f"not every partition of {topic} has a leader",
            seconds=TOPIC_WITHIN_SECONDS,
        )

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> the node that leads it, of those that have one."""
        try:
            metadata = self._admin.list_topics(topic, timeout=_ANSWER_WITHIN_SECONDS)
        except KafkaException:
            return {}
        return {
            number: partition.leader
            for number, partition in metadata.topics[topic].partitions.items()
            if partition.leader > 0
        }
