"""A lease as text, so that another program than the one that received a message can settle it.

It says what the broker has to know of the lease, and is as good as the lease: a program that has it
can settle the message while the lease lasts. It is not the receipt of HTTP and SQS, which the
cluster signs for clients that could make one up.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from penstock.core.decoders import UNREADABLE, msgpack_decoder
from penstock.core.errors import InvalidReceipt

RECEIPT_CHARACTERS_MAX: Final = 2_000
_PREFIX: Final = "lease-"
_EXAMPLE: Final = "a receipt is the text of `message.receipt`, unchanged"


class LeaseReceipt(msgspec.Struct, frozen=True, array_like=True):
    """The place and the lease of a message."""

    topic_id: bytes
    partition: int
    group: str
    epoch: int
    offset: int
    duration_ms: int


_DECODER: Final[msgspec.msgpack.Decoder[LeaseReceipt]] = msgpack_decoder(LeaseReceipt)


def write_receipt(receipt: LeaseReceipt) -> str:
    """Encode a receipt as text."""
    return _PREFIX + urlsafe_b64encode(msgspec.msgpack.encode(receipt)).decode().rstrip("=")


def read_receipt(text: str) -> LeaseReceipt:
    """From text, or `InvalidReceipt`."""
    if len(text) > RECEIPT_CHARACTERS_MAX or not text.startswith(_PREFIX):
        raise InvalidReceipt(f"{text[:40]!r} is no receipt: {_EXAMPLE}")
    data = text.removeprefix(_PREFIX)
    try:
        return _DECODER.decode(urlsafe_b64decode(data + "=" * (-len(data) % 4)))
    except (ValueError, *UNREADABLE) as error:
        raise InvalidReceipt(f"{text[:40]!r} cannot be read: {_EXAMPLE}") from error
