"""The transactional outbox: a program changes its data and queues its messages in one transaction.

A service that writes to its database and then sends a message can die in between: the order is
stored and never announced. Sending first is no better: consumers hear of an order that was
rolled back. So the message is written into a table of the same database, in the transaction of the
change, and a relay sends what it finds there:

    outbox = Outbox()
    with connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO orders …")
        outbox.add(cursor, "orders-placed", {"order": 7}, key="customer 3")

    await OutboxRelay(client, outbox, connect).run()        # penstock.patterns.outbox_relay

A relay that dies after sending and before it has marked the row sends it again. Every row has an
id, and it is the message's `dedup_id`: the queue drops the second one, and a consumer with a store
of processed ids (`penstock.client.processed_ids`) drops it however late it is. So destinations must
remember ids, as queues do that were made by being used, or by `create_queue(deduplication="id")`.

Rows are sent in the order in which they were added; messages of one key therefore arrive in the
order in which their transactions were committed one after the other. Transactions that overlap have
no order to keep. A delay or a time to live counts from the moment of `add`, not from when the relay
gets to it.
"""

import uuid
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

import msgspec

from penstock.client.codecs import codec_for
from penstock.client.database import Connection, Cursor, ParamStyle, run, table_name
from penstock.client.producer.outgoing_message import Outgoing
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.core.clock import Clock, SystemClock
from penstock.core.decoders import json_decoder
from penstock.core.errors import InvalidRequest

Dialect = Literal["sqlite", "postgresql", "mysql"]
"""The SQL dialects, which differ in row numbers and in the type of bytes."""
_TYPES: dict[Dialect, tuple[str, str]] = {
    "sqlite": ("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB"),
    "postgresql": ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BYTEA"),
    "mysql": ("BIGINT AUTO_INCREMENT PRIMARY KEY", "LONGBLOB"),
}
ERROR_CHARACTERS_MAX = 500


