"""The saga of an order: reserve the goods, charge the card, announce it.

Each step writes to the ledger in one transaction with its own key (`ledger.processed.once(call)`),
so a step that runs twice, because a worker died before it could say that it was done, has one
effect.
"""

import logging
import random
import sqlite3

from examples.orders.ledger import Ledger
from examples.orders.orders import RECEIPTS, Order, Receipt
from penstock import Client
from penstock.patterns import Saga, Step, StepCall, StepRefused

_log = logging.getLogger(__name__)

FAILURES = 0.05
"""How often the payment provider's answer gets lost."""


class Payment:
    """The steps, with all they need."""

    def __init__(self, client: Client, ledger: Ledger, *, failures: float = FAILURES) -> None:
        self._client = client
        self._ledger = ledger
        self._failures = failures

    def saga(self) -> Saga[Order]:
        """All steps, in their order."""
        return Saga(
            "payment",
            data=Order,
            steps=[
                Step("reserve", self.reserve, self.put_back),
                Step("charge", self.charge, self.refund),
                Step("announce", self.announce),
            ],
        )

    def reserve(self, call: StepCall[Order]) -> None:
        """Take one piece from the shelf."""
        self._change_stock(call, -1)

    def put_back(self, call: StepCall[Order]) -> None:
        """Put it back, if it was taken."""
        if "reserve" in call.results:
            self._change_stock(call, 1)

    def charge(self, call: StepCall[Order]) -> str:
        """Charge the card, once."""
        order = call.data
        if order.is_declined:
            raise StepRefused(f"the card of {order.customer} is declined")
        with self._ledger.processed.once(call) as transaction:
            if transaction.is_new:
                transaction.connection.execute(
                    "INSERT INTO charges VALUES (?, ?, ?)", (order.id, order.customer, order.cents)
                )
            else:
                _log.info("%s was charged before", order.id)
        if random.random() < self._failures:
            # The card is charged, and nobody hears of it: the step will be tried again.
            raise ConnectionError("the payment provider's answer was lost")
        return f"charged {order.cents} cents"

    def refund(self, call: StepCall[Order]) -> None:
        """Take the charge back, if there was one; nobody knows after a timeout."""
        order = call.data
        with self._ledger.processed.once(call) as transaction:
            if transaction.is_new and _is_charged(transaction.connection, order):
                transaction.connection.execute(
                    "INSERT INTO charges VALUES (?, ?, ?)", (order.id, order.customer, -order.cents)
                )

    async def announce(self, call: StepCall[Order]) -> None:
        """Tell the world. The key is the message's id: sent twice, it counts once."""
        receipt = Receipt(call.data.id, call.data.cents)
        await self._client.send(RECEIPTS, receipt, key=call.data.customer, dedup_id=call.key)

    def _change_stock(self, call: StepCall[Order], change: int) -> None:
        with self._ledger.processed.once(call) as transaction:
            if transaction.is_new:
                transaction.connection.execute(
                    "INSERT INTO stock VALUES (?, ?, ?)", (call.data.id, call.data.item, change)
                )


def _is_charged(connection: sqlite3.Connection, order: Order) -> bool:
    query = "SELECT COALESCE(SUM(cents), 0) FROM charges WHERE order_id = ?"
    (cents,) = connection.execute(query, (order.id,)).fetchone()
    return bool(cents)
