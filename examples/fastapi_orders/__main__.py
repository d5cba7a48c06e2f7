"""python -m examples.fastapi_orders [url]: orders come by HTTP, and a worker packs them.

The application is what a service has: a model, two paths, a worker. For the example it is served on
a free port and asked by a client; a real one is started with `uvicorn` or `fastapi run`.
"""

import argparse
import asyncio
import json
import sys
import urllib.request
from contextlib import ExitStack

from penstock.testing import PenstockServer
from penstock.workers import App

try:
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    from penstock.integrations.fastapi import PenstockClient, answer_errors, lifespan
except ImportError:
    sys.exit("this example is a service of FastAPI: pip install fastapi uvicorn")

QUEUE = "web-orders"
ORDERS = 10
SECONDS_MAX = 30.0


class Order(BaseModel):
    """The body of a request, and of the message that it becomes."""

    number: int


def make_service(url: str, packed: set[int], all_packed: asyncio.Event) -> FastAPI:
    """The service; what it has packed is noted for the example."""
    jobs = App(url)

    @jobs.worker(QUEUE)
    async def pack(order: Order) -> None:
        packed.add(order.number)
        if len(packed) == ORDERS:
            all_packed.set()

    service = FastAPI(lifespan=lifespan(url, workers=[jobs]))
    answer_errors(service)

    @service.post("/orders", status_code=202)
    async def place(order: Order, client: PenstockClient) -> dict[str, str]:
        sent = await client.send(QUEUE, order)
        return {"id": sent.id}

    @service.get("/depth")
    async def depth(client: PenstockClient) -> dict[str, int]:
        stats = await client.queue(QUEUE).stats()
        return {"ready": stats.ready, "leased": stats.leased}

    return service


def place_order(address: str, number: int) -> str:
    """A customer; the id of the message."""
    request = urllib.request.Request(
        f"{address}/orders",
        json.dumps({"number": number}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["id"])


async def play(url: str) -> int:
    """Serve, order, and wait until all is packed; how many orders that were."""
    packed: set[int] = set()
    all_packed = asyncio.Event()
    service = make_service(url, packed, all_packed)
    server = uvicorn.Server(uvicorn.Config(service, host="127.0.0.1", port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        if serving.done():
            await serving
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    for number in range(ORDERS):
        await asyncio.to_thread(place_order, f"http://{host}:{port}", number)
    async with asyncio.timeout(SECONDS_MAX):
        await all_packed.wait()
    server.should_exit = True
    await serving
    return len(packed)


def main() -> int:
    """The exit code: 0 if all orders were packed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url", nargs="?", help="of a broker; without it there is one in here")
    url = parser.parse_args().url
    with ExitStack() as stack:
        url = url or stack.enter_context(PenstockServer()).url
        count = asyncio.run(play(url))
    print(f"{count} orders came by HTTP and were packed")
    return int(count != ORDERS)


if __name__ == "__main__":
    sys.exit(main())
