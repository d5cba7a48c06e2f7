"""An application whose workers are killed: every effect leaves a trace that outlives the process.

PENSTOCK_TEST_PLACE names a directory. Plain jobs write lines to a file there, one when they begin
and one when they end; bookings write rows to a database, in one transaction with the ids of their
messages.
"""

import os
import sqlite3
import time
from pathlib import Path

from penstock.client.message import Message
from penstock.client.processed_ids import SqliteProcessed
from penstock.client.processed_store import Transaction
from penstock.workers.app import App
from penstock.workers.retry import Retry, fixed

LEASE_SECONDS = 1.0

place = Path(os.environ["PENSTOCK_TEST_PLACE"])
pause = float(os.environ.get("PENSTOCK_TEST_PAUSE", "0.01"))
trace = os.open(place / "trace.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
store = SqliteProcessed(place / "books.db")

app = App(processed=store, retry=Retry(default=fixed(0.1)))


def write(word: str, number: int) -> None:
    """One line, whole, whoever else writes."""
    os.write(trace, f"{word} {number} {os.getpid()}\n".encode())


@app.worker("plain", concurrency=4, lease=LEASE_SECONDS, poison_after=None)
def job(number: int, message: Message[int]) -> None:
    """Leave a trace."""
    write("begin", number)
    time.sleep(pause)
    write("end", number)


@app.worker("books", concurrency=4, lease=LEASE_SECONDS, poison_after=None)
async def book(number: int, transaction: Transaction[sqlite3.Connection]) -> None:
    """Book an amount, once, whatever happens."""
    transaction.cursor.execute("INSERT INTO bookings VALUES (?, ?)", (number, os.getpid()))


@app.worker("deadly", concurrency=4, lease=LEASE_SECONDS, poison_after=3)
def deadly(number: int) -> None:
    """Die of one message in particular."""
    if number == 0:
        os.abort()
    write("end", number)
