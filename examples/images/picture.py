"""Pictures without a library: made from numbers, shrunk, and written as PNG."""

import struct
import zlib

Pixel = tuple[int, int, int]


class Picture:
    """Rows of pixels, red, green and blue."""

    def __init__(self, rows: list[list[Pixel]]) -> None:
        self.rows = rows

    @property
    def width(self) -> int:
        """In pixels."""
        return len(self.rows[0])

    @property
    def height(self) -> int:
        """In pixels."""
        return len(self.rows)

    def thumbnail(self, factor: int) -> "Picture":
        """Every pixel the mean of `factor` × `factor` pixels."""
        return Picture(
            [
                [self._mean(x * factor, y * factor, factor) for x in range(self.width // factor)]
                for y in range(self.height // factor)
            ]
        )

    def _mean(self, left: int, top: int, size: int) -> Pixel:
        block = [pixel for row in self.rows[top : top + size] for pixel in row[left : left + size]]
        red, green, blue = (sum(parts) // len(block) for parts in zip(*block, strict=True))
        return red, green, blue

    def png(self) -> bytes:
        """The picture as the bytes of a PNG file."""
        lines = b"".join(
            b"\0" + bytes(part for pixel in row for part in pixel) for row in self.rows
        )
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def plasma(seed: int, size: int = 64) -> Picture:
    """A colourful picture, another one for every seed."""
    return Picture(
        [
            [
                ((x * seed) % 256, (y * (seed + 3)) % 256, ((x ^ y) * 4 + seed) % 256)
                for x in range(size)
            ]
            for y in range(size)
        ]
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
