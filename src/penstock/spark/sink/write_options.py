"""The options and columns of a sink, checked before any work starts.

    columns    value      BINARY or STRING; NULL is a tombstone                        (required)
               key        BINARY or STRING: rows of one key go to one partition, in order
               headers    ARRAY<STRUCT<key STRING, value BINARY>>
               topic      STRING, unless the option `topic` names one for all rows
               partition  INT; NULL: by the key, or in turn
               priority   INT, 0 to 9, for a queue
               delay      seconds, any number, or an INTERVAL: a queue hands it out no sooner
               timestamp  TIMESTAMP, with `keepTimestamps`; otherwise a message's time is now
               offset, timestampType    are left out, so that what was read can be written

    options    topic, queue      where all rows go, whatever the column `topic` says
               appId, batchId    a write of the same application and batch happens once
               compression       lz4; none, zstd, snappy, gzip. `kafka.compression.type` is the same
               keepTimestamps    false
               createTopics      false: a topic that is not there is refused
               badRows           fail, or deadLetter: what cannot be written goes to
               deadLetterTopic   with its reason in a header

Columns and options are those of Spark's Kafka connector where both have them. Other options that
begin with `kafka.` are its client's and mean nothing here; those that would change what is written,
or who may write it, are refused.

A batch is written to disk twice, staged and published, so compressing pays even for small messages,
if they can be compressed. A batch that does not shrink goes as it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from penstock.client.producer.compression import OFF, Compression, CompressionCodec
from penstock.core.errors import InvalidRequest
from penstock.core.limits import APPLICATION_NAME_BYTES_MAX
from penstock.spark.address import address_of
from penstock.spark.reading.read_options import NAMES, PASSED_OVER

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Schema: TypeAlias = "StructType"

OPTIONS: Final = (
    "url",
    "topic",
    "queue",
    "appId",
    "batchId",
    "compression",
    "keepTimestamps",
    "createTopics",
    "badRows",
    "deadLetterTopic",
)
_OTHERS: Final = frozenset(
    name.lower() for name in ("checkpointLocation", "queryName", *NAMES, *PASSED_OVER)
)
"""Options for Spark itself, and for the source: many jobs give both the same."""
_REFUSED: Final = {
    "kafka.key.serializer": "keys are bytes or text: cast the column",
    "kafka.value.serializer": "values are bytes or text: cast the column",
    "kafka.partitioner.class": "classes of Java are not run here: give each row a partition",
    "kafka.interceptor.classes": "classes of Java are not run here",
}
_COMPRESSION_TYPE: Final = "kafka.compression.type"
_LOSES_BATCHES: Final = "asyncprogresstrackingenabled"
_CODECS: Final = ("lz4", "none", "zstd", "snappy", "gzip")
_BATCH_MAX: Final = (1 << 63) - 1

_TEXT: Final = ("binary", "string", "varchar", "char")
_WHOLE: Final = ("byte", "short", "integer", "long")
_COLUMNS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "key": (_TEXT, "BINARY or STRING"),
    "value": (_TEXT, "BINARY or STRING"),
    "headers": (("array",), "ARRAY<STRUCT<key STRING, value BINARY>>"),
    "topic": (_TEXT[1:], "STRING"),
    "partition": (_WHOLE, "INT"),
    "priority": (_WHOLE, "INT"),
    "delay": ((*_WHOLE, "double", "float", "decimal", "daytimeinterval"), "a number of seconds"),
    "timestamp": (("timestamp",), "TIMESTAMP"),
}
_LEFT_OUT: Final = frozenset({"offset", "timestamptype"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write, the same for every task of a query."""

    url: str
    topic: str | None = None
    application: str | None = None
    batch: int | None = None
    compression: Compression = OFF
    keep_timestamps: bool = False
    create_topics: bool = False
    dead_letter_topic: str | None = None
    """The topic of rows that cannot be written; None: they fail the batch."""
    checkpoint: str | None = None
    """The checkpoint of a stream, if it was given here."""


