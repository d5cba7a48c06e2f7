"""Penstock in Django: one client for each process, sending on commit, and workers.

INSTALLED_APPS = [..., "penstock.integrations.django"]
PENSTOCK_URL = "penstock://127.0.0.1:9092"      # otherwise as penstock.connect() finds it
PENSTOCK_CLIENT = ClientSettings(...)           # optional
PENSTOCK_WORKERS = "shop.jobs:app"              # what `manage.py penstock_work` runs

from penstock.integrations.django import send_on_commit

with transaction.atomic():
    order = Order.objects.create(...)
    send_on_commit("orders", {"order": order.pk})
"""

from penstock.integrations.django.connection import client, close_client, send, send_on_commit
from penstock.integrations.django.database import fresh_connections

__all__ = ["client", "close_client", "fresh_connections", "send", "send_on_commit"]
