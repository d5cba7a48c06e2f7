"""What is done with an order after it has been stored."""

from django.db import connection

from examples.django_orders.site import QUEUE
from penstock.integrations.django import fresh_connections
from penstock.workers import App

app = App()


@app.worker(QUEUE)
@fresh_connections
def pack(order: dict[str, int]) -> None:
    """May be called twice with one order, and packs it once."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE orders SET packed = 1 WHERE number = %s AND packed = 0", [order["order"]]
        )
