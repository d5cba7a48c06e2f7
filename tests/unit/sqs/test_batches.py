"""What all batches have in common."""

import pytest

from penstock.sqs.batches import check_entries, is_id, refuse_entry
from penstock.sqs.errors import (
    BatchEntryIdsNotDistinct,
    EmptyBatchRequest,
    InternalFailure,
    InvalidBatchEntryId,
    InvalidMessageContents,
    SqsError,
    TooManyEntriesInBatchRequest,
)
from penstock.sqs.requests import DeleteMessageBatchEntry


def entries(*names: str | None) -> list[DeleteMessageBatchEntry]:
    return [DeleteMessageBatchEntry(id=name) for name in names]


def test_entries_by_their_names() -> None:
    given = entries("b", "a")
    assert check_entries(given, "DeleteMessageBatch") == [("b", given[0]), ("a", given[1])]


REFUSED: list[tuple[list[DeleteMessageBatchEntry] | None, type[SqsError], str]] = [
    (None, EmptyBatchRequest, "There should be at least one DeleteMessageBatchRequestEntry in"),
    ([], EmptyBatchRequest, "There should be at least one DeleteMessageBatchRequestEntry in"),
    (
        entries(*map(str, range(11))),
        TooManyEntriesInBatchRequest,
        "Maximum number of entries per request are 10. You have sent 11.",
    ),
    (entries("a", "b", "a"), BatchEntryIdsNotDistinct, "Id a repeated."),
    (entries("a:b"), InvalidBatchEntryId, "A batch entry id can only contain alphanumeric"),
    (entries(""), InvalidBatchEntryId, "A batch entry id"),
    (entries(None), InvalidBatchEntryId, "A batch entry id"),
    (entries("x" * 81), InvalidBatchEntryId, "It can be at most 80 letters long."),
]


@pytest.mark.parametrize(("given", "kind", "words"), REFUSED)
def test_batches_that_are_none(
    given: list[DeleteMessageBatchEntry] | None, kind: type[SqsError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        check_entries(given, "DeleteMessageBatch")
    assert words in caught.value.message


def test_names_of_entries() -> None:
    assert all(is_id(name) for name in ("a", "A-1_b", "-", "x" * 80))
    assert not any(is_id(name) for name in ("", "ä", "a b", "a.b", "x" * 81, "²"))


def test_whose_fault_it_is() -> None:
    theirs = refuse_entry("a", InvalidMessageContents())
    ours = refuse_entry("a", InternalFailure("broken"))
    assert (theirs.code, theirs.sender_fault) == ("InvalidMessageContents", True)
    assert (ours.code, ours.sender_fault, ours.message) == ("InternalFailure", False, "broken")
