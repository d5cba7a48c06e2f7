"""Bytes to requests and answers to bytes, for every message and version of `kafka.schema`.

A request is read into a `Message`: a struct with the fields of *all* versions, where those that the
version at hand does not have hold their defaults. So the code of an API is written once, for the
newest version. An answer is a plain mapping from field names to values, again for all versions:
what the version does not have is left out, what is not given takes its default.

    numbers, and times in milliseconds   int          string   str        array   list or tuple
    error codes                          int          bytes    bytes      struct  mapping
    uuid                                 bytes, 16    bool     bool       null    None

Every length is checked against what is left of the message before it is believed: nothing is
reserved because a client claims it. This is why requests are not read by the kio package, which is
faster, but gives the process up when a message claims an array that does not fit into memory.
Writers check what we say ourselves: a misspelt field or a missing one is a bug and fails a test.

Long messages are read and written in portions of rows: generators that yield in between, so that
other requests can run (`Context.serve`). `kafka.decoder` and `kafka.encoder` do the work.
"""

import struct
from collections.abc import Callable, Generator, Iterator
from functools import cache
from typing import Final

import msgspec

from penstock.core.errors import MalformedRequest
from penstock.core.limits import KAFKA_REQUEST_ROWS_MAX
from penstock.kafka.decoder import (
    ROWS_PER_PORTION,
    Message,
    PortionReader,
    portion_reader,
    read_varint,
    reader,
    skip_tags,
)
from penstock.kafka.encoder import (
    Answer,
    EncodedRows,
    portion_writer,
    row_writer,
    write_count,
    write_varint,
    writer,
)
from penstock.kafka.schema import REQUIRED, schema_of

TEXT_CHARACTERS_MAX: Final = 1_000
_API_VERSIONS_KEY: Final = 18
_HEAD: Final = struct.Struct(">ii")
_ENDS_TOO_EARLY: Final = (struct.error, IndexError, UnicodeDecodeError)


def clipped(text: str) -> str:
    """A sentence for people: a name from the request may be in it, and names may be long."""
    if len(text) > TEXT_CHARACTERS_MAX:
        return text[:TEXT_CHARACTERS_MAX] + "…"
    return text


class Codec(msgspec.Struct, frozen=True):
    """How one API in one version is read and written."""

    key: int
    version: int
    read_request: Callable[[bytes, int], tuple[Message, int]]
    read_in_portions: PortionReader | None
    write_body: Callable[[Answer, bytearray], None]
    write_in_portions: Callable[[Answer, bytearray], Iterator[None]] | None
    head_bytes: int
    refusal: Answer
    has_error_code: bool

    def decode(self, data: bytes, position: int) -> Message:
        """The request that starts at `position`; bytes behind it are passed over, as in Kafka."""
        try:
            return self.read_request(data, position)[0]
        except _ENDS_TOO_EARLY as error:
            raise self._malformed(error) from error

    def decode_in_portions(self, data: bytes, position: int) -> Generator[None, None, Message]:
        """The same, and yields between portions; all rows together are bounded."""
        if self.read_in_portions is None:
            return self.decode(data, position)
        portions = self.read_in_portions(data, position)
        rows = 0
        while True:
            try:
                next(portions)
            except StopIteration as end:
                request: Message = end.value[0]
                return request
            except _ENDS_TOO_EARLY as error:
                raise self._malformed(error) from error
            rows += ROWS_PER_PORTION
            if rows > KAFKA_REQUEST_ROWS_MAX:
                raise MalformedRequest(
                    f"a request of more than {KAFKA_REQUEST_ROWS_MAX} rows; send several"
                )
            yield

    def _malformed(self, error: Exception) -> MalformedRequest:
        return MalformedRequest(f"a request of API {self.key} ends too early: {error}")

    def head(self, correlation_id: int, body_bytes: int) -> bytes:
        """What goes before a body that is there already."""
        size = self.head_bytes - 4 + body_bytes
        return _HEAD.pack(size, correlation_id) + bytes(self.head_bytes - _HEAD.size)

    def encode(self, correlation_id: int, answer: Answer) -> bytearray:
        """The whole answer with length and header, ready to be sent."""
        out = bytearray(self.head_bytes)
        self.write_body(answer, out)
        _HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
        return out

    def encode_in_portions(
        self, correlation_id: int, answer: Answer
    ) -> Generator[None, None, bytearray]:
        """The same, and yields between portions."""
        if self.write_in_portions is None:
            return self.encode(correlation_id, answer)
        out = bytearray(self.head_bytes)
        yield from self.write_in_portions(answer, out)
        _HEAD.pack_into(out, 0, len(out) - 4, correlation_id)
        return out

    def refuse(self, correlation_id: int, code: int, text: str) -> bytearray:
        """An answer that only says what went wrong; for APIs with an error code of their own."""
        assert self.has_error_code, f"API {self.key} v{self.version} has no place for an error"
        return self.encode(
            correlation_id, {**self.refusal, "error_code": code, "error_message": clipped(text)}
        )


@cache
def codec(key: int, version: int) -> Codec:
    """The codec of an API in a version that exists."""
    response = schema_of(key, "response")
    # The header of an ApiVersions answer never has tags: it is read before versions are agreed.
    has_tags = response.is_flexible_in(version) and key != _API_VERSIONS_KEY
    fields = [field for field in response.fields if field.exists_in(version)]
    return Codec(
        key=key,
        version=version,
        read_request=reader(key, "request", version),
        read_in_portions=portion_reader(key, "request", version),
        write_body=writer(key, "response", version),
        write_in_portions=portion_writer(key, "response", version),
        head_bytes=_HEAD.size + has_tags,
        refusal={field.name: field.neutral for field in fields if field.default is REQUIRED},
        has_error_code=any(field.name == "error_code" for field in fields),
    )


__all__ = [
    "ROWS_PER_PORTION",
    "Answer",
    "Codec",
    "EncodedRows",
    "Message",
    "clipped",
    "codec",
    "read_varint",
    "reader",
    "row_writer",
    "skip_tags",
    "write_count",
    "write_varint",
    "writer",
]
