"""What a message of another node must be before a replica takes it.

Raft believes what its peers say, and must: a term is a promise, kept on disk. So the numbers are
bounded here, where messages are decoded, and entries are checked before they are stored. What is
wrong is an `InvalidFrame` and ends the link.
"""

from penstock.core.entries import Entry
from penstock.core.errors import InvalidBatch, InvalidFrame
from penstock.core.limits import INDEX_MAX, TERM_JUMP_MAX, TERM_MAX
from penstock.core.types import NO_TERM, Index, Term
from penstock.engine.replica.network import PeerMessage, SnapshotPart, SnapshotRequest
from penstock.machines.entry_check import check_entry
from penstock.raft.messages import (
    AppendRequest,
    AppendResponse,
    Heartbeat,
    SnapshotOffer,
    VoteRequest,
)


def check_message(message: PeerMessage) -> None:
    """Raise `InvalidFrame` unless a replica may take the message."""
    if isinstance(message, SnapshotPart | SnapshotRequest):
        indexes = [message.mark.index, message.records_after, message.erased_through]
        terms = [message.mark.term]
        if message.state_position < 0:
            raise InvalidFrame(f"a position below zero: {message.describe()}")
        if isinstance(message, SnapshotPart):
            indexes.append(message.records_through)
            _check_entries(message.entries)
    else:
        terms, indexes = [message.term], []
        if isinstance(message, AppendRequest):
            terms.append(message.previous_term)
            indexes += [message.previous_index, message.commit]
            _check_appended(message)
        elif isinstance(message, AppendResponse):
            terms.append(message.hint_term)
            indexes += [message.match, message.rejected, message.hint_index]
        elif isinstance(message, Heartbeat):
            indexes += [message.commit, message.repair_until]
        elif isinstance(message, VoteRequest):
            terms.append(message.last_term)
            indexes.append(message.last_index)
        elif isinstance(message, SnapshotOffer):
            terms.append(message.mark.term)
            indexes.append(message.mark.index)
    if not (min(terms) >= 0 and max(terms) <= TERM_MAX):
        raise InvalidFrame(f"a term that cannot be: {message.describe()}")
    if indexes and not (min(indexes) >= 0 and max(indexes) <= INDEX_MAX):
        raise InvalidFrame(f"an index that cannot be: {message.describe()}")


def check_jump(message: PeerMessage, known: Term) -> None:
    """Refuse a term that is further ahead of the one known here than elections can have brought it.
    A replica that is new, and so knows no term, cannot tell."""
    if isinstance(message, SnapshotPart | SnapshotRequest) or known == NO_TERM:
        return
    if message.term > known + TERM_JUMP_MAX:
        raise InvalidFrame(
            f"term {known} is known here, and this is too far ahead: {message.describe()}"
        )


def _check_appended(message: AppendRequest) -> None:
    index, term = message.previous_index, message.previous_term
    for entry in message.entries:
        index = Index(index + 1)
        if entry.index != index or not term <= entry.term <= message.term:
            raise InvalidFrame(f"entry {entry.describe()} has no place in {message.describe()}")
        term = entry.term
    _check_entries(message.entries)


def _check_entries(entries: tuple[Entry, ...]) -> None:
    for entry in entries:
        try:
            check_entry(entry)
        except InvalidBatch as error:
            raise InvalidFrame(str(error)) from None
