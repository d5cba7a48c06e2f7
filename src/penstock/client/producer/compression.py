"""Compression of a client's batches: which batches, and how.

A batch is compressed as a whole, as Kafka's clients do it and read it. Small messages are not worth
it: they are sent faster than they are compressed, and the broker, which must open a compressed
batch to see whether a message asks for something special, reads a plain one by looking for a word.
So a batch is compressed if its messages are large on average, and stays so only if it shrinks by a
tenth: images and what is compressed already go as they are. Who sends such things mostly goes on
doing so, and to try takes as long as to send: after a batch that did not shrink, it is tried again
only now and then.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from penstock.core.errors import InvalidRequest
from penstock.core.limits import KIB
from penstock.core.record_bodies import pack_body

CompressionCodec: TypeAlias = Literal["gzip", "snappy", "lz4", "zstd"]

CODES: dict[CompressionCodec, int] = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""The codes of the codecs in a batch's attributes; 0 is none."""
UNCOMPRESSED = 0
THRESHOLD_BYTES = 1 * KIB
KEPT_SHARE_MAX = 0.9
"""A compressed batch must have at most this share of its size, or it was not worth it."""

SKIPS_MAX = 15
"""The number of batches sent uncompressed after one that did not shrink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """The compression settings of a client."""

    codec: CompressionCodec = "lz4"
    threshold_bytes: int | None = THRESHOLD_BYTES
    """From which average size of a message on; 0: always; None: never."""

    def __post_init__(self) -> None:
        """Refuse what cannot be here, where it was written, and not at the first large batch."""
        if self.codec not in CODES:
            names = ", ".join(get_args(CompressionCodec))
            raise InvalidRequest(f"codec={self.codec!r} cannot be: it is one of {names}.")
        if self.threshold_bytes is not None and self.threshold_bytes < 0:
            raise InvalidRequest(
                f"threshold_bytes={self.threshold_bytes} cannot be: it is at least 0, or None."
            )

    def applies_to(self, body_bytes: int, records: int) -> bool:
        """True if a batch of this size should be compressed."""
        threshold = self.threshold_bytes
        return threshold is not None and body_bytes >= threshold * records and records > 0

    def compress(self, body: bytes, records: int) -> tuple[int, bytes]:
        """The codec's code for the batch's attributes, and the body it tells of."""
        if not self.applies_to(len(body), records):
            return UNCOMPRESSED, body
        packed = compress_body(body, self.codec)
        if len(packed) > len(body) * KEPT_SHARE_MAX:
            return UNCOMPRESSED, body
        return CODES[self.codec], packed


class Compressor:
    """The compression of one row of batches; remembers whether it was worth it."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._skips = 0
        self.applies_to = compression.applies_to

    def compress(self, body: bytes, records: int) -> tuple[int, bytes]:
        """As `Compression.compress`, or as it is, if the last ones did not shrink."""
        if not self.applies_to(len(body), records):
            return UNCOMPRESSED, body
        if self._skips:
            self._skips -= 1
            return UNCOMPRESSED, body
        code, packed = self._compression.compress(body, records)
        if code == UNCOMPRESSED:
            self._skips = SKIPS_MAX
        return code, packed


OFF = Compression(threshold_bytes=None)


def compress_body(body: bytes, codec: CompressionCodec) -> bytes:
    """The records of a batch, compressed in the frames that Kafka's clients read."""
    return pack_body(body, CODES[codec])
