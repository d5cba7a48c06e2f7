"""The workers of the demo: they ship parcels. One carrier does not answer until it is told to.

    penstock work examples.order_stream.workers:app

A parcel may be delivered to two workers if one of them dies in between. What it has shipped it
says under the order's own id, and the second time counts as the first: `shipped` has each once.
"""

import os

from examples.order_stream.orders import PARCELS, SHIPPED
from penstock import App, Retry
from penstock.workers import broker, dead

CARRIER_VARIABLE = "DEMO_CARRIER"
"""A file: while it is there, the carrier called snail does not answer."""

app = App(os.environ.get("PENSTOCK_URL", "penstock://127.0.0.1:9092"), name="shop")


@app.worker(
    PARCELS, concurrency=50, retry=Retry(on={TimeoutError: dead}, default=broker), poison_after=None
)
async def ship(parcel: dict[str, object]) -> None:
    """Hand it to its carrier."""
    order = str(parcel["id"])
    if parcel["carrier"] == "snail" and _is_silent():
        waited_ms = 2_000 + int(order[-3:])
        raise TimeoutError(f"timeout: carrier snail has not answered within {waited_ms} ms")
    client = await app.client()
    await client.send(SHIPPED, parcel, key=order, dedup_id=order)


def _is_silent() -> bool:
    return os.path.exists(os.environ[CARRIER_VARIABLE])
