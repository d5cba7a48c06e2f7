"""The record of an entry on disk: a header of 44 bytes and the unchanged payload.

    byte  0  magic           u16
          2  version         u8
          3  kind            u8    EntryKind
          4  length          u32   of the payload
          8  term            u64
         16  index           u64
         24  previous chain  u32   the chain of the entry before
         28  payload crc     u32   CRC-32C of the payload
         32  chain           u32   CRC-32C of bytes 3 to 36
         36  promised        u32   index − durable index known when this was written, saturating
         40  header crc      u32   CRC-32C of bytes 0 to 40, begun with the segment's salt
         44  payload

The header has its own checksum so that a length is verified before it is believed, and so that a
scan past damage can recognise later records without their payloads. The chain makes an entry vouch
for all before it; it depends on nothing but the entries, so replicas that wrote the same log from
the same start have the same chain. `promised` is the durable marker carried in the log itself: a
record that says "index 90 was durable when I, 100, was written" turns a bad record 85 before it
into damage, and a bad record 95 into a torn write that was never acknowledged.

The salt is the checksum of the segment's header. It keeps bytes of another segment, an old one in
reused space or one that a client stores as a message, from ever passing for records of this one.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from penstock.core.append_payload import AppendPayload, check_append
from penstock.core.checksum import crc32c
from penstock.core.decoders import msgpack_decoder
from penstock.core.entries import EntryKind, decode_membership
from penstock.core.errors import InvalidBatch
from penstock.core.limits import ENTRY_PAYLOAD_BYTES_MAX
from penstock.core.records import BATCH_HEADER_BYTES, read_outline
from penstock.core.types import Index, Offset, Term
from penstock.storage.disk import File

RECORD_HEADER_BYTES = 44
RECORD_MAGIC = 0xD7A9
RECORD_VERSION = 1
PROMISED_MAX = 0xFFFF_FFFF

_MAGIC_BYTES = RECORD_MAGIC.to_bytes(2, "little")
_CHAINED = struct.Struct("<HBBIQQII")
_REST = struct.Struct("<II")
_CHECKSUM = struct.Struct("<I")
_HEADER = struct.Struct("<HBBIQQIIIII")
_CHAIN_FROM = 3
_COMMAND: msgspec.msgpack.Decoder[list[msgspec.Raw]] = msgpack_decoder(list[msgspec.Raw])
_TAG: msgspec.msgpack.Decoder[str] = msgpack_decoder(str)
_CHUNK_BYTES = 1 << 20
_ZEROS = bytes(_CHUNK_BYTES)


class RecordHeader(NamedTuple):
    """A decoded header."""

    magic: int
    version: int
    kind: int
    length: int
    term: Term
    index: Index  # type: ignore[assignment]  # hides `tuple.index`, which is not used
    previous_chain: int
    payload_crc: int
    chain: int
    promised: int
    header_crc: int

    @property
    def size(self) -> int:
        """The size of the whole record in bytes."""
        return RECORD_HEADER_BYTES + self.length

    @property
    def durable(self) -> Index:
        """The index this record knew to be durable when it was written."""
        return Index(self.index - self.promised if self.promised < PROMISED_MAX else 0)


def chain_seed(index: Index, term: Term) -> int:
    """The chain of a log that starts after (`index`, `term`) without knowing what came before."""
    return crc32c(struct.pack("<QQ", index, term)) if index else 0


def encode_header(
    kind: int,
    length: int,
    term: Term,
    index: Index,
    previous_chain: int,
    payload_crc: int,
    promised: int,
    salt: int,
) -> tuple[bytes, int]:
    """The header of a record, and the chain after it.

    Positional, in the order of the format: this is called for every entry, and keywords cost a
    quarter of it."""
    first = _CHAINED.pack(
        RECORD_MAGIC, RECORD_VERSION, kind, length, term, index, previous_chain, payload_crc
    )
    chain = crc32c(first[_CHAIN_FROM:])
    body = first + _REST.pack(chain, promised if promised < PROMISED_MAX else PROMISED_MAX)
    return body + _CHECKSUM.pack(crc32c(body, salt)), chain


def decode_header(data: bytes | memoryview, position: int, salt: int) -> RecordHeader | None:
    """The header at `position`, or None if there is no valid one."""
    if len(data) - position < RECORD_HEADER_BYTES:
        return None
    header = RecordHeader._make(_HEADER.unpack_from(data, position))
    if header.magic != RECORD_MAGIC or header.length > ENTRY_PAYLOAD_BYTES_MAX:
        return None
    checked = data[position : position + RECORD_HEADER_BYTES - _CHECKSUM.size]
    return header if crc32c(checked, salt) == header.header_crc else None


def copy_header(header: RecordHeader, salt: int) -> bytes:
    """Encode the header of the same record for another segment: only the salt changes."""
    encoded, chain = encode_header(
        header.kind,
        header.length,
        header.term,
        header.index,
        header.previous_chain,
        header.payload_crc,
        header.promised,
        salt,
    )
    assert chain == header.chain, f"entry {header.index}: chain {header.chain} became {chain}"
    return encoded


class Scanned(NamedTuple):
    """A whole and valid record found by a scan; the payload is a view that the caller copies."""

    position: int
    header: RecordHeader
    payload: memoryview


class Scan:
    """Walks the records of a segment from `position` to `end`, verifying all of each.

    It stops at the end, at zeros, or at the first thing that is not a valid next record; then
    `position` is where it stopped and `problem` says why (empty: nothing but the end was met).
    A `chain` of None means that the first record's link is not known.
    """

    def __init__(
        self,
        file: File,
        *,
        position: int,
        end: int,
        salt: int,
        sparse: bool,
        last: Index,
        chain: int | None,
        chunk_bytes: int = _CHUNK_BYTES,
    ) -> None:
        self._file = file
        self._end = end
        self._salt = salt
        self._sparse = sparse
        self._chunk_bytes = chunk_bytes
        self.position = position
        self.last = last
        self.chain = chain
        self.problem = ""

    def __iter__(self) -> Iterator[Scanned]:
        start, data = self.position, memoryview(b"")
        while self.position < self._end:
            at = self.position - start
            if len(data) - at < RECORD_HEADER_BYTES:
                start, at, data = self.position, 0, self._fill(RECORD_HEADER_BYTES)
            header = decode_header(data, at, self._salt)
            if header is None:
                if data[at : at + RECORD_HEADER_BYTES].tobytes().strip(b"\0"):
                    self.problem = "no valid record header"
                return
            if len(data) - at < header.size:
                start, at, data = self.position, 0, self._fill(header.size)
            payload = data[at + RECORD_HEADER_BYTES : at + header.size]
            self.problem = self._check(header, payload)
            if self.problem:
                return
            found = Scanned(self.position, header, payload)
            self.position += header.size
            self.last, self.chain = header.index, header.chain
            yield found

    def _fill(self, wanted: int) -> memoryview:
        length = min(max(wanted, self._chunk_bytes), self._end - self.position)
        return memoryview(self._file.read(self.position, length))

    def _check(self, header: RecordHeader, payload: memoryview) -> str:
        if len(payload) < header.length:
            return f"entry {header.index} is cut short"
        if crc32c(payload) != header.payload_crc:
            return f"the payload of entry {header.index} does not match its CRC-32C"
        if header.index != self.last + 1:
            if not self._sparse or header.index <= self.last:
                return f"entry {header.index} stands where {self.last + 1} belongs"
        elif self.chain is not None and header.previous_chain != self.chain:
            return f"entry {header.index} does not continue the chain of the entry before it"
        return _unreadable(header, payload)


def _unreadable(header: RecordHeader, payload: memoryview) -> str:
    """Why an entry cannot be taken into an index, although it is what was written: a peer must have
    sent it, before peers were checked."""
    try:
        if header.kind == EntryKind.APPEND:
            _check_batches(check_append(payload), payload)
        elif header.kind == EntryKind.COMMAND:
            # Which commands there are is for the machines to know, and for later releases: all have
            # this form.
            tag, *_ = _COMMAND.decode(payload)
            _TAG.decode(tag)
        elif header.kind == EntryKind.MEMBERSHIP:
            decode_membership(payload.tobytes())
    except (InvalidBatch, ValueError, RecursionError) as error:
        return f"entry {header.index} cannot be read: {error}"
    return ""


def _check_batches(directory: AppendPayload, payload: memoryview) -> None:
    """Whether the batches of each slice lie where a machine will look for them. Compaction may have
    left gaps between them."""
    position = directory.start
    for part in directory.slices:
        offset, end = part.base_offset, position + part.length
        for _ in range(part.batch_count):
            if end - position < BATCH_HEADER_BYTES:
                raise InvalidBatch(f"{part} ends within a batch")
            base_offset, size, count, _, _ = read_outline(payload, position)
            position += size
            if size < BATCH_HEADER_BYTES or base_offset < offset or count < 1 or position > end:
                raise InvalidBatch(f"{part} holds a batch of {size} bytes at {base_offset}")
            offset = Offset(base_offset + count)
        if position != end or offset > part.end_offset:
            raise InvalidBatch(f"{part} ends at byte {position} and offset {offset}")


def later_headers(file: File, *, position: int, end: int, salt: int) -> Iterator[RecordHeader]:
    """Yield every valid record header from `position` on, skipping anything in between."""
    overlap = b""
    while position < end:
        read = file.read(position, min(_CHUNK_BYTES, end - position))
        if not read:
            return
        position += len(read)
        # Most of an active segment is allocated and empty: comparing is far cheaper than searching.
        empty = read == _ZEROS[: len(read)]
        data = overlap + (read[:RECORD_HEADER_BYTES] if empty else read)
        at = data.find(_MAGIC_BYTES)
        while 0 <= at <= len(data) - RECORD_HEADER_BYTES:
            header = decode_header(data, at, salt)
            if header is not None:
                yield header
            at = data.find(_MAGIC_BYTES, at + 1)
        overlap = b"" if empty else data[-(RECORD_HEADER_BYTES - 1) :]
