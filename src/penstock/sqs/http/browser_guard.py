"""Keeps pages of other sites, open in a browser on this machine, from using SQS.

The port has no users yet and trusts every program that can reach it. The HTTP API asks for more
(`web/guard.py`), but SQS's clients are given: they call a broker by the name it has in their
network (a container's, a service's, a proxy's), and they send forms, which a page can send as well.
So the question is whether a request can come from a page at all. A browser adds an `Origin` to
every POST, also to its own site and also after DNS rebinding, and no script can remove it; SDKs
never send one. Hence:

- A POST without any sign of a browser is an SDK's, and may use any `Host`.
- With an `Origin`, a `Referer` or `Sec-Fetch-Site`, it is a page's: the Host must be a known one
  and the page of this very site.
- A GET can be an image in any page, and from an older browser, or after a rebinding, it has none of
  the three: here the Host must always be known. A person who types a queue's URL uses localhost, an
  address or a name from `web.hosts`.
"""

from collections.abc import Mapping

from penstock.core.http_hosts import (
    BROWSER_SIGNS,
    Hosts,
    is_known_host,
    is_same_site,
    unknown_host,
)

_SIGNS = frozenset(BROWSER_SIGNS)
_OWN_SITES = (b"same-origin", b"none")
"""A page of this site, or an address that was typed."""


def page_refusal(
    method: bytes, headers: Mapping[bytes, bytes], hosts: Hosts
) -> tuple[int, str] | None:
    """Why a request is refused, as a status and a sentence; None if it may be carried out. The
    names of headers are in lower case."""
    if method == b"POST" and _SIGNS.isdisjoint(headers):
        return None
    shown = [sign for sign in BROWSER_SIGNS if sign in headers]
    host = headers.get(b"host", b"").decode("latin-1")
    if not is_known_host(host, hosts):
        return 421, unknown_host(host)
    for sign in shown:
        value = headers[sign].decode("latin-1")
        if sign == b"sec-fetch-site":
            if headers[sign] not in _OWN_SITES:
                return 403, "a page of another site may not use this"
        elif not is_same_site(value, host):
            return 403, f"a page of {value} may not use this"
    return None
