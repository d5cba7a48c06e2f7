"""Record batches that lie, and bodies that grow when they are opened.

Every batch has a header and a checksum that are right, so that it passes the door and meets the
code that opens it.
"""

import gzip
import struct
import time
import zlib

import cramjam
from crc32c import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
TIME_MS = int(time.time() * 1_000)
"""Of records that the broker is to keep."""
PAST_MS = 1_700_000_000_000
"""Of fuzzed records, which are the same in every run."""
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def batch(
    body: bytes,
    count: int,
    *,
    codec: int = NONE,
    delta: int | None = None,
    attributes: int = 0,
    time_ms: int = TIME_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch with this body that says it has `count` records."""
    last = count - 1 if delta is None else delta
    head = _HEADER.pack(
        0, 49 + len(body), 0, 2, 0, codec | attributes, last, time_ms, time_ms, *producer, count
    )
    whole = bytearray(head + body)
    whole[17:21] = crc32c(memoryview(whole)[21:]).to_bytes(4, "big")
    return bytes(whole)


def zigzag(value: int) -> bytes:
    """A signed varint."""
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(
    value: bytes, offset: int = 0, *, key: bytes | None = None, headers: bytes = b"\0"
) -> bytes:
    """One record; `headers` is the encoded count and what follows it."""
    keyed = zigzag(-1) if key is None else zigzag(len(key)) + key
    body = b"\0" + zigzag(0) + zigzag(offset) + keyed + zigzag(len(value)) + value + headers
    return zigzag(len(body)) + body


def records(values: list[bytes]) -> bytes:
    """Records one after the other."""
    return b"".join(record(value, number) for number, value in enumerate(values))


def honest(values: list[bytes], time_ms: int = TIME_MS) -> bytes:
    """A batch as a client would send it."""
    return batch(records(values), len(values), time_ms=time_ms)


def values_of(data: bytes) -> list[bytes]:
    """The values in uncompressed batches, as `honest` makes them."""
    found: list[bytes] = []
    at = 0
    while at + 61 <= len(data):
        length = struct.unpack_from(">i", data, at + 8)[0]
        end = at + 12 + length
        if end > len(data):
            break
        position = at + 61
        while position < end:
            size, position = _zigzag_at(data, position)
            found.append(_value_at(data, position))
            position += size
        at = end
    return found


def _value_at(data: bytes, position: int) -> bytes:
    position += 1
    for _ in range(2):
        _, position = _zigzag_at(data, position)
    size, position = _zigzag_at(data, position)
    size, position = _zigzag_at(data, position + max(size, 0))
    return data[position : position + max(size, 0)]


def _zigzag_at(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), position


# Bodies that grow.


def empty_gzip_members(size: int) -> bytes:
    """As many empty gzip members as fit: each is 20 bytes and opens to nothing."""
    member = gzip.compress(b"", mtime=0)
    return member * (size // len(member))


def gzip_bomb(megabytes: int) -> bytes:
    """Zeros, compressed as far as gzip goes, made in pieces."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    return b"".join(squeeze.compress(piece) for _ in range(megabytes)) + squeeze.flush()


def many_records_gzip(count: int) -> bytes:
    """As many smallest records, compressed: a few bits each."""
    return gzip.compress(b"".join(record(b"", number) for number in range(count)), 9, mtime=0)


def snappy_blocks(count: int) -> bytes:
    """The framing of snappy-java with as many blocks of one byte."""
    block = bytes(cramjam.snappy.compress_raw(b"x"))
    return (
        b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * count
    )


def snappy_claim(size: int) -> bytes:
    """A bare snappy block that says how large it opens, and has nothing."""
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out) + b"\0x"


def lz4_bomb(megabytes: int) -> bytes:
    """Zeros in one lz4 frame."""
    return bytes(cramjam.lz4.compress(bytes(megabytes << 20)))


def lz4_frames(count: int) -> bytes:
    """Many frames of one byte, one after the other."""
    return bytes(cramjam.lz4.compress(b"x")) * count


def zstd_bomb(megabytes: int) -> bytes:
    """Zeros in one zstd frame."""
    return bytes(cramjam.zstd.compress(bytes(megabytes << 20), 9))


def zstd_window() -> bytes:
    """A zstd frame whose header asks for a window of two gigabytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0x00, (31 - 10) << 3]) + b"\x01\x00\x00"


def zstd_frames(count: int) -> bytes:
    """Many empty zstd frames."""
    return bytes(cramjam.zstd.compress(b"", 1)) * count
