"""The name of a receiver, as a lease stores it and people read it.

    checkout-7 (kafka, 127.0.0.1:51234)    by a name of the program's own, its protocol, its address
    127.0.0.1:51234 (sqs)                  of one that gives no name

Nothing is decided by it: programs may call themselves what they like.
"""

import re
from functools import lru_cache

from penstock.core.limits import RECEIVER_CHARACTERS_MAX

_NAMES_KEPT = 4_096
_PORT = re.compile(r":\d{1,5}(?= \((?:sqs|http)\)$)|(?<=\S):\d{1,5}(?=\)$)")
_BY_HTTP = re.compile(r" \((?:sqs|http)(?:, [^()]*)?\)$")


@lru_cache(_NAMES_KEPT)
def receiver_name(protocol: str, address: str, name: str = "") -> str:
    """Build a name: one line, of bounded length, whatever the client calls itself."""
    where = ", ".join(part for part in (protocol, address if name else "") if part)
    room = RECEIVER_CHARACTERS_MAX - len(where) - 3
    called = "".join(one if one.isprintable() else "?" for one in (name or address)[:room])
    return f"{called or '?'} ({where})"[:RECEIVER_CHARACTERS_MAX]


@lru_cache(_NAMES_KEPT)
def worker_name(receiver: str) -> str:
    """The name without the port, for HTTP: such a client may use many connections and would be
    counted as many."""
    return _PORT.sub("", receiver, count=1) if _BY_HTTP.search(receiver) else receiver
