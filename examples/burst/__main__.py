"""python -m examples.burst [url]: Black Friday. Three times the usual rate for a while.

Orders come at a rate that the workers can just bear; then three times as many, for a third of the
time. Nobody is turned away and nothing breaks: the workers go on at their own pace, the depth of
the queue grows, and when the rush is over they work it off. What a burst costs is time, and it can
be computed beforehand: depth after the burst = (arrivals − service) × length, and the time to work
it off is depth ÷ (service − arrivals).
"""

import argparse
import asyncio
import sys

import penstock

ORDERS = "burst-orders"
WORKERS = 4
SERVICE_SECONDS = 0.02
"""One worker does fifty a second, all of them two hundred."""
USUAL_RATE = 120
BURST_RATE = 3 * USUAL_RATE
PHASES = (("usual", USUAL_RATE, 1.0), ("BURST", BURST_RATE, 1.0), ("usual", USUAL_RATE, 1.0))
EVERY_SECONDS = 0.25
SECONDS_MAX = 60.0


class Shop:
    """Counts, and a word for the picture."""

    def __init__(self) -> None:
        self.phase = ""
        self.sent = 0
        self.done = 0
        self.deepest = 0


async def produce(client: penstock.Client, shop: Shop) -> None:
    """Send at the rate of each phase, in small batches."""
    loop = asyncio.get_running_loop()
    for phase, rate, seconds in PHASES:
        shop.phase = phase
        began, sent = loop.time(), 0
        while sent < rate * seconds:
            due = min(rate * seconds, rate * (loop.time() - began))
            if batch := int(due) - sent:
                await client.send_many(ORDERS, [b"order"] * batch)
                sent += batch
                shop.sent += batch
            await asyncio.sleep(0.01)
    shop.phase = "after"


async def work(client: penstock.Client, shop: Shop) -> None:
    """One worker: an order takes its time, whatever happens outside."""
    async for message in client.queue(ORDERS).consume(prefetch=10):
        await asyncio.sleep(SERVICE_SECONDS)
        await message.ack()
        shop.done += 1


async def watch(client: penstock.Client, shop: Shop, producing: "asyncio.Task[None]") -> None:
    """Print the depth over time, until everything is done."""
    queue = client.queue(ORDERS)
    done = 0
    while not producing.done() or shop.done < shop.sent:
        await asyncio.sleep(EVERY_SECONDS)
        depth = (await queue.stats()).depth
        shop.deepest = max(shop.deepest, depth)
        rate, done = (shop.done - done) / EVERY_SECONDS, shop.done
        print(
            f"{shop.phase:<6} depth {depth:4}  {rate:4.0f} done/s  {'#' * (depth // 5)}", flush=True
        )


async def main() -> int:
    """Run the example; the exit code is 1 if an order is missing."""
    parser = argparse.ArgumentParser(prog="python -m examples.burst", description=__doc__)
    parser.add_argument("url", nargs="?", default="memory:", help="where the broker is")
    options = parser.parse_args()
    shop = Shop()
    async with asyncio.timeout(SECONDS_MAX), penstock.connect(options.url) as client:
        await client.create_queue(ORDERS, exist_ok=True)
        workers = [asyncio.create_task(work(client, shop)) for _ in range(WORKERS)]
        producing = asyncio.create_task(produce(client, shop))
        await watch(client, shop, producing)
        await producing
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    print(f"{shop.sent} orders sent, {shop.done} done, {shop.deepest} deep at most")
    return 0 if shop.sent == shop.done and shop.deepest > USUAL_RATE // 2 else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
