"""The document that a queue's SQS attributes without further meaning are in."""

import pytest

from penstock.sqs.queue_document import NO_DOCUMENT, QueueDocument, read_document


def test_a_document_comes_back() -> None:
    document = QueueDocument({"Policy": "{}"}, {"team": "a"}, 1_700_000_000)
    assert read_document(document.write()) == document


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"attributes": 3}', "[" * 10_000])
def test_what_cannot_be_read_is_none(text: str) -> None:
    assert read_document(text) is NO_DOCUMENT


def test_the_largest_message() -> None:
    assert NO_DOCUMENT.message_bytes_max == 1_048_576
    assert QueueDocument({"MaximumMessageSize": "1024"}).message_bytes_max == 1_024
    assert QueueDocument({"MaximumMessageSize": "by hand"}).message_bytes_max == 1_048_576
