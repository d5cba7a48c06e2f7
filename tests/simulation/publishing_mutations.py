"""Planted bugs of publications; see `tests/simulation/planting.py`."""

from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.engine.topics.staging import StagingIndex
from penstock.machines.machine import Reply
from penstock.machines.publication_commands import BeginPublication, SettleParts
from penstock.machines.publications import Publications
from penstock.machines.state_pieces import Piece, joined
from tests.simulation.planting import Patch, mutation


@mutation
def publications_share_an_epoch() -> list[Patch]:
    """The next batch's part looks as if it were there already."""
    original = Publications._next_epoch

    def next_epoch(self: Publications, known: Any, producer_id: Any) -> tuple[Any, int]:
        if known is None:
            return original(self, known, producer_id)
        return known.producer_id, known.epoch

    return [(Publications, "_next_epoch", next_epoch)]


@mutation
def a_batch_is_decided_again() -> list[Patch]:
    """A batch that is over is published again for whoever never got an answer."""
    original = Publications._begin

    def begin(self: Publications, command: BeginPublication) -> Reply:
        known = self._applications.get(command.application)
        if known is not None and known.under_way is None and known.last_batch == command.batch:
            self._keep(msgspec.structs.replace(known, last_batch=command.batch - 1))
        return original(self, command)

    return [(Publications, "_begin", begin)]


@mutation
def one_part_settles_all() -> list[Patch]:
    """A publication is over when the first of its partitions has its part."""
    original = Publications._settle

    def settle(self: Publications, command: SettleParts) -> Reply:
        known = self._applications.get(command.application)
        if known is not None and known.under_way is not None:
            everybody = tuple(part.partition for part in known.under_way.parts)
            command = msgspec.structs.replace(command, partitions=everybody)
        return original(self, command)

    return [(Publications, "_settle", settle)]


@mutation
def publications_do_not_wait_for_each_other() -> list[Patch]:
    """The next batch is decided while the one before is on its way, which is then forgotten."""
    original = Publications._begin

    def begin(self: Publications, command: BeginPublication) -> Reply:
        known = self._applications.get(command.application)
        if known is not None and command.batch > known.last_batch:
            self._keep(msgspec.structs.replace(known, under_way=None))
        return original(self, command)

    return [(Publications, "_begin", begin)]


@mutation
def what_others_staged_is_trimmed() -> list[Patch]:
    """A leader that was replaced and leads again takes its old ledger for the whole truth."""

    def is_of(self: StagingIndex, running: Any, staging: Any) -> bool:
        return self._running is running and self.staging == staging

    return [(StagingIndex, "is_of", is_of)]


@mutation
def snapshot_without_publications() -> list[Patch]:
    """A snapshot forgets what was published and what is under way."""
    original = Publications.snapshot_pieces

    def snapshot_pieces(self: Publications) -> Iterator[Piece]:
        kept, self._applications = self._applications, {}
        try:
            return iter((joined(original(self)),))
        finally:
            self._applications = kept

    return [(Publications, "snapshot_pieces", snapshot_pieces)]
