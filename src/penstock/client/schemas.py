"""The version of a body's schema: a header that says which class wrote it, and which one of it.

    schema: Order/2

The name is the class's own, the version its `__schema_version__`, or 1. Who reads an older version
brings it up to date by the class's `upgrade`, if it has one:

    class Order(msgspec.Struct):
        __schema_version__: ClassVar[int] = 2
        id: str
        cents: int

        @classmethod
        def upgrade(cls, data: dict[str, object], version: int) -> dict[str, object]:
            if version < 2:
                data["cents"] = data.pop("euros") * 100
            return data

A newer version than the reader's is refused: what it means is not known here, and to guess would be
to lose a part of it. Rolling out a new version therefore begins with the readers.

A body without the header, say from one of Kafka's own clients, counts as of the reader's version.
"""

from typing import NamedTuple

from penstock.core.errors import InvalidBody, InvalidRequest

SCHEMA = "schema"
"""The header. It does not begin with `penstock-`: brokers open batches that have such headers."""
VERSION_MAX = 1_000_000
_NAME_CHARACTERS_MAX = 200


class Schema(NamedTuple):
    """A class that bodies are made from, in one of its versions."""

    name: str
    version: int

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"

    @property
    def header(self) -> tuple[str, bytes]:
        """The header of a body of this schema."""
        return SCHEMA, str(self).encode()


def schema_of(kind: type) -> Schema:
    """Return the schema of a class."""
    version: object = getattr(kind, "__schema_version__", 1)
    if type(version) is not int or not 1 <= version <= VERSION_MAX:
        raise InvalidRequest(
            f"{kind.__name__}.__schema_version__ is {version!r}, and a version is an integer from"
            f" 1 to {VERSION_MAX}."
        )
    return Schema(kind.__name__[:_NAME_CHARACTERS_MAX], version)


def written_version(header: bytes, reader: Schema) -> int:
    """The version that a header's schema has, if the reader can read it, or else `InvalidBody`."""
    name, slash, number = header.decode(errors="replace").rpartition("/")
    if not (slash and number.isascii() and number.isdigit() and len(number) <= len("1000000")):
        raise InvalidBody(f"The header {SCHEMA} is {header[:80]!r}, not like {reader}.")
    if name != reader.name:
        raise InvalidBody(
            f"The body is {name[:80]}/{number} and was read as {reader}: read the queue with the"
            f" codec {name[:80]}, or without one."
        )
    version = int(number)
    if version > reader.version:
        raise InvalidBody(
            f"The body is {name}/{version}, newer than the {reader} that is known here: update"
            " this program."
        )
    return version
