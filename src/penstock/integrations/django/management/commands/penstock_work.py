"""`manage.py penstock_work [MODULE:APP]`: run workers with Django set up, until a signal ends them.

It runs in one process; start it as often as you like. The first SIGTERM or SIGINT finishes what is
in hand, the second ends at once.
"""

import asyncio
import os
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from penstock.core.errors import PenstockError
from penstock.integrations.django.connection import close_client
from penstock.workers.app import App
from penstock.workers.app_loader import load_app
from penstock.workers.signals import on_signals


class Command(BaseCommand):  # type: ignore[misc]
    """Django asks for a class of this name."""

    help = "Run the workers of an application until a signal ends them."

    def add_arguments(self, parser: CommandParser) -> None:
        """What may stand behind the name of the command."""
        parser.add_argument(
            "app", nargs="?", help="MODULE:APP; by default the setting PENSTOCK_WORKERS"
        )
        parser.add_argument(
            "--queue", action="append", help="work off only this queue; may be repeated"
        )
        parser.add_argument("--concurrency", type=int, help="how many messages at once")

    def handle(self, *_arguments: Any, **options: Any) -> None:
        """Load the application and run it."""
        target = options["app"] or getattr(settings, "PENSTOCK_WORKERS", None)
        if not target:
            raise CommandError("name an application, MODULE:APP, or set PENSTOCK_WORKERS")
        try:
            app = load_app(target)
            _take_url(app)
            self.stderr.write(f"penstock: working at {app.url}; Ctrl-C stops it")
            asyncio.run(_work(app, options["queue"], options["concurrency"]))
        except PenstockError as error:
            raise CommandError(str(error)) from error
        finally:
            close_client()
        if app.abandoned:
            # Threads that are still at work would keep the process alive.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def _take_url(app: App) -> None:
    """An application without a URL of its own is where the settings say."""
    url = getattr(settings, "PENSTOCK_URL", None)
    if url is not None and not app.has_url:
        app.url = url


async def _work(app: App, queues: list[str] | None, concurrency: int | None) -> None:
    with on_signals(app.stop, lambda: app.stop(0)):
        await app.run(only=queues, concurrency=concurrency, waits_for_broker=True)
