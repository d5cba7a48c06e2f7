"""The config `queue.sqs`: the attributes of a queue that have no meaning outside of SQS.

Attributes that have a meaning here are topic configs of their own, and every client can read and
change them (see `attributes`). What is left, policies, keys, tags, is one JSON document:

    {"attributes": {"Policy": "…"}, "tags": {"team": "a"}, "modified_s": 1700000000}

A topic that was not made through SQS has none. One that cannot be read, because it was set by
hand, counts as none: it must not keep clients from sending.
"""

from functools import cached_property, lru_cache

import msgspec

from penstock.core.decoders import json_decoder

MESSAGE_BYTES_MAX = 1_048_576
DOCUMENTS_KEPT = 4_096
MAXIMUM_MESSAGE_SIZE = "MaximumMessageSize"


class QueueDocument(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The content of the config. Do not change its dictionaries."""

    attributes: dict[str, str] = {}
    tags: dict[str, str] = {}
    modified_s: int = 0
    """The time when attributes were last changed through SQS; 0: never."""

    @cached_property
    def message_bytes_max(self) -> int:
        """The largest size of a message."""
        text = self.attributes.get(MAXIMUM_MESSAGE_SIZE)
        return int(text) if text is not None and text.isdecimal() else MESSAGE_BYTES_MAX

    def write(self) -> str:
        """Encode it as the text of the config."""
        return msgspec.json.encode(self).decode()


_DECODER: msgspec.json.Decoder[QueueDocument] = json_decoder(QueueDocument)
NO_DOCUMENT = QueueDocument()


@lru_cache(DOCUMENTS_KEPT)
def read_document(text: str) -> QueueDocument:
    """The document of a config's text."""
    if not text:
        return NO_DOCUMENT
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return NO_DOCUMENT
