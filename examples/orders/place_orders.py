"""Place orders:  python -m examples.orders.place_orders penstock://127.0.0.1:9092 --orders 100

An order's id is its `dedup_id`. So when nobody knows whether an order arrived, because the broker
died in the middle of it, it is simply placed again: it counts once.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence

import penstock
from examples.orders.orders import DAY, ORDERS, QUEUE, Order, order_of
from penstock import Client

PLACED_AT_ONCE = 20
SECONDS_BETWEEN_TRIES = 0.2


async def connect_however_often(url: str) -> Client:
    """A client, even if the broker is not there at first."""
    while True:
        try:
            return await penstock.connect(url)
        except penstock.Unavailable:
            await asyncio.sleep(SECONDS_BETWEEN_TRIES)


async def insist(act: Callable[[], Awaitable[object]]) -> None:
    """Do what may be done twice, however often it takes."""
    while True:
        try:
            await act()
            return
        except (penstock.Unavailable, penstock.OutcomeUnknown):
            await asyncio.sleep(SECONDS_BETWEEN_TRIES)


async def place_order(client: Client, order: Order) -> None:
    """Place an order, however often it takes."""
    await insist(lambda: client.send(ORDERS, order, key=order.customer, dedup_id=order.id))


async def place_orders(
    client: Client, orders: Sequence[Order], *, every: float = 0.0, tell: bool = False
) -> None:
    """Place these orders, some at once, or one every so many seconds."""
    # A queue that is made by sending to it has the cluster's defaults.
    await insist(lambda: client.create_queue(ORDERS, **QUEUE))
    places = asyncio.Semaphore(PLACED_AT_ONCE)

    async def place(order: Order) -> None:
        async with places:
            await place_order(client, order)
            if tell:
                print(f"placed {order.id}", flush=True)

    async with asyncio.TaskGroup() as tasks:
        for order in orders:
            tasks.create_task(place(order))
            await asyncio.sleep(every)


async def main() -> None:
    """Place orders as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--orders", type=int, default=100)
    parser.add_argument("--day", default=DAY)
    parser.add_argument("--every", type=float, default=0.0, help="seconds from order to order")
    options = parser.parse_args()
    async with await connect_however_often(options.url) as client:
        orders = [order_of(number, options.day) for number in range(options.orders)]
        await place_orders(client, orders, every=options.every, tell=True)


if __name__ == "__main__":
    asyncio.run(main())
