"""Projections of an event-sourced topic: only events that count are shown to them.

The topic of an `AggregateStore` may hold events that lost against another writer: they have the
number of an event that was there before. A projection must pass over them as the store does, so it
keeps the version of every aggregate in its own database, in the transaction of everything else.
"""

from collections.abc import Callable
from types import UnionType
from typing import Generic, TypeVar

import msgspec

from penstock.client.client import Client
from penstock.client.database import Connection, Cursor, ParamStyle, run, table_name
from penstock.client.record import Record
from penstock.core.decoders import json_decoder
from penstock.patterns.event_store import StoredEvent
from penstock.patterns.projection import Projection

E = TypeVar("E")


class EventProjection(Projection[StoredEvent], Generic[E]):
    """A view of the events of an `AggregateStore`; `show` is called with the id and the event."""

    def __init__(
        self,
        client: Client,
        topic: str,
        name: str,
        connect: Callable[[], Connection],
        show: Callable[[Cursor, str, E], None],
        *,
        event: type[E] | UnionType,
        paramstyle: ParamStyle = "qmark",
        table: str = "penstock_positions",
        versions_table: str = "penstock_versions",
    ) -> None:
        super().__init__(
            client,
            topic,
            name,
            connect,
            self._show_events,
            codec=StoredEvent,
            paramstyle=paramstyle,
            table=table,
        )
        self._show = show
        self._decoder: msgspec.json.Decoder[E] = json_decoder(event)
        self._versions = table_name(versions_table)

    def _create(self, cursor: Cursor) -> None:
        super()._create(cursor)
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._versions} (name VARCHAR(200) NOT NULL,"
            " aggregate VARCHAR(255) NOT NULL, version BIGINT NOT NULL,"
            " PRIMARY KEY (name, aggregate))"
        )

    def _show_events(self, cursor: Cursor, record: Record[StoredEvent]) -> None:
        stored = record.body
        place: dict[str, object] = {"name": self.name, "aggregate": stored.aggregate}
        select = (
            f"SELECT version FROM {self._versions}"  # noqa: S608
            " WHERE name = {} AND aggregate = {}"
        )
        run(cursor, self._style, select, place)
        row = cursor.fetchone()
        version = 0 if row is None else int(str(row[0]))
        if stored.number != version + 1:
            return
        for raw in stored.events:
            self._show(cursor, stored.aggregate, self._decoder.decode(raw))
        place = {"version": version + len(stored.events), **place}
        if row is None:
            write = (
                f"INSERT INTO {self._versions} (version, name, aggregate)"  # noqa: S608
                " VALUES ({}, {}, {})"
            )
        else:
            write = (
                f"UPDATE {self._versions} SET version = {{}}"  # noqa: S608
                " WHERE name = {} AND aggregate = {}"
            )
        run(cursor, self._style, write, place)
