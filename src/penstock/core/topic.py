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
    """By index; the ids ascend."""
    configs: dict[str, str]
    """What was set, sorted by name; the rest has its default. Not to be changed."""
    created_ms: int

    @cached_property
    def settings(self) -> TopicSettings:
        """What the configs come to: read once, asked for by every produce."""
        return parse_topic_configs(self.configs)
