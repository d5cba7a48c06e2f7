"""What must hold of publications, whatever happens to the cluster and to those who publish.

The log is the truth. Each committed entry is looked at as soon as the first replica has applied it:
a batch that is decided says which messages each of its partitions must get; every message that
comes to such a partition must be the very next of its application. So nothing undecided appears,
nothing appears twice, and batches are in order. At the end nothing may be missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

from penstock.core.append_payload import decode_append
from penstock.core.entries import Entry, EntryKind
from penstock.core.message_batches import iter_batches
from penstock.core.records import BATCH_HEADER_BYTES, read_header
from penstock.core.types import PartitionId
from penstock.machines.machine import Applied
from penstock.machines.publication_commands import (
    BeginPublication,
    PublicationCommand,
    SettleParts,
    decode_publication_command,
)
from penstock.machines.publications import PublicationReply
from penstock.machines.shard_machine import command_tag
from tests.simulation.checkers import broken

STAGING = PartitionId(20)
TARGETS = [PartitionId(21), PartitionId(22), PartitionId(23)]
TAGS = {command.__struct_config__.tag for command in get_args(PublicationCommand)}


@dataclass(slots=True)
class Attempt:
    """Somebody's try to publish a batch: from where on it needs what is staged, and until when."""

    first: int
    ended_us: int | None = None
    asked: bool = False
    """It may be decided, even after its end, by an entry that is on its way."""


@dataclass(slots=True)
class Told:
    """One application as the log says it is."""

    batch: int = -1
    lacking: dict[int, list[bytes]] = field(default_factory=dict)
    """Of the last batch: what partitions have not got yet, in order."""


class PublishingWatch:
    """The publications as the log says they are."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self.count = count
        self.index = 0
        self.staged: dict[int, bytes] = {}
        """By the offset of a staged batch: what is in it."""
        self.ends: dict[int, int] = {}
        self.told: dict[str, Told] = {}
        self.owner: dict[bytes, str] = {}
        """Whose a message is."""
        self.attempts: list[Attempt] = []
        self.next_batch: dict[str, int] = {}
        """As those who publish have it in their books."""
        self._producers = 5_000

    def new_producer(self) -> int:
        """An id that nobody ever had."""
        self._producers += 1
        return self._producers

    # What the log says.

    def saw_applied(self, entry: Entry, applied: Applied) -> None:
        """A replica has applied an entry; only the first one counts."""
        if entry.index <= self.index:
            return
        assert entry.index == self.index + 1, f"entry {entry.index} after {self.index}"
        self.index = entry.index
        if entry.kind is EntryKind.APPEND:
            self._append(entry.payload)
        elif entry.kind is EntryKind.COMMAND and command_tag(entry.payload) in TAGS:
            command = decode_publication_command(entry.payload)
            reply = applied.replies[0]
            if isinstance(command, BeginPublication) and isinstance(reply, PublicationReply):
                self._decided(command, reply)
            elif isinstance(command, SettleParts):
                self._settled(command)

    def _append(self, payload: bytes) -> None:
        _, slices, position = decode_append(payload)
        for part in slices:
            if part.partition == STAGING or part.partition in TARGETS:
                for batch in iter_batches(payload[position : position + part.length]):
                    header = read_header(batch)
                    value = bytes(batch[BATCH_HEADER_BYTES:]).rstrip(b".")
                    if part.partition == STAGING:
                        self.staged[header.base_offset] = value
                        self.ends[header.base_offset] = header.last_offset + 1
                    else:
                        self._came(part.partition, value)
            position += part.length

    def _came(self, partition: int, value: bytes) -> None:
        application = value.split(b"/")[0].decode()
        told = self.told.get(application, Told())
        lacking = told.lacking.get(partition, [])
        if not lacking or lacking[0] != value:
            raise broken(
                "PublishedOnce",
                f"partition {partition} gets {value!r}, and lacks {lacking} of {application}"
                f" {told.batch}",
            )
        lacking.pop(0)

    def _decided(self, command: BeginPublication, reply: PublicationReply) -> None:
        told = self.told.setdefault(command.application, Told())
        if reply.is_new != (command.batch > told.batch):
            raise broken("DecidedOnce", f"{command} after batch {told.batch}: {reply}")
        if not reply.is_new:
            self.count("batch repeated")
            return
        self._check_complete(command.application, "DecidedInOrder")
        told.batch = command.batch
        told.lacking = {}
        for part in command.parts:
            values = told.lacking[part.partition] = []
            for first, end in part.ranges:
                position: int = first
                while position < end:
                    values.append(self.staged[position])
                    position = self.ends[position]
        self.count("batch decided")

    def _settled(self, command: SettleParts) -> None:
        told = self.told.get(command.application, Told())
        for partition in command.partitions if told.batch == command.batch else ():
            if told.lacking.get(partition):
                raise broken("SettledIsThere", f"{command}, {told.lacking[partition]} is not there")

    def _check_complete(self, application: str, promise: str) -> None:
        told = self.told.get(application, Told())
        lacking = {number: values for number, values in told.lacking.items() if values}
        if lacking:
            raise broken(promise, f"batch {told.batch} of {application} lacks {lacking}")

    # What those who publish were told.

    def published(self, application: str, batch: int) -> None:
        """Somebody was told that the batch is there."""
        told = self.told.get(application, Told())
        if told.batch < batch:
            raise broken("PublishedIsThere", f"{application} is at {told.batch}, not {batch}")
        if told.batch == batch:
            self._check_complete(application, "PublishedIsThere")

    def check_final(self) -> None:
        """Nothing that was decided may be missing."""
        for application in self.told:
            self._check_complete(application, "EverythingPublished")
