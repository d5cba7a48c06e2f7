"""What an entry must be before a follower stores it.

A leader writes what its machine has planned, and a follower applies it without another look. An
entry that a shard's machine cannot read would halt every replica that has stored it, and keep it
from starting again; so whatever comes from another node is checked here, at the door, before it is
written. The checks cost a walk over the batches' headers and their CRC-32C. They do not ask whether
an entry fits the state it will meet: only the leader, which planned it, can know.

Batches of an entry that was compacted have gaps between them and within them.
"""

import msgspec

from penstock.core.append_payload import Slice, check_append
from penstock.core.checksum import crc32c
from penstock.core.decoders import msgpack_decoder
from penstock.core.entries import Entry, EntryKind, decode_membership
from penstock.core.errors import InvalidBatch
from penstock.core.limits import INDEX_MAX, NODES_MAX, TERM_MAX
from penstock.core.records import BATCH_HEADER_BYTES, CRC_FROM, read_header
from penstock.core.types import Offset
from penstock.machines.catalog_commands import CatalogCommand
from penstock.machines.commands import Command
from penstock.machines.group_commands import GroupCommand
from penstock.machines.move_commands import MoveCommand
from penstock.machines.publication_commands import PublicationCommand
from penstock.machines.queue_commands import QueueCommand

_COMMANDS: msgspec.msgpack.Decoder[object] = msgpack_decoder(
    Command | GroupCommand | CatalogCommand | QueueCommand | MoveCommand | PublicationCommand
)


def check_entry(entry: Entry) -> None:
    """Raise `InvalidBatch` for an entry that no leader of this release or an older one writes."""
    if not (0 < entry.index <= INDEX_MAX and 0 < entry.term <= TERM_MAX):
        raise InvalidBatch(f"an entry at index {entry.index} of term {entry.term}")
    try:
        if entry.kind is EntryKind.APPEND:
            _check_append(entry.payload)
        elif entry.kind is EntryKind.COMMAND:
            _COMMANDS.decode(entry.payload)
        elif entry.kind is EntryKind.MEMBERSHIP:
            _check_membership(entry.payload)
        elif entry.payload:
            raise InvalidBatch(f"{len(entry.payload)} bytes")
    except (InvalidBatch, ValueError, RecursionError) as error:
        raise InvalidBatch(f"entry {entry.describe()} cannot be read: {error}") from None


def _check_append(payload: bytes) -> None:
    directory = check_append(payload)
    view = memoryview(payload)
    start = directory.start
    for part in directory.slices:
        _check_batches(part, view[start : start + part.length])
        start += part.length


def _check_batches(part: Slice, data: memoryview) -> None:
    position, offset = 0, part.base_offset
    for _ in range(part.batch_count):
        if len(data) - position < BATCH_HEADER_BYTES:
            raise InvalidBatch(f"{part} ends within a batch")
        header = read_header(data, position)
        end = position + header.size
        if header.magic != 2 or header.size < BATCH_HEADER_BYTES or end > len(data):
            raise InvalidBatch(f"{part} holds a batch of {header.size} bytes, magic {header.magic}")
        if (
            header.base_offset < offset
            or header.last_offset_delta < 0
            or header.last_offset >= part.end_offset
            or not 0 <= header.record_count <= header.last_offset_delta + 1
        ):
            raise InvalidBatch(f"{part} holds a batch at {header.base_offset}")
        if crc32c(data[position + CRC_FROM : end]) != header.crc:
            raise InvalidBatch(f"the CRC-32C of the batch at {header.base_offset} does not match")
        position, offset = end, Offset(header.last_offset + 1)
    if position != len(data):
        raise InvalidBatch(f"{part} has {len(data) - position} bytes behind its batches")


def _check_membership(payload: bytes) -> None:
    membership = decode_membership(payload)
    everyone = membership.everyone()
    distinct = len(set(everyone)) == len(everyone) <= NODES_MAX
    if not membership.voters or not distinct or min(everyone) < 1:
        raise InvalidBatch(f"not a valid membership: {membership.describe()}")
