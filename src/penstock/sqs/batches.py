"""The common rules of batches: the number of entries and their ids."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from penstock.sqs.answers import Refusal
from penstock.sqs.errors import (
    BatchEntryIdsNotDistinct,
    EmptyBatchRequest,
    InvalidBatchEntryId,
    SqsError,
    TooManyEntriesInBatchRequest,
)

ENTRIES_MAX = 10
ID_CHARACTERS_MAX = 80


class Entry(Protocol):
    @property
    def id(self) -> str | None: ...


E = TypeVar("E", bound=Entry)


def check_entries(entries: Sequence[E] | None, action: str) -> list[tuple[str, E]]:
    """Refuse a batch that cannot be one; returns the entries by name, in order."""
    if not entries:
        raise EmptyBatchRequest(action)
    if len(entries) > ENTRIES_MAX:
        raise TooManyEntriesInBatchRequest(len(entries), ENTRIES_MAX)
    names = [entry.id or "" for entry in entries]
    letters = "".join(names)  # All in one look, as nearly all names are right.
    if letters.isalnum() and letters.isascii() and len(letters) <= ID_CHARACTERS_MAX:
        if "" not in names and len(set(names)) == len(names):
            return list(zip(names, entries, strict=True))
    named: dict[str, E] = {}
    for name, entry in zip(names, entries, strict=True):
        if not is_id(name):
            raise InvalidBatchEntryId
        if name in named:
            raise BatchEntryIdsNotDistinct(name)
        named[name] = entry
    return list(named.items())


def is_id(name: str) -> bool:
    """Letters of ASCII, digits, hyphens and underscores, up to 80 of them."""
    if not 1 <= len(name) <= ID_CHARACTERS_MAX or not name.isascii():
        return False
    return name.isalnum() or name.replace("-", "0").replace("_", "0").isalnum()


def refuse_entry(entry_id: str, error: SqsError) -> Refusal:
    """Why one entry is not carried out, while others may be."""
    return Refusal(
        id=entry_id, sender_fault=error.fault == "Sender", code=error.code, message=error.message
    )
