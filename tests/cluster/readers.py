"""Consumers that choose their partitions themselves, read from the beginning and write down what
they are handed; and the last of them, who reads everything.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.cluster.clients import READER, Setting, error_in
from tests.cluster.history import Recorder, key_of
from tests.cluster.payloads import name_in
from tests.cluster.steady import SteadyClient

_POLL_SECONDS = 0.1
_POLL_MESSAGES = 500
_ANSWER_WITHIN_SECONDS = 5.0

Polled = dict[str, list[tuple[int, str]]]


def sort_out(messages: Sequence[Message], told: list[str]) -> Polled:
    """What a client handed out, by partition and in its order; errors go to `told`."""
    polled: Polled = defaultdict(list)
    for message in messages:
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                told.append(error.name())
            continue
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        polled[key_of(topic, partition)].append((offset, name_in(message.value())))
    return polled


class Reader:
    """A consumer with partitions of its own choice."""

    def __init__(
        self,
        recorder: Recorder,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        name: str = "reader",
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self.process = recorder.new_process(name)
        self.errors: Counter[str] = Counter()
        self._recorder = recorder
        self._topic = topic
        self._partitions = partitions
        identity = {"bootstrap.servers": bootstrap, "group.id": f"none-of-{self.process}"}
        self._client = Consumer({**READER, **identity, **(settings or {})})

    def assign_from_beginning(self) -> None:
        partitions = range(self._partitions)
        positions = {key_of(self._topic, partition): 0 for partition in partitions}
        operation = self._recorder.invoke(self.process, "assign", positions=positions)
        self._client.assign(
            [TopicPartition(self._topic, partition, OFFSET_BEGINNING) for partition in partitions]
        )
        operation.complete("ok", positions=positions)

    def poll(self) -> Polled:
        """Whatever is there within a moment."""
        operation = self._recorder.invoke(self.process, "poll")
        told: list[str] = []
        polled = sort_out(self._client.consume(_POLL_MESSAGES, _POLL_SECONDS), told)
        operation.complete("ok", polls=polled, note=" ".join(told))
        self.errors.update(told)
        return polled

    def ends(self) -> dict[str, int]:
        """The end of every partition, as its leader tells it; nothing if one did not answer."""
        try:
            return {
                key_of(self._topic, partition): self._client.get_watermark_offsets(
                    TopicPartition(self._topic, partition), timeout=_ANSWER_WITHIN_SECONDS
                )[1]
                for partition in range(self._partitions)
            }
        except KafkaException as exception:
            self.errors[f"ends: {error_in(exception).name()}"] += 1
            return {}

    def close(self) -> None:
        self._client.close()


class SteadyReader(SteadyClient):
    """Reads along until it is stopped."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader.process)
        self._reader = reader
        self.errors = reader.errors
        self.read = 0

    def work(self) -> None:
        self._reader.assign_from_beginning()
        while not self.stopping:
            self.read += sum(map(len, self._reader.poll().values()))
        self._reader.close()


def drain(
    recorder: Recorder,
    bootstrap: str,
    topic: str,
    partitions: int,
    *,
    seconds: float,
) -> dict[str, int]:
    """Read everything with a client that knows nothing, past every offset that was ever seen.

    Returns where each partition ends. The history says whether it was completed.
    """
    operation = recorder.invoke("drain", "drain")
    targets = highest_offsets(recorder)
    reader = Reader(recorder, bootstrap, topic, partitions, name="last")
    reached = {key_of(topic, partition): 0 for partition in range(partitions)}
    deadline = time.monotonic() + seconds
    ends: dict[str, int] = {}
    try:
        reader.assign_from_beginning()
        while time.monotonic() < deadline:
            for key, records in reader.poll().items():
                reached[key] = records[-1][0] + 1
            if all(reached[key] > target for key, target in targets.items()):
                # Whatever was acknowledged is below the end, and the end is known to the leader.
                ends = ends or reader.ends()
                if ends and all(reached[key] >= end for key, end in ends.items()):
                    operation.complete("ok")
                    return reached
        missing = {key: (reached[key], target) for key, target in targets.items()}
        operation.complete("info", note=f"reached, wanted: {missing}; errors: {reader.errors}")
        return reached
    finally:
        reader.close()


def highest_offsets(recorder: Recorder) -> dict[str, int]:
    """The highest offset of every partition that any answer ever named."""
    highest: dict[str, int] = {}
    for event in recorder.history():
        for key, offset, _ in event.sends:
            if offset is not None and offset > highest.get(key, -1):
                highest[key] = offset
        for key, records in event.polls.items():
            if records and records[-1][0] > highest.get(key, -1):
                highest[key] = records[-1][0]
    return highest
