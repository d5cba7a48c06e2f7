"""Frames out of a stream, without a socket: both ends of the native protocol read like this.

Bytes land in a place that may be shared by many streams; whole frames are copied out of it. One
that does not fit gets a buffer of its own, into which the rest is read directly, so that large
ones, the batches of messages, are not copied again. The buffer starts with what has come and grows
when it is full and more is read, whatever length was claimed.

    view = stream.buffer()          where the next bytes should go
    frames = stream.received(n)     so many have come: the frames that are complete now

The greeting comes first; `version` is 0 until then.
"""

from typing import NamedTuple

from penstock.core.frame_buffer import first_bytes, grown_bytes
from penstock.wire.frames import GREETING, PREFIX, FrameHead, Kind, read_greeting, read_prefix


class Frame(NamedTuple):
    """A frame, whole. Head and payload share a buffer of their own."""

    kind: Kind
    id: int
    head: memoryview
    payload: memoryview


class FrameStream:
    """Raises `InvalidFrame`; after that the stream is useless."""

    __slots__ = (
        "_expected",
        "_filled",
        "_frame",
        "_frame_bytes_max",
        "_landing",
        "_rest",
        "held_bytes",
        "version",
    )

    def __init__(self, landing: memoryview, frame_bytes_max: int) -> None:
        self.version = 0
        self.held_bytes = 0
        """What incomplete frames take up."""
        self._landing = landing
        self._frame_bytes_max = frame_bytes_max
        self._rest = b""
        self._frame: bytearray | None = None
        self._expected: FrameHead | None = None
        self._filled = 0

    @property
    def is_partial(self) -> bool:
        """Something has begun to arrive and is not complete."""
        return self._frame is not None or bool(self._rest)

    @property
    def frame_bytes(self) -> int:
        """The size of the frame whose buffer is full and grows with the next read; 0 if there is
        none."""
        if self._frame is None or self._expected is None or self._filled < len(self._frame):
            return 0
        return self._expected.size

    def buffer(self) -> memoryview:
        """The buffer for the next read."""
        frame = self._frame
        if frame is None:
            return self._landing
        if self._filled == len(frame):
            # A new buffer: the loop may still hold on to this one, and it cannot be resized then.
            assert self._expected is not None, "a buffer belongs to a frame"
            self._frame = bytearray(grown_bytes(len(frame), self._expected.size))
            self._frame[: len(frame)] = frame
            frame = self._frame
            self.held_bytes = len(frame)
        return memoryview(frame)[self._filled :]

    def clear(self) -> None:
        """Drop incomplete frames: the connection is lost."""
        self._frame = self._expected = None
        self._rest = b""
        self.held_bytes = 0

    def received(self, count: int) -> list[Frame]:
        """Process `count` bytes that were read into the buffer; return the complete frames."""
        frame = self._frame
        if frame is None:
            return self.feed(self._landing[:count])
        self._filled += count
        if self._filled < len(frame):
            return []
        assert self._expected is not None, "a buffer belongs to a frame"
        if len(frame) < self._expected.size:
            return []
        self._frame = None
        self.held_bytes = 0
        return [_cut(self._expected, memoryview(frame))]

    def feed(self, data: memoryview) -> list[Frame]:
        """Process bytes from another buffer; no frame may be half read into its own buffer."""
        assert self._frame is None, "the rest of a frame goes into its buffer"
        view = memoryview(self._rest + data) if self._rest else data
        self._rest = b""
        self.held_bytes = 0
        position, end = 0, len(view)
        frames: list[Frame] = []
        if not self.version:
            if end < GREETING.size:
                self._keep(bytes(view))
                return []
            self.version = read_greeting(view)
            position = GREETING.size
        while end - position >= PREFIX.size:
            head = read_prefix(view, position, self._frame_bytes_max)
            after = position + head.size
            if after > end:
                self._begin(head, view[position:])
                return frames
            frames.append(_cut(head, memoryview(bytearray(view[position:after]))))
            position = after
        if position < end:
            self._keep(bytes(view[position:]))
        return frames

    def _begin(self, head: FrameHead, first: memoryview) -> None:
        self._expected = head
        # Twice what has come: most batches fit, and are not copied to a larger buffer.
        self._frame = bytearray(first_bytes(2 * len(first), head.size))
        self._frame[: len(first)] = first
        self._filled = len(first)
        self.held_bytes = len(self._frame)

    def _keep(self, rest: bytes) -> None:
        self._rest = rest
        self.held_bytes = len(rest)


def _cut(head: FrameHead, whole: memoryview) -> Frame:
    middle = PREFIX.size + head.head_bytes
    return Frame(head.kind, head.id, whole[PREFIX.size : middle], whole[middle:])
