"""python -m examples.orders [url] [--orders 100]: place orders, work them off, check the books."""

import argparse
import asyncio
import sys
import tempfile
import uuid
from pathlib import Path

from examples.orders.check import complaints, unfinished, verdict
from examples.orders.ledger import Ledger
from examples.orders.orders import order_of
from examples.orders.place_orders import place_orders
from examples.orders.workers import make_app

SECONDS_MAX = 120.0


async def main() -> int:
    """Everything in one process; the exit code is 1 if the books are wrong."""
    parser = argparse.ArgumentParser(prog="python -m examples.orders", description=__doc__)
    parser.add_argument("url", nargs="?", default="memory:", help="where the broker is")
    parser.add_argument("--orders", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        ledger = Ledger(Path(directory) / "shop.db")
        app = make_app(options.url, ledger)
        day = uuid.uuid4().hex[:8]  # The broker may remember orders of other days.
        orders = [order_of(number, day) for number in range(options.orders)]
        async with asyncio.timeout(SECONDS_MAX), app:
            await place_orders(await app.client(), orders)
            while left := unfinished(ledger, orders):
                print(f"{options.orders - left} of {options.orders} orders are done", flush=True)
                await asyncio.sleep(0.2)
        found = complaints(ledger, orders)
        print("\n".join(found) or verdict(ledger, orders))
        ledger.close()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