def read_write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a sink, or `InvalidRequest` for the first that cannot be."""
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    dead_letter_topic = given.get("deadlettertopic")
    bad_rows = _one_of(given, "badRows", ("fail", "deadLetter"))
    if (bad_rows == "deadLetter") != (dead_letter_topic is not None):
        raise InvalidRequest(
            "badRows=deadLetter and deadLetterTopic=… belong together: set both, or none"
        )
    application, batch = _identity(given)
    return WriteOptions(
        url=address_of(options),
        topic=_destination(given),
        application=application,
        batch=batch,
        compression=_compression(given),
        keep_timestamps=_flag(given, "keepTimestamps"),
        create_topics=_flag(given, "createTopics"),
        dead_letter_topic=dead_letter_topic,
        checkpoint=given.get("checkpointlocation"),
    )


def check_columns(schema: Schema, options: WriteOptions) -> None:
    """Raise `InvalidRequest` if rows of these columns cannot be written."""
    types = {field.name.lower(): field.dataType for field in schema.fields}
    if len(types) < len(schema.fields):
        raise InvalidRequest(f"two columns have one name: {_listed(schema.fieldNames())}")
    for field in schema.fields:
        _check_column(field.name, field.dataType, options)
    if "value" not in types:
        raise InvalidRequest(
            f"there is no column `value`: it is what is sent, as BINARY or STRING, and there are"
            f" {_listed(schema.fieldNames())}; to_json(struct(*)) AS value sends them all"
        )
    if options.topic is None and "topic" not in types:
        raise InvalidRequest(
            "no topic is given: set the option `topic`, or give each row a column `topic`"
        )


def _check_column(name: str, kind: "DataType", options: WriteOptions) -> None:
    lower = name.lower()
    if lower in _LEFT_OUT or (lower == "timestamp" and not options.keep_timestamps):
        return
    if lower == "topic" and options.topic is not None:
        return  # The option counts.
    if lower not in _COLUMNS:
        raise InvalidRequest(
            f"there is no place for a column `{name}`{_nearest(lower, _COLUMNS)}: the columns are"
            f" {_listed(_COLUMNS)}"
        )
    kinds, wanted = _COLUMNS[lower]
    fits = kind.typeName() in kinds
    if not fits or (lower == "headers" and not _are_headers(kind)):
        raise InvalidRequest(f"column `{name}` is {kind.simpleString()} and must be {wanted}")


def _are_headers(kind: "DataType") -> bool:
    element = getattr(kind, "elementType", None)
    fields = {field.name.lower(): field.dataType for field in getattr(element, "fields", ())}
    return list(fields) == ["key", "value"] and (
        fields["key"].typeName() in _TEXT[1:] and fields["value"].typeName() in _TEXT
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    if given.get(_LOSES_BATCHES, "false").lower() == "true":
        raise InvalidRequest(
            "asyncProgressTrackingEnabled gives up what makes a batch be written once: leave it out"
        )
    protocol = given.get("kafka.security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise InvalidRequest(
            f"kafka.security.protocol is {protocol}, which the sink does not speak: it would go on"
            " without. Leave the option out if that is right"
        )
    known = {name.lower() for name in OPTIONS}
    for name in given:
        if name in _REFUSED:
            raise InvalidRequest(f"the option {name} has no place here: {_REFUSED[name]}")
        if name in known or name in _OTHERS or name.startswith(("kafka.", "asyncprogress")):
            continue
        raise InvalidRequest(
            f"there is no option `{name}`{_nearest(name, OPTIONS)}: the options of the sink are"
            f" kafka.bootstrap.servers, {_listed(OPTIONS)}"
        )


def _destination(given: Mapping[str, str]) -> str | None:
    topic, queue = given.get("topic"), given.get("queue")
    if topic is not None and queue is not None and topic != queue:
        raise InvalidRequest(f"topic={topic} and queue={queue}: rows go to one of them; set one")
    name = topic if queue is None else queue
    if name is not None and not name.strip():
        raise InvalidRequest("the option `topic` is empty: name a topic or queue")
    return name


def _identity(given: Mapping[str, str]) -> tuple[str | None, int | None]:
    application, batch = given.get("appid"), given.get("batchid")
    if application is not None:
        size = len(application.encode())
        if not 0 < size <= APPLICATION_NAME_BYTES_MAX:
            raise InvalidRequest(
                f"appId has {size} bytes, and from 1 to {APPLICATION_NAME_BYTES_MAX} are possible"
            )
    if batch is None:
        return application, None
    if application is None:
        raise InvalidRequest("batchId counts the batches of an application: set appId, too")
    if not batch.isascii() or not batch.isdigit() or int(batch) > _BATCH_MAX:
        raise InvalidRequest(f"batchId is {batch!r}, and must be a whole number from 0 on")
    return application, int(batch)


def _compression(given: Mapping[str, str]) -> Compression:
    name = "compression"
    if name not in given and _COMPRESSION_TYPE in given:
        name = _COMPRESSION_TYPE
    codec = _one_of(given, name, _CODECS)
    if codec == "none":
        return OFF
    return Compression(codec=cast(CompressionCodec, codec), threshold_bytes=0)


def _one_of(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Parse an option with fixed choices; the first is the default."""
    said = given.get(name.lower(), choices[0])
    for choice in choices:
        if said.lower() == choice.lower():
            return choice
    raise InvalidRequest(f"{name} is {said!r}, and must be one of {_listed(choices)}")


def _flag(given: Mapping[str, str], name: str) -> bool:
    return _one_of(given, name, ("false", "true")) == "true"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = {one.lower(): one for one in known}
    near = get_close_matches(name, names, n=1)
    return f", perhaps `{names[near[0]]}` is meant" if near else ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
