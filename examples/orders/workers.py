"""The workers of the shop, as an application.

Three queues, three workers. An order becomes a saga; a saga's token is carried on, by whichever
process has it; a receipt is booked exactly once. Run as many processes as you like, and kill them.

    orders ──► place ──► saga-payment ──► pay ──► receipts ──► book
"""

import sqlite3

from examples.orders.ledger import Ledger
from examples.orders.orders import ORDERS, QUEUE, RECEIPTS, Order, Receipt
from examples.orders.payment import FAILURES, Payment
from penstock import App, Message, PenstockError, Reject, Retry, RetryLater
from penstock.client.processed_store import Transaction
from penstock.patterns import SagaRunner, SagaStatus, SagaToken, saga_queue_options
from penstock.workers import jittered

LEASE_SECONDS = 5.0
"""Leases are extended while a worker lives, so this is how long its orders wait when it dies."""


def make_app(url: str, ledger: Ledger, *, failures: float = FAILURES) -> App:
    """An application with its three workers."""
    # A broker that is away for a moment is nothing unusual here.
    away = Retry(on={PenstockError: jittered(1.0)})
    app = App(url, name="orders", processed=ledger.processed, retry=away)
    runners: list[SagaRunner[Order]] = []

    async def runner() -> SagaRunner[Order]:
        if not runners:
            client = await app.client()
            saga = Payment(client, ledger, failures=failures).saga()
            runners.append(
                SagaRunner(client, saga, lease=LEASE_SECONDS, attempts_max=20, retry_delay=0.1)
            )
        return runners[0]

    # Here workers are killed on purpose, so no message is suspected of having done it.

    @app.worker(
        ORDERS,
        poison_after=None,
        lease=LEASE_SECONDS,
        create=QUEUE,
    )
    async def place(order: Order) -> None:
        await (await runner()).start(order.id, order)

    @app.worker(
        "saga-payment",
        poison_after=None,
        lease=LEASE_SECONDS,
        create=saga_queue_options(lease=LEASE_SECONDS),
    )
    async def pay(message: Message[SagaToken]) -> None:
        payments = await runner()
        state = await payments.advance(message)
        if state.status is SagaStatus.STUCK:
            raise Reject(state.error)
        if not state.status.is_final:
            raise RetryLater(payments.delay(state), state.error)

    @app.worker(
        RECEIPTS,
        poison_after=None,
        lease=LEASE_SECONDS,
        create=QUEUE,
    )
    def book(receipt: Receipt, transaction: Transaction[sqlite3.Connection]) -> None:
        transaction.connection.execute(
            "INSERT INTO receipts VALUES (?, ?)", (receipt.order_id, receipt.cents)
        )

    return app
