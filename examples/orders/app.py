"""What `penstock work` runs; where things are is said by the environment.

PENSTOCK_URL=penstock://127.0.0.1:9092 ORDERS_LEDGER=shop.db penstock work examples.orders.app
"""

import os
from pathlib import Path

from examples.orders.ledger import Ledger
from examples.orders.workers import make_app

app = make_app(
    os.environ.get("PENSTOCK_URL", "penstock://127.0.0.1:9092"),
    Ledger(Path(os.environ.get("ORDERS_LEDGER", "shop.db"))),
)
