"""A site in one module: its settings, its table, its view."""

import os

from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from penstock.integrations.django import send_on_commit

SECRET_KEY = "an example has none"
INSTALLED_APPS = ["penstock.integrations.django"]
ROOT_URLCONF = "examples.django_orders.site"
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("ORDERS_DATABASE", "orders.db"),
        "OPTIONS": {"timeout": 30},
    }
}
QUEUE = "django-orders"


def place(request: HttpRequest) -> HttpResponse:
    """Store an order; the message goes out when that is committed."""
    cents = int(request.POST["cents"])
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders (cents, packed) VALUES (%s, 0)", [cents])
            number = cursor.lastrowid
        send_on_commit(QUEUE, {"order": number}, dedup_id=f"order {number}")
        if cents < 0:
            transaction.set_rollback(True)
            return HttpResponse("a negative amount", status=400)
    return HttpResponse(status=201)


urlpatterns = [path("orders", place)]


def make_tables() -> None:
    """What migrations do in a site with models."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE orders (number INTEGER PRIMARY KEY, cents INTEGER, packed INTEGER)"
        )


def counts() -> tuple[int, int]:
    """How many orders are stored, and how many of them are packed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*), SUM(packed) FROM orders")
        stored, packed = cursor.fetchone()
    return int(stored), int(packed or 0)
