"""The application for Django, with Django itself: transactions, a test client, the command."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection, connections, transaction

from penstock import blocking
from tests.web_broker import WebBroker

DONE_SECONDS_MAX = 60
SITE = """
SECRET_KEY = "not-one"
INSTALLED_APPS = ["penstock.integrations.django"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {file!r}}}}}
PENSTOCK_URL = {url!r}
PENSTOCK_WORKERS = "jobs:app"
USE_TZ = True
"""
JOBS = """
from django.db import connection
from penstock.integrations.django import fresh_connections
from penstock.workers import App

app = App()

@app.worker("dj-jobs")
@fresh_connections
def job(number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO done (number) VALUES (%s)", [number])
    print("done", number, flush=True)
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with WebBroker(Path(tmp_path_factory.mktemp("django"))) as broker:
        yield f"penstock://{broker.address}"


@pytest.fixture(scope="module")
def site(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Django set up in this process, with a database; and its settings as a module on disk."""
    directory = tmp_path_factory.mktemp("site")
    file = str(directory / "site.db")
    (directory / "site_settings.py").write_text(SITE.format(file=file, url=url))
    (directory / "jobs.py").write_text(JOBS)
    settings.configure(
        INSTALLED_APPS=["penstock.integrations.django"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": file}},
        PENSTOCK_URL=url,
    )
    django.setup()
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE done (number INTEGER)")
    yield directory
    from penstock.integrations.django import close_client

    close_client()
    connections.close_all()


def bodies(url: str, queue: str) -> list[object]:
    with blocking.connect(url) as client:
        return [message.body for message in client.queue(queue).peek()]


def test_a_message_is_sent_when_the_transaction_is_committed(site: Path, url: str) -> None:
    from penstock.integrations.django import client, send, send_on_commit

    with transaction.atomic():
        send("dj-orders", 0)
        send_on_commit("dj-orders", 1, key="a")
        assert bodies(url, "dj-orders") == [0]
    assert bodies(url, "dj-orders") == [0, 1]
    with transaction.atomic():
        send_on_commit("dj-orders", 2)
        transaction.set_rollback(True)
    send_on_commit("dj-orders", 3, using="default")
    assert bodies(url, "dj-orders") == [0, 1, 3]
    assert client() is client()


def test_a_client_that_was_closed_is_connected_again(site: Path, url: str) -> None:
    from penstock.integrations.django import client, close_client, send

    first = client()
    close_client()
    close_client()
    send("dj-again", 1)
    assert client() is not first
    assert bodies(url, "dj-again") == [1]


def test_connections_are_looked_after_around_a_job(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.integrations.django import database

    calls: list[str] = []
    monkeypatch.setattr(database, "close_old_connections", lambda: calls.append("close"))

    @database.fresh_connections
    def job(number: int) -> int:
        calls.append("job")
        return number

    @database.fresh_connections
    async def other(number: int) -> int:
        calls.append("other")
        return number

    assert job(7) == 7
    assert asyncio.run(other(8)) == 8
    assert calls == ["close", "job", "close", "close", "other", "close"]


def test_the_command_says_what_is_missing(site: Path) -> None:
    with pytest.raises(CommandError, match="PENSTOCK_WORKERS"):
        call_command("penstock_work")
    with pytest.raises(CommandError, match="there is no module nowhere"):
        call_command("penstock_work", "nowhere:app")


@pytest.mark.slow
def test_workers_run_as_a_command_of_the_site(site: Path, url: str) -> None:
    with blocking.connect(url) as client:
        client.queue("dj-jobs").send(41)
    command = subprocess.Popen(
        [sys.executable, "-m", "django", "penstock_work"],
        cwd=site,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "site_settings",
            "PYTHONPATH": os.pathsep.join([str(site), *sys.path]),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert command.stdout is not None
        assert command.stdout.readline() == "done 41\n"
        command.send_signal(signal.SIGTERM)
        _, talk = command.communicate(timeout=DONE_SECONDS_MAX)
    finally:
        command.kill()
        command.wait()
    assert command.returncode == 0, talk
    assert f"working at {url}" in talk
    database = sqlite3.connect(site / "site.db")
    assert database.execute("SELECT number FROM done").fetchall() == [(41,)]
    database.close()
