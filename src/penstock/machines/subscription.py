"""Which topics a member of a consumer group reads, as far as its metadata tells.

Metadata belongs to the clients and is opaque to the broker, but for one thing: consumers all
begin theirs in the same way (Kafka's ConsumerProtocolSubscription, every version), and an operator
who deletes offsets, or a static member that returns, makes us want to know the topics.

    version  int16    topics  int32 count, then per topic: int16 length, UTF-8    ...
"""

import struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def read_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics a consumer subscribes to; None if these bytes are something else."""
    if len(metadata) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(metadata)
    # Each topic takes at least the two bytes of its length: a count that cannot be is not believed.
    if version < 0 or not 0 <= count <= (len(metadata) - _HEAD.size) // _LENGTH.size:
        return None
    topics = set()
    position = _HEAD.size
    for _ in range(count):
        start = position + _LENGTH.size
        if start > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position = start + length
        if length < 0 or position > len(metadata):
            return None
        try:
            topics.add(metadata[start:position].decode())
        except UnicodeDecodeError:
            return None
    return frozenset(topics)
