"""The codecs of record batches: none, gzip, snappy (in the frames of snappy-java, or bare), lz4
frames, zstd.

What is decompressed came from a client, so time and memory are bounded by what came: the output by
`BATCH_UNPACKED_BYTES_MAX`, and the *parts* (members of a gzip file, blocks of snappy) by a number
that the caller gives. A part costs some microseconds however small it is, and 16 MiB have room for
millions of empty ones. What is wrong is `InvalidBatch`.
"""

import struct
import zlib
from collections.abc import Callable

import cramjam

from penstock.core.errors import InvalidBatch
from penstock.core.limits import BATCH_UNPACKED_BYTES_MAX

_GZIP_WINDOW = 31  # zlib's word for "a gzip header, the largest window"
_GZIP_STEP_BYTES = 256
_GZIP_STEP_BYTES_MAX = 1 << 20
_FRAMED_SNAPPY = b"\x82SNAPPY\x00"
_FRAMED_SNAPPY_HEAD = _FRAMED_SNAPPY + struct.pack(">ii", 1, 1)
_FRAMED_SNAPPY_BLOCK_BYTES = 32 * 1024
_SNAPPY_LENGTH = struct.Struct(">i")
_RATIOS_MAX = (1, 1_032, 22, 255, 32_768)
"""How many bytes a byte can become at most, by codec: gzip's longest match is two bits, a copy of
snappy 64 bytes in three, a length of lz4 goes on by 255 a byte, and four bytes of zstd can be a
block of 128 KiB."""
_OUTPUT_FACTOR = 4
_OUTPUT_BYTES_MIN = 4096


def decompress(
    packed: memoryview, codec: int, parts_max: int, bytes_max: int = BATCH_UNPACKED_BYTES_MAX
) -> bytes:
    """Decompress a batch; codec 0 is none."""
    if codec == 0:
        return bytes(packed)
    try:
        if codec == 1:
            return _ungzip(packed, parts_max, bytes_max)
        if codec == 2:
            return _unsnappy(packed, parts_max, bytes_max)
        if codec == 3:
            return _into_buffer(cramjam.lz4.decompress_into, packed, bytes_max)
        if codec == 4:
            return _into_buffer(cramjam.zstd.decompress_into, packed, bytes_max)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise InvalidBatch(f"the records cannot be decompressed: {error}") from error
    raise InvalidBatch(f"compression codec {codec} is not known")


def unpacked_bytes_max(packed_bytes: int, codec: int) -> int:
    """At most so much comes out of `decompress`; it may be far less."""
    return min(packed_bytes * _RATIOS_MAX[codec], BATCH_UNPACKED_BYTES_MAX)


def compress(records: bytes, codec: int) -> bytes:
    """Compress as `decompress` and Kafka's clients read it."""
    return _COMPRESS[codec](records) if codec else records


def _ungzip(packed: memoryview, members_max: int, bytes_max: int) -> bytes:
    """A gzip file is one member or several, one after the other. Where one ends is known when it
    was read, and what follows in the input is handed back as a copy: so the input is given in
    pieces, small ones at first."""
    parts: list[bytes] = []
    room = bytes_max + 1
    position, size, members = 0, len(packed), 0
    while position < size:
        members += 1
        if members > members_max:
            raise _too_many_parts("members of gzip", members_max)
        unzip = zlib.decompressobj(_GZIP_WINDOW)
        step = _GZIP_STEP_BYTES
        while not unzip.eof:
            if position == size:
                raise InvalidBatch("the compressed records are cut short")
            part = unzip.decompress(packed[position : position + step], room)
            position = min(position + step, size)
            step = min(step * _OUTPUT_FACTOR, _GZIP_STEP_BYTES_MAX)
            if part:
                parts.append(part)
                room -= len(part)
                if room <= 0:
                    raise _too_large(bytes_max)
        position -= len(unzip.unused_data)
    return b"".join(parts)


def _into_buffer(
    unpack: Callable[[memoryview, bytearray], int], packed: memoryview, bytes_max: int
) -> bytes:
    """Unpack into a buffer that is made larger as long as it is too small, up to the bound."""
    room = min(max(_OUTPUT_FACTOR * len(packed), _OUTPUT_BYTES_MIN), bytes_max)
    while True:
        out = bytearray(room)
        try:
            return bytes(memoryview(out)[: unpack(packed, out)])
        except cramjam.DecompressionError as error:
            # The one sign that it is the buffer and not the data.
            if "whole buffer" not in str(error):
                raise
            if room >= bytes_max:
                raise _too_large(bytes_max) from error
            room = min(_OUTPUT_FACTOR * room, bytes_max)


def _unsnappy(packed: memoryview, blocks_max: int, bytes_max: int) -> bytes:
    if packed[: len(_FRAMED_SNAPPY)] != _FRAMED_SNAPPY:
        return _unsnappy_block(packed, bytes_max, bytes_max)
    parts: list[bytes] = []
    room = bytes_max
    position, size = len(_FRAMED_SNAPPY_HEAD), len(packed)
    while position < size:
        if len(parts) == blocks_max:
            raise _too_many_parts("blocks of snappy", blocks_max)
        (length,) = _SNAPPY_LENGTH.unpack_from(packed, position)
        position += _SNAPPY_LENGTH.size
        if not 0 <= length <= size - position:
            raise InvalidBatch(f"a block of compressed records says it has {length} bytes")
        parts.append(_unsnappy_block(packed[position : position + length], room, bytes_max))
        room -= len(parts[-1])
        position += length
    return b"".join(parts)


def _unsnappy_block(packed: memoryview, room: int, bytes_max: int) -> bytes:
    data = packed.tobytes()
    if cramjam.snappy.decompress_raw_len(data) > room:
        raise _too_large(bytes_max)
    return bytes(cramjam.snappy.decompress_raw(data))


def _snappy(records: bytes) -> bytes:
    parts = [_FRAMED_SNAPPY_HEAD]
    for start in range(0, len(records), _FRAMED_SNAPPY_BLOCK_BYTES):
        block = records[start : start + _FRAMED_SNAPPY_BLOCK_BYTES]
        packed = bytes(cramjam.snappy.compress_raw(block))
        parts += (_SNAPPY_LENGTH.pack(len(packed)), packed)
    return b"".join(parts)


def _lz4(records: bytes) -> bytes:
    """Blocks that do not refer to each other: Kafka's Java client reads no others. The library's
    own level compresses no better and takes four to twenty times as long."""
    frame = cramjam.lz4.Compressor(level=0, block_linked=False)
    frame.compress(records)
    return bytes(frame.finish())


def _too_large(bytes_max: int) -> InvalidBatch:
    return InvalidBatch(f"the records unpack to more than {bytes_max} bytes")


def _too_many_parts(name: str, most: int) -> InvalidBatch:
    return InvalidBatch(f"the records are compressed in more than {most} {name}; use fewer")


_COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    1: lambda records: bytes(cramjam.gzip.compress(records)),
    2: _snappy,
    3: _lz4,
    4: lambda records: bytes(cramjam.zstd.compress(records)),
}
