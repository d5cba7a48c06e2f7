"""python -m examples.ledger [url]: many withdraw at once, and nobody gets what is not there.

Five tills, each with a store of its own, as five processes would have, withdraw from one account
until it is empty. A projection keeps a table in SQLite; it is stopped in the middle and goes on
where it was. In the end the log, the stores and the table agree.
"""

import argparse
import asyncio
import sqlite3
import sys
import tempfile
import uuid
from pathlib import Path

import penstock
from examples.ledger.accounts import (
    ACCOUNTS,
    Account,
    Deposited,
    Event,
    Opened,
    Withdrawn,
    accounts_of,
    after,
    withdraw,
)
from penstock.client.database import Cursor
from penstock.patterns import EventProjection

TILLS = 5
DEPOSIT_CENTS = 100_00
WITHDRAWAL_CENTS = 7_00


def show(cursor: Cursor, account: str, event: Event) -> None:
    """Keep the table of balances."""
    match event:
        case Opened(owner):
            cursor.execute("INSERT INTO balances VALUES (?, ?, 0)", (account, owner))
        case Deposited(cents):
            _add(cursor, account, cents)
        case Withdrawn(cents):
            _add(cursor, account, -cents)


def _add(cursor: Cursor, account: str, cents: int) -> None:
    cursor.execute("UPDATE balances SET cents = cents + ? WHERE account = ?", (cents, account))


async def empty_account(client: penstock.Client, name: str) -> int:
    """All tills withdraw from an account until it is empty; how often they got something."""
    tills = [accounts_of(client) for _ in range(TILLS)]

    async def serve(till: int) -> int:
        served = 0
        while await withdraw(tills[till], name, WITHDRAWAL_CENTS):
            served += 1
        return served

    return sum(await asyncio.gather(*(serve(till) for till in range(TILLS))))


async def main() -> int:
    """Run the example; the exit code is 1 if anything disagrees."""
    parser = argparse.ArgumentParser(prog="python -m examples.ledger", description=__doc__)
    parser.add_argument("url", nargs="?", default="memory:", help="where the broker is")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "balances.db"
        table = sqlite3.connect(file)
        table.execute("CREATE TABLE balances (account TEXT PRIMARY KEY, owner TEXT, cents INTEGER)")
        table.commit()

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(file, check_same_thread=False)

        async with penstock.connect(options.url) as client:
            accounts = accounts_of(client)
            opening: list[Event] = [Opened("Anna"), Deposited(DEPOSIT_CENTS)]
            name = f"anna-{uuid.uuid4().hex[:8]}"  # There may have been other Annas before.
            await accounts.append(name, opening, expected_version=0)
            for _ in range(2):  # The second one goes on where the first one stopped.
                async with EventProjection(
                    client, ACCOUNTS, "balances", connect, show, event=Event
                ) as view:
                    await view.catch_up()
                    served = await empty_account(client, name)
                    await view.catch_up()
                    print(f"served {served} times")
            anna = await accounts.load(name)
            history = await accounts.events(name)
            states = await accounts.take_snapshots()
        query = "SELECT cents FROM balances WHERE account = ?"
        (cents,) = table.execute(query, (name,)).fetchone()
        table.close()
    told = Account()
    for event in history:
        told = after(told, event)
    print(f"anna has {anna.state.cents} cents after {anna.version} events, the table says {cents}")
    print(f"{states} snapshot(s) taken")
    left = DEPOSIT_CENTS % WITHDRAWAL_CENTS
    return 0 if told == anna.state and anna.state.cents == cents == left else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
