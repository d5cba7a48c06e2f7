"""Every command the partitions machine writes into a log, and their encoding.

A command is a request as it stands in the log: the caller makes one without a stamp, `plan` stamps
it, and `command_codec` writes it.

Tags, and the order of fields, are on disk: never rename, reorder or reuse them.
"""

from penstock.core.types import Offset, PartitionId
from penstock.machines.command_codec import CommandCodec, Stamped, VersionCommand


class CreatePartition(Stamped, frozen=True, kw_only=True, tag="create_partition"):
    """Make an empty partition. The catalog gives the id and never gives it twice."""

    partition: PartitionId


class DeletePartition(Stamped, frozen=True, kw_only=True, tag="delete_partition"):
    """Remove a partition with everything in it."""

    partition: PartitionId


class TrimPartition(Stamped, frozen=True, kw_only=True, tag="trim_partition"):
    """Move the log start up to `before`: retention, and Kafka's DeleteRecords."""

    partition: PartitionId
    before: Offset


class ExpireProducers(Stamped, frozen=True, kw_only=True, tag="expire_producers"):
    """Forget every producer whose last batch has a stamp before `before_ms`."""

    before_ms: int


class UseVersion(VersionCommand, frozen=True, kw_only=True, tag="use_version"):
    """Apply every entry after this one as the version does."""


Command = CreatePartition | DeletePartition | TrimPartition | ExpireProducers | UseVersion

_CODEC: CommandCodec[Command] = CommandCodec(Command)
encode_command = _CODEC.encode
decode_command = _CODEC.decode
