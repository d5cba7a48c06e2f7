"""What an order is, and the queues it goes through."""

import msgspec

from penstock.client.queue_admin import QueueOptions

ORDERS = "orders"
"""Where orders are placed."""
RECEIPTS = "receipts"
"""Where the saga announces that an order was charged."""
QUEUE: QueueOptions = {"partitions": 4, "deduplication": "id", "exist_ok": True}
"""The settings of both. The first who needs them makes them, worker or customer."""
DAY = "today"
"""With what the ids of orders begin: orders of another day are other orders."""


class Order(msgspec.Struct, frozen=True):
    """One order of one customer."""

    id: str
    customer: str
    item: str
    cents: int

    @property
    def is_declined(self) -> bool:
        """The payment provider refuses every tenth customer's card."""
        return self.customer.endswith("0")


class Receipt(msgspec.Struct, frozen=True):
    """An order was charged."""

    order_id: str
    cents: int


def order_of(number: int, day: str = DAY) -> Order:
    """The order of this number: the same every time, so that anybody can check it."""
    return Order(
        id=f"{day}-{number:06d}",
        customer=f"customer-{number % 97}",
        item=f"item-{number % 7}",
        cents=100 + number % 9_000,
    )
