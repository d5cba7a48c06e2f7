"""Members of a consumer group that write down what they read, commit and are given."""

import sys
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.clients import READER, Setting, error_in
from tests.cluster.history import UNKNOWN_GENERATION, Recorder, key_of
from tests.cluster.readers import sort_out
from tests.cluster.steady import SteadyClient
from tests.cluster.waiting import wait_until

_POLL_SECONDS = 0.1
_POLL_MESSAGES = 200
_MAGIC = b"CGMDv2:"

MEMBER: Mapping[str, Setting] = {
    **READER,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 500,
    "partition.assignment.strategy": "range",
}


class GroupMember(SteadyClient):
    """Reads, commits what it has read, and reads on, until it is stopped; then it leaves."""

    def __init__(
        self,
        recorder: Recorder,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.process = recorder.new_process("member")
        super().__init__(self.process)
        self.read = 0
        self.assigned: tuple[str, ...] = ()
        self._recorder = recorder
        self._group = group
        self._topic = topic
        self._moved: set[str] = set()
        identity = {"bootstrap.servers": bootstrap, "group.id": group}
        self._client = Consumer({**MEMBER, **identity, **(settings or {})})

    def work(self) -> None:
        self._client.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )
        while not self.stopping:
            self._turn()
        self._client.close()

    def _turn(self) -> None:
        self._moved.clear()
        operation = self._recorder.invoke(self.process, "poll")
        told: list[str] = []
        polled = sort_out(self._client.consume(_POLL_MESSAGES, _POLL_SECONDS), told)
        moved = sorted(self._moved)
        operation.complete("ok", polls=polled, rebalanced=moved, note=" ".join(told))
        self.errors.update(told)
        self.read += sum(map(len, polled.values()))
        if polled:
            self._commit({key: records[-1][0] + 1 for key, records in polled.items()})

    def _commit(self, offsets: dict[str, int]) -> None:
        generation = self._generation()
        operation = self._recorder.invoke(
            self.process, "commit", group=self._group, generation=generation, offsets=offsets
        )
        wanted = [
            TopicPartition(self._topic, int(key.rpartition("/")[2]), offset)
            for key, offset in offsets.items()
        ]
        try:
            answers = self._client.commit(offsets=wanted, asynchronous=False)
            refused = [answer.error for answer in answers or () if answer.error is not None]
        except KafkaException as exception:
            refused = [error_in(exception)]
        for error in refused:
            self.errors[f"commit: {error.name()}"] += 1
        # The client may have asked more than once, so a refusal is not certain either.
        operation.complete(
            "info" if refused else "ok",
            group=self._group,
            generation=generation,
            offsets=offsets,
            note=" ".join(error.name() for error in refused),
        )

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._now_holds({key_of(part.topic, part.partition) for part in partitions})

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._moved |= {key_of(part.topic, part.partition) for part in partitions}
        self._now_holds(set())

    def _now_holds(self, keys: set[str]) -> None:
        self._moved |= keys
        self.assigned = tuple(sorted(keys))
        positions: dict[str, int | None] = dict.fromkeys(self.assigned)
        self._recorder.invoke(self.process, "subscribe", group=self._group).complete(
            "ok", positions=positions, group=self._group, generation=self._generation()
        )

    def _generation(self) -> int:
        """Taken from the bytes with which the client names its membership to transactions."""
        described = self._client.consumer_group_metadata()
        if not isinstance(described, bytes) or not described.startswith(_MAGIC):
            return UNKNOWN_GENERATION
        number = described[len(_MAGIC) : len(_MAGIC) + 4]
        return int.from_bytes(number, sys.byteorder, signed=True)


def committed_offsets(
    recorder: Recorder, bootstrap: str, group: str, topic: str, partitions: int
) -> dict[str, int]:
    """Ask where a group stands, and write down the answer."""
    client = Consumer({**READER, "bootstrap.servers": bootstrap, "group.id": group})
    try:
        operation = recorder.invoke("asker", "committed", group=group)
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]

        def answered() -> list[TopicPartition]:
            try:
                return client.committed(asked, timeout=10)
            except KafkaException:
                return []  # Nobody to ask yet.

        offsets = {}
        for answer in wait_until(answered, f"where {group} stands", seconds=60):
            assert answer.error is None, f"{group} {answer}: {answer.error}"
            if answer.offset >= 0:
                offsets[key_of(topic, answer.partition)] = answer.offset
        operation.complete("ok", group=group, offsets=offsets)
        return offsets
    finally:
        client.close()