class _Options(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a message, as JSON in its row."""

    headers: dict[str, str | None] = {}
    priority: int | None = None
    message_group: str | None = None
    deliver_at_ms: int | None = None
    expire_at_ms: int | None = None


_options_decoder = json_decoder(_Options)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A message that waits to be sent."""

    position: int
    id: str
    destination: str
    outgoing: Outgoing[bytes | None] = field(repr=False)


class Outbox:
    """The table, and how messages get into it. It has no state: share it as you like."""

    def __init__(
        self,
        table: str = "penstock_outbox",
        *,
        dialect: Dialect = "sqlite",
        paramstyle: ParamStyle | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.table = table_name(table)
        self._dialect: Dialect = dialect
        self._style: ParamStyle = paramstyle or ("qmark" if dialect == "sqlite" else "format")
        self._clock = clock or SystemClock()

    def create(self, connection: Connection) -> None:
        """Make the table where there is none, and commit."""
        position, binary = _TYPES[self._dialect]
        cursor = connection.cursor()
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} (position {position},"
            " id VARCHAR(64) NOT NULL, destination VARCHAR(255) NOT NULL,"
            f" message_key {binary}, body {binary}, options TEXT NOT NULL,"
            f" sent_ms BIGINT, error VARCHAR({ERROR_CHARACTERS_MAX}))"
        )
        if self._dialect != "mysql":
            index = self.table.rpartition(".")[2] + "_unsent"
            cursor.execute(
                f"CREATE INDEX IF NOT EXISTS {index} ON {self.table} (sent_ms, position)"
            )
        cursor.close()
        connection.commit()

    def add(
        self,
        cursor: Cursor,
        destination: str,
        body: object,
        *,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        priority: int | None = None,
        delay: Seconds | None = None,
        ttl: Seconds | None = None,
        message_group: str | None = None,
    ) -> str:
        """Write a message in the caller's own transaction; the id it will be sent under."""
        data, described = codec_for(None).encode(body)
        said: dict[str, bytes | None] = dict(described)
        for name, value in (headers or {}).items():
            said[name] = value.encode() if isinstance(value, str) else value
        now = self._clock.wall_ms()
        options = _Options(
            headers={
                name: None if value is None else b64encode(value).decode()
                for name, value in said.items()
            },
            priority=priority,
            message_group=message_group,
            deliver_at_ms=None if delay is None else now + to_milliseconds(delay, "delay"),
            expire_at_ms=None if ttl is None else now + to_milliseconds(ttl, "ttl"),
        )
        row_id = uuid.uuid4().hex
        values = {
            "id": row_id,
            "destination": destination,
            "message_key": key.encode() if isinstance(key, str) else key,
            "body": data,
            "options": msgspec.json.encode(options).decode(),
        }
        statement = (
            f"INSERT INTO {self.table} (id, destination, message_key, body, options)"  # noqa: S608
            " VALUES ({}, {}, {}, {}, {})"
        )
        run(cursor, self._style, statement, values)
        return row_id

    # For the relay.

    def unsent(self, cursor: Cursor, rows_max: int, *, skip: Sequence[str] = ()) -> list[OutboxRow]:
        """The oldest rows that are to be sent, but for those to destinations named in `skip`."""
        others = "".join(" AND destination <> {}" for _ in skip)
        statement = (
            "SELECT position, id, destination, message_key, body, options"  # noqa: S608
            f" FROM {self.table} WHERE sent_ms IS NULL AND error IS NULL{others}"
            f" ORDER BY position LIMIT {int(rows_max)}"
        )
        values = {f"skip{number}": destination for number, destination in enumerate(skip)}
        run(cursor, self._style, statement, values)
        return [_read(row) for row in cursor.fetchall()]

    def mark_sent(self, cursor: Cursor, rows: list[OutboxRow]) -> None:
        """Remember that these were sent."""
        statement = f"UPDATE {self.table} SET sent_ms = {{}} WHERE position = {{}}"  # noqa: S608
        for row in rows:
            values = {"sent_ms": self._clock.wall_ms(), "position": row.position}
            run(cursor, self._style, statement, values)

    def park(self, cursor: Cursor, row: OutboxRow, error: str) -> None:
        """Put a row aside that can never be sent; set its `error` to NULL to try it again."""
        statement = f"UPDATE {self.table} SET error = {{}} WHERE position = {{}}"  # noqa: S608
        values = {"error": error[:ERROR_CHARACTERS_MAX], "position": row.position}
        run(cursor, self._style, statement, values)

    def forget_sent(self, cursor: Cursor, *, before_ms: int) -> None:
        """Delete rows that were sent before this time."""
        statement = f"DELETE FROM {self.table} WHERE sent_ms < {{}}"  # noqa: S608
        run(cursor, self._style, statement, {"before": before_ms})

    def count(self, cursor: Cursor) -> tuple[int, int]:
        """Return the number of rows that wait to be sent, and the number of rows put aside."""
        cursor.execute(
            "SELECT COUNT(CASE WHEN error IS NULL THEN 1 END), COUNT(error)"  # noqa: S608
            f" FROM {self.table} WHERE sent_ms IS NULL"
        )
        row = cursor.fetchone()
        assert row is not None, "counting always gives a row"
        return int(str(row[0])), int(str(row[1]))


def _read(row: tuple[object, ...]) -> OutboxRow:
    position, row_id, destination, key, body, text = row
    options = _options_decoder.decode(str(text))
    headers = {
        name: None if value is None else b64decode(value) for name, value in options.headers.items()
    }
    outgoing = Outgoing(
        _bytes(body),
        key=_bytes(key),
        headers=headers,
        priority=options.priority,
        message_group=options.message_group,
        deliver_at=_time(options.deliver_at_ms),
        expire_at=_time(options.expire_at_ms),
        dedup_id=str(row_id),
    )
    return OutboxRow(int(str(position)), str(row_id), str(destination), outgoing)


def _bytes(value: object) -> bytes | None:
    """Drivers give bytes, memoryviews or bytearrays."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise InvalidRequest(f"a body in the outbox is of type {type(value).__name__}, not bytes")


def _time(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
