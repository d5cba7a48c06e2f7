"""From rows of an index to verified batches.

A row's slice is read whole and checked against the checksum in the row before a byte of it is used
of it. Slices that lie close together are read at once.
"""

from collections.abc import Iterator, Sequence

from penstock.core.checksum import crc32c
from penstock.core.records import BatchHeader, read_header
from penstock.storage.directory import LogDirectory
from penstock.storage.disk import File
from penstock.storage.index import Row

GAP_BYTES_MAX = 4096
"""Slices with no more than this between them are read at once: a gap costs less than a call."""


def neighbours(rows: Sequence[Row], bytes_max: int) -> Iterator[list[Row]]:
    """Runs of rows that are worth one read of some `bytes_max`, or of one slice above that."""
    run: list[Row] = []
    for row in rows:
        if run:
            gap = row.position - run[-1].position - run[-1].length
            if gap > GAP_BYTES_MAX or row.position + row.length - run[0].position > bytes_max:
                yield run
                run = []
        run.append(row)
    if run:
        yield run


def read_slices(
    home: LogDirectory, name: str, file: File, rows: Sequence[Row]
) -> Iterator[tuple[Row, memoryview]]:
    """The verified slices of rows that lie close together, in one read of the file of that name."""
    start = rows[0].position
    length = rows[-1].position + rows[-1].length - start
    data = memoryview(file.read(start, length))
    for row in rows:
        at = row.position - start
        part = data[at : at + row.length]
        if len(part) < row.length:
            raise home.damaged(name, start + len(data), "the file is cut short")
        if crc32c(part) != row.checksum:
            raise home.damaged(
                name,
                row.position,
                f"the batches of offset {row.base_offset} do not match their CRC-32C",
            )
        yield row, part


def batch_headers(data: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch in a verified slice."""
    position = 0
    while position < len(data):
        header = read_header(data, position)
        yield position, header
        position += header.size
