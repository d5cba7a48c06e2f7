"""The hash by which Kafka's clients choose a partition.

Broker and client share it, so that a key goes to one and the same partition from every producer. In
Python it costs most of a microsecond for a short key: a sender that meets the same keys again and
again remembers what it computed (see `client.producer.partitioners`).
"""

from struct import Struct, unpack_from

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995

_UNPACK = [Struct(f"<{words}I").unpack_from for words in range(64)]
"""All words of a key at once, for keys of up to 255 bytes."""


def murmur2(data: bytes) -> int:
    """The hash of Kafka's default partitioner, as an unsigned number of 32 bits."""
    length = len(data)
    value = _SEED ^ length
    words = length >> 2
    for k in _UNPACK[words](data) if words < 64 else unpack_from(f"<{words}I", data):
        mixed = k * _M & _MASK
        value = (value * _M ^ (mixed ^ mixed >> 24) * _M) & _MASK
    rest = length & 3
    if rest:
        value = (value ^ int.from_bytes(data[-rest:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition that Kafka's clients choose for a key; like Java's it drops the sign."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
