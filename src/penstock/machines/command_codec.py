"""How a machine's commands are written into a log, and read again.

A command is a msgpack array: tag, then the fields in their order. Reading is strict, because a
command that is half understood is applied differently on different replicas: an unknown tag, a
missing field or one too many means that a later build wrote it, and the node must stop.
"""

from typing import Generic, TypeVar, get_args

import msgspec

from penstock.core.decoders import msgpack_decoder
from penstock.core.errors import InvalidRequest, UnsupportedVersion
from penstock.core.limits import ENTRY_PAYLOAD_BYTES_MAX
from penstock.machines.machine import Request


class Stamped(Request, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What every command carries: the leader's log time, put in by `plan`."""

    stamp_ms: int = 0


class VersionCommand(Stamped, frozen=True, kw_only=True):
    """Apply every entry after this one as version `version` of the machine does."""

    version: int


C = TypeVar("C", bound=Stamped)
_ENCODER = msgspec.msgpack.Encoder()


class CommandCodec(Generic[C]):
    """Encodes and decodes the commands of a union, each of at most `bytes_max` bytes."""

    def __init__(self, union: object, bytes_max: int = ENTRY_PAYLOAD_BYTES_MAX) -> None:
        self.commands: tuple[type[Stamped], ...] = get_args(union)
        self._decoder: msgspec.msgpack.Decoder[C] = msgpack_decoder(union)
        self._bytes_max = bytes_max

    def encode(self, command: C, *, stamp_ms: int) -> bytes:
        """The payload of a COMMAND entry; `InvalidRequest` if it cannot be one."""
        name = type(command).__name__
        try:
            payload = _ENCODER.encode(msgspec.structs.replace(command, stamp_ms=stamp_ms))
        except (OverflowError, UnicodeEncodeError) as error:
            raise InvalidRequest(
                f"{name} holds a number or a text that cannot be written: {error}"
            ) from error
        if len(payload) > self._bytes_max:
            raise InvalidRequest(
                f"{name} takes {len(payload)} bytes, at most {self._bytes_max} are written: ask for"
                " less at once"
            )
        return payload

    def decode(self, payload: bytes) -> C:
        """The command of an entry whose checksum has been verified."""
        try:
            return self._decoder.decode(payload)
        except msgspec.DecodeError as error:
            raise UnsupportedVersion(
                f"a log entry holds a command this build does not know ({error}); a later version"
                " of Penstock wrote it: start this node with that version or a newer one"
            ) from error
