"""Every command the partitions machine writes into a log, and their encoding.

A command is a request as it stands in the log: the caller makes one without a stamp, `plan` stamps
it. The encoding is a msgpack array: tag, then the fields in their order. It is strict, because a
command that is half understood is applied differently on different replicas: an unknown tag, a
missing field or one too many means that a later build wrote it, and the node must stop.

Tags, and the order of fields, are on disk: never rename, reorder or reuse them.
"""

import msgspec

from penstock.core.errors import UnsupportedVersion
from penstock.core.types import Offset, PartitionId
from penstock.machines.machine import Request


class Stamped(Request, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What every command carries: the leader's log time, put in by `plan`."""

    stamp_ms: int = 0


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


class UseVersion(Stamped, frozen=True, kw_only=True, tag="use_version"):
    """Apply everything after this entry as version `version` does."""

    version: int


Command = CreatePartition | DeletePartition | TrimPartition | ExpireProducers | UseVersion

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode_command(command: Command, *, stamp_ms: int) -> bytes:
    """The payload of a COMMAND entry."""
    return _ENCODER.encode(msgspec.structs.replace(command, stamp_ms=stamp_ms))


def decode_command(payload: bytes) -> Command:
    """The command of an entry whose checksum has been verified."""
    try:
        return _DECODER.decode(payload)
    except msgspec.DecodeError as error:
        raise UnsupportedVersion(
            f"a log entry holds a command this build does not know ({error}); a later version of"
            " Penstock wrote it: start this node with that version or a newer one"
        ) from error
