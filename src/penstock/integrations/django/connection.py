"""The client of a Django process.

It is connected when it is first used, because Django loads its settings and forks its workers
before. A forked process connects anew: a client does not survive a fork.
"""

import atexit
import os
from functools import partial
from threading import Lock
from typing import Unpack

from django.conf import settings
from django.db import transaction

from penstock import blocking
from penstock.client.blocking import BlockingClient
from penstock.client.call_options import SendOptions
from penstock.client.sent_message import Sent

_lock = Lock()
_clients: dict[int, BlockingClient] = {}
"""By process id."""


def client() -> BlockingClient:
    """The client of this process, for all its threads."""
    found = _clients.get(os.getpid())
    if found is not None:
        return found
    with _lock:
        process = os.getpid()
        if process not in _clients:
            _clients.clear()  # Of the parent: not ours to close.
            _clients[process] = blocking.connect(
                getattr(settings, "PENSTOCK_URL", None),
                settings=getattr(settings, "PENSTOCK_CLIENT", None),
            )
        return _clients[process]


def close_client() -> None:
    """Close the client of this process, as happens at its end; the next use connects anew."""
    with _lock:
        found = _clients.pop(os.getpid(), None)
    if found is not None:
        found.close()


def send(destination: str, body: object, **options: Unpack[SendOptions]) -> Sent:
    """Send one message now, whatever becomes of a transaction; see `Queue.send`."""
    return client().send(destination, body, **options)


def send_on_commit(
    destination: str, body: object, *, using: str | None = None, **options: Unpack[SendOptions]
) -> None:
    """Send one message when the transaction that is open now has been committed, and not at all if
    it is rolled back; without a transaction, now. `using` names the database.

    A process that dies between the commit and the sending sends nothing: where that matters, write
    the message into the same transaction with `penstock.patterns.outbox`."""
    transaction.on_commit(partial(send, destination, body, **options), using=using)


atexit.register(close_client)
