"""Every command of the publications, and their encoding.

The rules are those of `machines.commands`: a command is a request as it stands in the log, `plan`
stamps it, the encoding is strict, and a tag or an order of fields never changes.

An application is named by its publisher; its batches are numbered upwards, with or without
gaps.
"""

import msgspec

from penstock.core.limits import PUBLICATION_COMMAND_BYTES_MAX
from penstock.core.types import Offset, PartitionId, ProducerId, TopicId
from penstock.machines.command_codec import CommandCodec, Stamped


class PublishedPart(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one partition is to get: ranges of the staging partition in its own shard."""

    topic_id: TopicId
    partition: PartitionId
    staging: PartitionId
    ranges: tuple[tuple[Offset, Offset], ...]
    """From the first offset up to, not including, the second, in the order of publication."""

    @property
    def records(self) -> int:
        return sum(end - first for first, end in self.ranges)


class BeginPublication(Stamped, frozen=True, kw_only=True, tag="begin_publication"):
    """Decide that a batch of an application is published, with these parts and no others."""

    application: str
    batch: int
    owner: str
    """The publisher, if that matters: another one may not repeat a batch, only continue."""
    parts: tuple[PublishedPart, ...]
    producer_id: ProducerId
    """An id that no producer ever had, for an application that has none yet; or `NO_PRODUCER`."""


class SettleParts(Stamped, frozen=True, kw_only=True, tag="settle_parts"):
    """These partitions have got their part. A publication without parts left is over."""

    application: str
    batch: int
    partitions: tuple[PartitionId, ...]


class ForgetApplications(Stamped, frozen=True, kw_only=True, tag="forget_applications"):
    """Forget every application that has published nothing since `before_ms`."""

    before_ms: int


PublicationCommand = BeginPublication | SettleParts | ForgetApplications

PUBLICATION_CODEC: CommandCodec[PublicationCommand] = CommandCodec(
    PublicationCommand, PUBLICATION_COMMAND_BYTES_MAX
)
encode_publication_command = PUBLICATION_CODEC.encode
decode_publication_command = PUBLICATION_CODEC.decode
