"""The `Host` and `Origin` headers of HTTP: the names a node is known by, and pages of its own.

A page can give its own name this machine's address (DNS rebinding) and then counts as the same site
for a browser. So a request that may come from a page must name a host that the node is known by:
an address, localhost, or a name from `web.hosts`.
"""

import ipaddress
from collections.abc import Callable, Collection

ANY_HOST = "*"
BROWSER_SIGNS = (b"origin", b"referer", b"sec-fetch-site")
"""Headers that browsers send and programs do not."""

Hosts = Callable[[], Collection[str]]
"""The names this node is known by."""


def is_known_host(host: str, hosts: Hosts) -> bool:
    """True if a `Host` header names this node."""
    name = _without_port(host).lower()
    if name == "localhost" or _is_address(name):
        return True
    known = hosts()
    return bool(name) and (ANY_HOST in known or name in {other.lower() for other in known})


def unknown_host(host: str) -> str:
    """The refusal of a request that calls this node by a name it does not have."""
    return (
        f"this node is not known as {host or 'nothing'}; use its address, or add the name to"
        " web.hosts"
    )


def is_same_site(url: str, host: str) -> bool:
    """True if an origin, or the URL of a page, is on this host."""
    return url.partition("://")[2].partition("/")[0].lower() == host.lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
