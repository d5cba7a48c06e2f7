"""The shop's database, in SQLite: stock, charges, receipts. It only ever adds rows.

No table here has a rule against a second charge of an order. That there is none must come from
elsewhere: from the ids of processed messages, which are in this database, too, and are written in
the transaction of the charge (`penstock.client.processed_ids`). A count of rows is the truth.
"""

import sqlite3
from collections import Counter
from pathlib import Path

from penstock import SqliteProcessed

TABLES = """
CREATE TABLE IF NOT EXISTS stock (order_id TEXT, item TEXT, change INTEGER);
CREATE TABLE IF NOT EXISTS charges (order_id TEXT, customer TEXT, cents INTEGER);
CREATE TABLE IF NOT EXISTS receipts (order_id TEXT, cents INTEGER);
"""


class Ledger:
    """The database file, and the store of processed ids in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        connection = sqlite3.connect(path, timeout=60)
        connection.executescript(TABLES)
        connection.close()
        self.processed = SqliteProcessed(path)

    def close(self) -> None:
        """Close the connections of the store."""
        self.processed.close()

    def counts(self, table: str) -> Counter[str]:
        """How many rows each order has in a table."""
        rows = self._read(f"SELECT order_id, COUNT(*) FROM {table} GROUP BY order_id")
        return Counter(dict(rows))

    def charged(self) -> dict[str, int]:
        """The sum of charges, by order."""
        rows = self._read("SELECT order_id, SUM(cents) FROM charges GROUP BY order_id")
        return dict(rows)

    def reserved(self) -> dict[str, int]:
        """How many pieces are reserved for each order."""
        rows = self._read("SELECT order_id, SUM(change) FROM stock GROUP BY order_id")
        return {order_id: -change for order_id, change in rows}

    def _read(self, query: str) -> list[tuple[str, int]]:
        connection = sqlite3.connect(self.path, timeout=60)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()
