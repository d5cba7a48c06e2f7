"""What a member of a consumer group reads, as far as its metadata and its assignment tell.

Both belong to the clients and are opaque to the broker, but consumers all begin theirs in the same
way (Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment, every version). The topics
are needed where an operator deletes offsets and where a static member returns, the assigned
partitions to describe a group.

    subscription   version int16 | topics [string] ...
    assignment     version int16 | [topic string, partitions [int32]] ...

A list is its count as int32 and its elements, a string its length as int16 and UTF-8.
"""

import struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_HEAD = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")
_COUNT = struct.Struct(">i")


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


def read_assignment(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """The partitions assigned to a consumer, as (topic, partition); none if these bytes are
    something else."""
    found: list[tuple[str, int]] = []
    try:
        version, count = _HEAD.unpack_from(assignment)
        position = _HEAD.size
        if version < 0:
            return ()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(assignment, position)
            start = position + _LENGTH.size
            if length < 0:
                return ()
            topic = assignment[start : start + length].decode()
            (size,) = _COUNT.unpack_from(assignment, start + length)
            position = start + length + _COUNT.size
            indexes = struct.unpack_from(f">{size}i", assignment, position)
            position += size * _COUNT.size
            found += [(topic, index) for index in indexes]
    except (struct.error, UnicodeDecodeError):
        return ()
    return tuple(found)
