"""What a record batch must be like to be let into a topic, whoever brings it."""

from penstock.core.errors import BatchTooLarge, UnsupportedBatch
from penstock.core.record_bodies import read_records
from penstock.core.records import check_batch
from penstock.machines.catalog import Topic


def check_admissible(topic: Topic, batch: bytearray | memoryview) -> None:
    """Raise what keeps the batch out for good, by the topic's own rules."""
    settings = topic.settings
    if len(batch) > settings.message_bytes_max:
        raise BatchTooLarge(
            f"a record batch of {len(batch)} bytes is above the topic's max.message.bytes"
            f" of {settings.message_bytes_max}"
        )
    if settings.compacts:
        _check_keys(topic, batch)


def _check_keys(topic: Topic, batch: bytearray | memoryview) -> None:
    """Compaction keeps the last message of each key, so there must be one: the only place where
    producing looks at records."""
    check_batch(batch)
    if any(record.key is None for record in read_records(batch).records):
        raise UnsupportedBatch(
            f"topic {topic.name} is compacted by key, and a record without one came: give it a key"
        )
