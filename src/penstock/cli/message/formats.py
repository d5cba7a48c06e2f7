r"""The format strings of `penstock consume -f`: the letters of kcat, and rpk's `%v` as a synonym of
`%s`.

    %t topic      %p partition   %o offset   %T time sent, milliseconds since 1970
    %k key        %K its bytes, counted; -1 for none
    %v body (%s)  %S its bytes, counted; -1 for none
    %h headers    as a=1,b=2     %i id       %d deliveries, of a message that was leased
    %%  a percent sign           \n \t \r \\ \0 \xNN as in a string of C

A format is taken apart once; what is left to do for each message is to join pieces. Bodies are
bytes and are printed as they are, except on a terminal, where whatever is no printable text is
escaped: a message must not move the cursor of a terminal.
"""

import re
from collections.abc import Callable, Mapping
from typing import Protocol

DEFAULT_FORMAT = "%v\\n"

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", '"': b'"', "'": b"'"}
_TOKEN = re.compile(r"%(?P<letter>.)|\\x(?P<hex>[0-9A-Fa-f]{2})|\\(?P<escape>.)", re.DOTALL)


class Printable(Protocol):
    """A message that can be printed: a record of a log, or a message of a queue."""

    @property
    def partition(self) -> int:
        """The number of the partition that holds it."""

    @property
    def offset(self) -> int:
        """The offset in that partition, counted from its first message."""

    @property
    def key(self) -> bytes | None:
        """The key, which keeps related messages in one partition; None if there is none."""

    @property
    def raw(self) -> bytes:
        """The bytes of the body; empty if there is no body."""

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The headers, without those that are Penstock's own."""

    @property
    def timestamp_ms(self) -> int:
        """The time when the message was sent."""

    @property
    def id(self) -> str:
        """The id by which a producer or a queue knows it; empty for a record without."""


Piece = bytes | Callable[[Printable], bytes]
Render = Callable[[Printable], bytes]


def compile_format(written: str, *, topic: str, terminal: bool) -> Render:
    """Compile a format to a function that renders a message; raise ValueError, with a reason, if it
    is wrong."""
    pieces = _pieces(written, topic=topic, shown=_plain if terminal else _same)
    if len(pieces) == 2 and callable(pieces[0]) and isinstance(pieces[1], bytes):
        first, last = pieces[0], pieces[1]
        return lambda message: first(message) + last

    def render(message: Printable) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(message) for piece in pieces])

    return render


def plain_text(data: bytes) -> str:
    """A text that a terminal can be shown: only line ends are not escaped."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


def is_tombstone(message: Printable) -> bool:
    """A record without a body, by which a key is deleted; a message of a queue is never one."""
    return bool(getattr(message, "is_tombstone", False))


def unescape(written: str) -> bytes:
    """The bytes that a text with escapes stands for, as of a delimiter."""
    return b"".join(piece for piece in _pieces(written.replace("%", "%%"), topic="", shown=_same)
                    if isinstance(piece, bytes))  # fmt: skip


def _pieces(written: str, *, topic: str, shown: Callable[[bytes], bytes]) -> list[Piece]:
    letters = _letters(topic, shown)
    pieces: list[Piece] = []
    position = 0
    for found in _TOKEN.finditer(written):
        _add(pieces, written[position : found.start()].encode())
        position = found.end()
        letter, code, escape = found["letter"], found["hex"], found["escape"]
        if code is not None:
            _add(pieces, bytes.fromhex(code))
        elif escape is not None:
            if escape not in _ESCAPES:
                raise ValueError(f"\\{escape} is not an escape")
            _add(pieces, _ESCAPES[escape])
        elif letter == "%":
            _add(pieces, b"%")
        elif letter in letters:
            pieces.append(letters[letter])
        else:
            raise ValueError(f"%{letter} is unknown; the known ones are %{' %'.join(letters)} %%")
    rest = written[position:]
    if rest.endswith(("%", "\\")):
        raise ValueError("it ends in the middle of an escape or a % letter")
    _add(pieces, rest.encode())
    return pieces


def _add(pieces: list[Piece], text: bytes) -> None:
    """Texts that follow each other are one piece."""
    if not text:
        return
    last = pieces[-1] if pieces else None
    if isinstance(last, bytes):
        pieces[-1] = last + text
    else:
        pieces.append(text)


def _letters(
    topic: str, shown: Callable[[bytes], bytes]
) -> dict[str, Callable[[Printable], bytes]]:
    name = topic.encode()
    return {
        "t": lambda _message: name,
        "p": lambda message: b"%d" % message.partition,
        "o": lambda message: b"%d" % message.offset,
        "k": lambda message: shown(message.key or b""),
        "K": lambda message: b"%d" % (-1 if message.key is None else len(message.key)),
        "v": lambda message: shown(message.raw),
        "s": lambda message: shown(message.raw),
        "S": lambda message: b"%d" % (-1 if is_tombstone(message) else len(message.raw)),
        "h": lambda message: shown(_headers(message.headers)),
        "T": lambda message: b"%d" % message.timestamp_ms,
        "i": lambda message: message.id.encode(),
        "d": lambda message: b"%d" % getattr(message, "deliveries", 0),
    }


def _headers(headers: Mapping[str, bytes | None]) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in headers.items())


def _same(data: bytes) -> bytes:
    return data


def _plain(data: bytes) -> bytes:
    return plain_text(data).encode()
