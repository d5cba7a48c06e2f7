"""A topic, as the catalog has it and every front-end reads it."""

from functools import cached_property

import msgspec

from penstock.core.topic_configs import TopicSettings, parse_topic_configs
from penstock.core.types import PartitionId, TopicId


class Topic(msgspec.Struct, frozen=True, dict=True):
    """A topic as it is. Immutable: a change makes another one."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionId, ...]
    """The ids of its partitions, by index; they ascend."""
    configs: dict[str, str]
    """The configs that were set, sorted by name; the others have their defaults. Do not change
    it."""
    created_ms: int

    @cached_property
    def settings(self) -> TopicSettings:
        """The parsed configs; cached, because every produce needs them."""
        return parse_topic_configs(self.configs)
