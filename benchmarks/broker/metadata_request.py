"""One Metadata request for all topics, byte by byte, to time the broker's answer and nothing else.

    length i32 | api key i16 = 3 | version i16 = 1 | correlation i32 | client id i16 + text |
    topics i32 = -1, which means all

A client library would spend longer on making objects of the answer than the broker on making it.
"""

import socket
import struct
import time
from dataclasses import dataclass

_METADATA, _VERSION = 3, 1
_CLIENT_ID = b"benchmark"
_ALL_TOPICS = -1
_ANSWER_WITHIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answered:
    """How long the answers took, each by itself, and how long the last one was."""

    seconds: list[float]
    answer_bytes: int


def ask_metadata(bootstrap: str, times: int) -> Answered:
    """Ask so many times over one connection, one request after the other."""
    host, _, port = bootstrap.rpartition(":")
    seconds = []
    answer = 0
    with socket.create_connection((host, int(port)), _ANSWER_WITHIN_SECONDS) as line:
        for correlation in range(times):
            began = time.perf_counter()
            line.sendall(_request(correlation))
            (answer,) = struct.unpack(">i", _exactly(line, 4))
            body = _exactly(line, answer)
            seconds.append(time.perf_counter() - began)
            (echoed,) = struct.unpack_from(">i", body)
            assert echoed == correlation, f"the answer to {echoed}, not to {correlation}"
    return Answered(seconds, answer)


def _request(correlation: int) -> bytes:
    header = struct.pack(">hhih", _METADATA, _VERSION, correlation, len(_CLIENT_ID)) + _CLIENT_ID
    body = header + struct.pack(">i", _ALL_TOPICS)
    return struct.pack(">i", len(body)) + body


def _exactly(line: socket.socket, length: int) -> bytearray:
    received = bytearray(length)
    view = memoryview(received)
    while view:
        count = line.recv_into(view)
        assert count, "the broker closed the connection"
        view = view[count:]
    return received
