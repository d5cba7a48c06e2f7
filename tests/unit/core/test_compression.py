"""`core.compression`: every codec both ways, and what it costs to unpack what somebody made up."""

import gzip
import struct
import zlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.compression import compress, decompress, unpacked_bytes_max
from penstock.core.errors import InvalidBatch
from penstock.core.limits import BATCH_UNPACKED_BYTES_MAX, BATCH_UNPACKED_PARTS_MAX

CODECS = range(5)
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=200, database=None)
EMPTY_MEMBER = gzip.compress(b"", mtime=0)
SNAPPY_HEAD = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
EMPTY_BLOCK = struct.pack(">i", 1) + b"\0"


def unpack(packed: bytes, codec: int, parts_max: int = BATCH_UNPACKED_PARTS_MAX) -> bytes:
    return decompress(memoryview(packed), codec, parts_max)


def naive_ungzip(packed: bytes) -> bytes:
    """What the standard library makes of it."""
    return gzip.decompress(packed)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 100_000])
def test_what_is_compressed_is_read(codec: int, size: int) -> None:
    data = Random(size).randbytes(size // 2) + bytes(size - size // 2)
    assert unpack(compress(data, codec), codec) == data


def test_a_codec_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidBatch, match="codec 5 is not known"):
        unpack(b"", 5)


@REPEATABLE
@given(
    members=st.lists(
        st.one_of(st.binary(max_size=600), st.builds(bytes, st.integers(0, 3_000))), max_size=8
    ),
    level=st.integers(0, 9),
)
def test_members_of_gzip_are_read_wherever_they_end(members: list[bytes], level: int) -> None:
    packed = b"".join(gzip.compress(one, level, mtime=0) for one in members)
    assert unpack(packed, 1) == naive_ungzip(packed) == b"".join(members)


@REPEATABLE
@given(data=st.binary(min_size=1, max_size=400), cut=st.integers(1, 30), junk=st.binary(max_size=9))
def test_a_member_that_is_cut_or_followed_by_something_else_is_refused(
    data: bytes, cut: int, junk: bytes
) -> None:
    packed = gzip.compress(data, mtime=0)
    for wrong in (packed[: -min(cut, len(packed) - 1)], packed + b"x" + junk):
        with pytest.raises(InvalidBatch):
            unpack(wrong, 1)


def test_many_members_of_gzip_cost_what_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given to zlib again and again is what it has to copy: with every member a piece."""
    given_bytes = 0
    real = zlib.decompressobj

    class Counted:
        def __init__(self, window: int) -> None:
            self._real = real(window)

        def decompress(self, data: memoryview, most: int) -> bytes:
            nonlocal given_bytes
            given_bytes += len(data)
            return self._real.decompress(data, most)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    spent = []
    for count in (1_000, 4_000):
        given_bytes = 0
        assert unpack(EMPTY_MEMBER * count + gzip.compress(b"the end"), 1) == b"the end"
        spent.append(given_bytes)
    assert spent[1] < 4.1 * spent[0]


@pytest.mark.parametrize(
    ("packed", "codec"),
    [
        (EMPTY_MEMBER * (BATCH_UNPACKED_PARTS_MAX + 1), 1),
        (SNAPPY_HEAD + EMPTY_BLOCK * (BATCH_UNPACKED_PARTS_MAX + 1), 2),
    ],
)
def test_so_many_parts_and_no_more(packed: bytes, codec: int) -> None:
    with pytest.raises(InvalidBatch, match=f"more than {BATCH_UNPACKED_PARTS_MAX} "):
        unpack(packed, codec)
    assert unpack(packed, codec, BATCH_UNPACKED_PARTS_MAX + 1) == b""


@pytest.mark.parametrize("codec", CODECS[1:])
def test_no_more_bytes_than_the_bound(codec: int) -> None:
    packed = memoryview(compress(bytes(10_000), codec))
    assert decompress(packed, codec, 10, 10_000) == bytes(10_000)
    with pytest.raises(InvalidBatch, match="more than 9999 bytes"):
        decompress(packed, codec, 10, 9_999)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_nothing_unpacks_to_more_than_it_may(codec: int) -> None:
    data = bytes(8 << 20)
    packed = compress(data, codec)
    assert len(data) <= unpacked_bytes_max(len(packed), codec) <= BATCH_UNPACKED_BYTES_MAX
    assert unpacked_bytes_max(16 << 20, codec) == BATCH_UNPACKED_BYTES_MAX


def test_a_window_of_two_gibibytes_is_refused_and_not_made() -> None:
    frame = struct.pack("<I", 0xFD2FB528) + bytes([0, (31 - 10) << 3]) + b"\x01\0\0"
    with pytest.raises(InvalidBatch, match="cannot be decompressed"):
        unpack(frame, 4)
