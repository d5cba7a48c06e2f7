"""What happens at the site: customers, a worker, and a count in the end."""

import signal
import subprocess
import sys
import time

from django.db import connections
from django.test import Client

from examples.django_orders.site import counts, make_tables
from penstock.integrations.django import close_client

SECONDS_MAX = 60.0


def tell(orders: int) -> int:
    """How many orders are packed in the end; as many customers ask for what cannot be had."""
    make_tables()
    _place_orders(orders)
    work = [sys.executable, "-m", "django", "penstock_work", "examples.django_orders.jobs:app"]
    worker = subprocess.Popen(work, stdout=sys.stderr)
    try:
        packed = _wait_packed()
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    connections.close_all()
    close_client()
    return packed


def _place_orders(orders: int) -> None:
    """Every second order has a negative amount, which the view finds late."""
    customer = Client()
    for number in range(2 * orders):
        cents = 100 if number % 2 == 0 else -100
        answer = customer.post("/orders", {"cents": cents})
        assert answer.status_code == (201 if cents > 0 else 400), answer.content


def _wait_packed() -> int:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        stored, packed = counts()
        if stored == packed or time.monotonic() > deadline:
            return packed
        time.sleep(0.05)
