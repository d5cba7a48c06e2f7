"""The id of a message, as SQS shows one: text in the form of a UUID.

It follows from where the message is, so that nothing has to be stored: every node that is asked, at
any time, says the same. A topic's id is never used again, hence neither is a message's. A message
that was moved carries the id it had before in a header (`delivery_headers.MESSAGE_ID`), and that
one counts.

The text is 122 bits of a hash, in the layout of RFC 9562's version 8: bits of the maker's own.
"""

import struct
from hashlib import blake2b

from penstock.core.types import Offset, TopicId

MESSAGE_ID_PERSON = b"penstock message"
"""The personalisation of the hash, which separates message ids from other hashes."""
_BEGUN = blake2b(digest_size=16, person=MESSAGE_ID_PERSON).copy
"""A hash of nothing yet: a copy takes half the time of a new one."""
_PLACE = struct.Struct(">16sIQ").pack
_VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""A hexadecimal digit, with the variant's bits in place of its upper two."""


def message_id(topic_id: TopicId, index: int, offset: Offset) -> str:
    """The id of the message at an offset of the topic's partition of this index."""
    hashed = _BEGUN()
    hashed.update(_PLACE(topic_id, index, offset))
    text = hashed.hexdigest()
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{_VARIANTS[text[16]]}{text[17:20]}-{text[20:]}"
