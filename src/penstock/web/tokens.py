"""The token that a page of ours shows when it changes something.

A page of another site cannot read ours, so it cannot know the token; a request that shows any sign
of a browser and has not got it is not from a page of ours. It is no password: a client that may
read the pages has it.

It is drawn from a secret of the cluster, so that it is the same on every node and after a restart,
and a page that stays open goes on working. Until there is a cluster, it is this process's own.
"""

import hashlib
import hmac
import secrets

from penstock.core.errors import PenstockError
from penstock.engine.cluster.node import Node
from penstock.machines.secrets import RECEIPTS
from penstock.web.broker import Broker

_PURPOSE = b"penstock: token of pages"
_OWN = secrets.token_hex(16)


def page_token(broker: Broker) -> str:
    """Return the token that pages send with requests that change something."""
    node = broker.node
    if not isinstance(node, Node):
        return _OWN
    try:
        secret = node.engine.topics.catalog.secrets.get(RECEIPTS)
    except PenstockError:  # The catalog is being opened.
        return _OWN
    return _OWN if secret is None else hmac.new(secret, _PURPOSE, hashlib.sha256).hexdigest()[:32]


def is_token(broker: Broker, shown: str) -> bool:
    """Compare a token with the right one in constant time."""
    return hmac.compare_digest(shown.encode(), page_token(broker).encode())
