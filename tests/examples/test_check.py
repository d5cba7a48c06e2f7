"""The check of the books finds what is wrong with them."""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from examples.orders.check import complaints, unfinished, verdict
from examples.orders.ledger import Ledger
from examples.orders.orders import order_of
from examples.orders.place_orders import place_orders
from examples.orders.workers import make_app
from penstock.client.database import Cursor
from penstock.client.processed_ids import SqliteProcessed

ORDERS = [order_of(number) for number in range(30)]
GOOD, DECLINED = ORDERS[1], ORDERS[10]
assert DECLINED.is_declined
assert not GOOD.is_declined


def good_books(path: Path) -> Ledger:
    ledger = Ledger(path / "shop.db")
    connection = sqlite3.connect(ledger.path)
    for order in ORDERS:
        connection.execute("INSERT INTO stock VALUES (?, ?, -1)", (order.id, order.item))
        if order.is_declined:
            connection.execute("INSERT INTO stock VALUES (?, ?, 1)", (order.id, order.item))
        else:
            charge = (order.id, order.customer, order.cents)
            connection.execute("INSERT INTO charges VALUES (?, ?, ?)", charge)
            connection.execute("INSERT INTO receipts VALUES (?, ?)", (order.id, order.cents))
    connection.commit()
    connection.close()
    return ledger


def test_good_books(tmp_path: Path) -> None:
    ledger = good_books(tmp_path)
    assert complaints(ledger, ORDERS) == []
    assert unfinished(ledger, ORDERS) == 0
    assert verdict(ledger, ORDERS).startswith("30 orders: 27 charged exactly once, 3 declined")


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lambda: ("INSERT INTO charges VALUES (?, 'x', 5)", GOOD.id), "charged 2 times, not 1"),
        (lambda: ("INSERT INTO charges VALUES (?, 'x', 5)", DECLINED.id), "1 times, not 0"),
        (lambda: ("DELETE FROM charges WHERE order_id = ?", GOOD.id), "0 times, not 1"),
        (lambda: ("UPDATE charges SET cents = 1 WHERE order_id = ?", GOOD.id), "1 cents, not"),
        (lambda: ("DELETE FROM receipts WHERE order_id = ?", GOOD.id), "0 receipts, not 1"),
        (lambda: ("INSERT INTO stock VALUES (?, 'x', -1)", DECLINED.id), "1 pieces, not 0"),
        (lambda: ("INSERT INTO charges VALUES (?, 'x', 1)", "nobody"), "never placed"),
    ],
)
def test_bad_books(tmp_path: Path, harm: Callable[[], tuple[str, str]], complaint: str) -> None:
    ledger = good_books(tmp_path)
    statement, order_id = harm()
    connection = sqlite3.connect(ledger.path)
    connection.execute(statement, (order_id,))
    connection.commit()
    connection.close()
    [found] = complaints(ledger, ORDERS)
    assert complaint in found


class ForgetfulStore(SqliteProcessed):
    """Takes every message for a new one."""

    def _insert(
        self, connection: sqlite3.Connection, cursor: Cursor, values: Mapping[str, object]
    ) -> bool:
        super()._insert(connection, cursor, values)
        return True


@pytest.mark.slow
@pytest.mark.parametrize("is_forgetful", [False, True])
def test_without_ids_customers_would_be_charged_twice(tmp_path: Path, is_forgetful: bool) -> None:
    """A third of the payment provider's answers are lost. What keeps the books right is the ids.

    Each loss doubles the wait for the next try: with half of them lost, one order in a thousand
    would take a minute."""
    random.seed(7)
    ledger = Ledger(tmp_path / "shop.db")
    if is_forgetful:
        ledger.processed = ForgetfulStore(ledger.path)

    async def trade() -> None:
        app = make_app("memory:", ledger, failures=0.3)
        async with asyncio.timeout(60), app:
            await place_orders(await app.client(), ORDERS)
            while unfinished(ledger, ORDERS):  # noqa: ASYNC110 - threads write the books
                await asyncio.sleep(0)

    asyncio.run(trade())
    ledger.close()
    found = complaints(ledger, ORDERS)
    assert any("was charged" in complaint for complaint in found) == is_forgetful
