"""A segment: one file of records, in order of index.

    byte   0  magic           8 bytes  "PENSTKSG"
           8  format          u16
          10  flags           u16      1: sparse
          12  shard           u32
          16  cluster         u64      hash of the cluster id
          24  node            u64
          32  base index      u64      of the first record, or of the one that would come first
          40  number          u64      of the file; never used twice in a directory
          48  previous term   u64      of the entry before the base
          56  previous chain  u32      of the entry before the base
          60  reserved        64 bytes, zero
         124  crc             u32      CRC-32C of the bytes before; also the salt of the records
         128  records

The file of the active segment is allocated whole when it is made, so that a full disk shows itself
then and not in the middle of a batch; what follows its last record is zeros. A sealed segment is
cut to its size. A *sparse* segment has gaps between indexes: what a rewrite or a transfer left out
was dead.

A `Segment` is the picture of such a file in memory. `end`, `last`, `chain` and `terms` speak of
what has been *planned* to be in it; its index speaks of what is durable and may be read.
"""

import struct
from bisect import bisect_right
from dataclasses import dataclass

from penstock.core.checksum import crc32c
from penstock.core.types import Index, ShardId, Term
from penstock.storage.disk import File
from penstock.storage.identity import FORMAT, Identity
from penstock.storage.index import SegmentIndex
from penstock.storage.names import index_name, segment_name
from penstock.storage.record import Scan

SEGMENT_HEADER_BYTES = 128

_MAGIC = b"PENSTKSG"
_SPARSE = 1
_HEADER = struct.Struct("<8sHHIQQQQQI64s")
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHeader:
    """The first bytes of a segment's file."""

    identity_hash: int
    shard: ShardId
    node: int
    base: Index
    number: int
    previous_term: Term
    previous_chain: int
    sparse: bool
    format: int = FORMAT

    @classmethod
    def make(
        cls,
        identity: Identity,
        *,
        base: Index,
        number: int,
        previous_term: Term,
        previous_chain: int,
        sparse: bool = False,
    ) -> "SegmentHeader":
        return cls(
            identity_hash=identity.cluster_hash(),
            shard=identity.shard,
            node=identity.node,
            base=base,
            number=number,
            previous_term=previous_term,
            previous_chain=previous_chain,
            sparse=sparse,
        )

    @property
    def name(self) -> str:
        return segment_name(self.base, self.number)

    def encode(self) -> bytes:
        body = _HEADER.pack(
            _MAGIC,
            self.format,
            _SPARSE if self.sparse else 0,
            self.shard,
            self.identity_hash,
            self.node,
            self.base,
            self.number,
            self.previous_term,
            self.previous_chain,
            bytes(64),
        )
        return body + _CHECKSUM.pack(crc32c(body))

    @property
    def salt(self) -> int:
        return int(_CHECKSUM.unpack_from(self.encode(), _HEADER.size)[0])

    def belongs_to(self, identity: Identity) -> bool:
        return (self.identity_hash, self.shard, self.node) == (
            identity.cluster_hash(),
            identity.shard,
            identity.node,
        )


def decode_segment_header(data: bytes) -> SegmentHeader | None:
    """The header at the start of `data`, or None if it is not a valid one."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != crc32c(data[: _HEADER.size]):
        return None
    magic, fmt, flags, shard, cluster, node, base, number, term, chain, _ = _HEADER.unpack_from(
        data
    )
    if magic != _MAGIC:
        return None
    return SegmentHeader(
        identity_hash=cluster,
        shard=shard,
        node=node,
        base=base,
        number=number,
        previous_term=term,
        previous_chain=chain,
        sparse=bool(flags & _SPARSE),
        format=fmt,
    )


class Segment:
    """One file of the log, as planned, and the index of its readable part."""

    __slots__ = (
        "_run_starts",
        "_run_terms",
        "base",
        "capacity",
        "chain",
        "end",
        "header",
        "index",
        "last",
        "name",
        "salt",
        "sealed",
    )

    def __init__(self, header: SegmentHeader, *, index: SegmentIndex, capacity: int) -> None:
        self.header = header
        self.name = header.name
        self.base = header.base
        self.salt = header.salt
        self.index = index
        self.capacity = capacity
        """The allocated size of the file; only while it is the active segment."""
        self.sealed = False
        self.end = SEGMENT_HEADER_BYTES
        self.last = Index(header.base - 1)
        self.chain = header.previous_chain
        self._run_starts: list[Index] = []
        self._run_terms: list[Term] = []

    @property
    def index_name(self) -> str:
        return index_name(self.name)

    @property
    def sparse(self) -> bool:
        return self.header.sparse

    @property
    def last_term(self) -> Term:
        """The term of the last record, or of the entry before the base."""
        return self._run_terms[-1] if self._run_terms else self.header.previous_term

    @property
    def terms(self) -> list[tuple[Index, Term]]:
        """Runs: from this index on, this term."""
        return list(zip(self._run_starts, self._run_terms, strict=True))

    def note(self, index: Index, term: Term, size: int, chain: int) -> None:
        """Plan one more record at the end."""
        if not self._run_terms or self._run_terms[-1] != term:
            self._run_starts.append(index)
            self._run_terms.append(term)
        self.last = index
        self.end += size
        self.chain = chain

    def restore(
        self, *, end: int, last: Index, chain: int, terms: list[tuple[Index, Term]]
    ) -> None:
        """Take over what is known about the file from its side index or a scan."""
        self.end, self.last, self.chain = end, last, chain
        self._run_starts = [start for start, _ in terms]
        self._run_terms = [term for _, term in terms]

    def cut(self, index: Index, *, position: int, chain: int) -> None:
        """Plan to lose the records from `index` on; `position` is where that one begins."""
        keep = bisect_right(self._run_starts, index - 1)
        del self._run_starts[keep:], self._run_terms[keep:]
        self.end, self.last, self.chain = position, Index(index - 1), chain

    def term(self, index: Index) -> Term:
        """The term of an entry from just before the base to the last."""
        run = bisect_right(self._run_starts, index) - 1
        return self._run_terms[run] if run >= 0 else self.header.previous_term

    def scan(self, file: File, *, end: int | None = None) -> Scan:
        """A walk over all records, verifying each."""
        return Scan(
            file,
            position=SEGMENT_HEADER_BYTES,
            end=self.end if end is None else end,
            salt=self.salt,
            sparse=self.sparse,
            last=Index(self.base - 1),
            chain=self.header.previous_chain,
        )
