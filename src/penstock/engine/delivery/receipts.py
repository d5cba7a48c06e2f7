"""Receipts as text: what a worker holds while it has a message, and hands back to settle it.

A receipt says which message, of which work group, under which lease. It is signed with a key that
all nodes of the cluster share, so that any of them accepts it and none can be forged. Whether the
lease is still the latest is another question: the machine answers that one.

    version u8 | partition u32 | offset u64 | epoch u64 | MAC, 12 bytes | group, UTF-8

in URL-safe base 64 without padding.
"""

import binascii
import struct
from binascii import a2b_base64, b2a_base64
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest

from penstock.core.errors import InvalidReceipt
from penstock.core.limits import GROUP_NAME_BYTES_MAX
from penstock.core.types import Offset, PartitionId
from penstock.engine.delivery.requests import Receipt

_VERSION = 1
_HEAD = struct.Struct(">BIQQ")
_MAC_BYTES = 12
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_BODY_AT = _HEAD.size + _MAC_BYTES
_CHARACTERS_MAX = 4 * (GROUP_NAME_BYTES_MAX + _BODY_AT) // 3 + 4


@lru_cache(maxsize=4)
def _keyed(key: bytes) -> blake2b:
    """A hash that has taken in the key and nothing else: copied, it need not do so again."""
    return blake2b(key=key, digest_size=_MAC_BYTES)


def sign_receipt(receipt: Receipt, key: bytes) -> str:
    """The receipt as text."""
    head = _HEAD.pack(_VERSION, receipt.partition, receipt.offset, receipt.epoch)
    group = receipt.group.encode()
    keyed = _keyed(key).copy()
    keyed.update(head + group)
    mac = keyed.digest()
    text = b2a_base64(head + mac + group, newline=False)
    return text.translate(_TO_URL).rstrip(b"=").decode()


def read_receipt(text: str, key: bytes) -> Receipt:
    """The receipt that a text stands for; `InvalidReceipt` if it was never handed out."""
    if len(text) > _CHARACTERS_MAX:
        raise InvalidReceipt(f"a receipt of {len(text)} characters is none")
    try:
        data = a2b_base64(text.encode("ascii").translate(_FROM_URL) + b"=" * (-len(text) % 4))
        version, partition, offset, epoch = _HEAD.unpack_from(data)
        head, mac, group = data[: _HEAD.size], data[_HEAD.size : _BODY_AT], data[_BODY_AT:]
        keyed = _keyed(key).copy()
        keyed.update(head + group)
        if version != _VERSION or not compare_digest(mac, keyed.digest()):
            raise InvalidReceipt("this receipt was not handed out by this cluster")
        return Receipt(PartitionId(partition), group.decode(), Offset(offset), epoch)
    except (struct.error, binascii.Error, UnicodeError) as error:
        raise InvalidReceipt(f"this is no receipt: {error}") from error
