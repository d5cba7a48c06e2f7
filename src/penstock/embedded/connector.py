"""`penstock.connect`: from an address to a client.

The engine is imported only for an address that needs one: a client of a broker elsewhere starts in
a few milliseconds.
"""

from penstock.client.client import Client
from penstock.client.connection.channel import Channel
from penstock.client.connection.tcp_channel import TcpChannel
from penstock.client.connection.urls import File, Memory, Remote, parse_url
from penstock.client.default_url import default_url
from penstock.client.settings import ClientSettings
from penstock.core.clock import Clock


def connect(
    url: str | None = None,
    *,
    settings: ClientSettings | None = None,
    clock: Clock | None = None,
) -> Client:
    """A client of the broker at an address; `await` it, or use it with `async with`. Without an
    address: that of the variable PENSTOCK_URL, or of the context that was chosen with `penstock
    context use`, or penstock://127.0.0.1:9092.

    penstock://host:9092,host2:9092   a broker or cluster; one node that answers is enough
    file:./data                       the whole engine inside this process, durable, no server
    memory:                           the same on a memory disk, for tests; `memory:name` is shared
                                      by all clients of the process that use the name

    `clock` is for tests: delays, leases and lifetimes of an engine in this process follow it."""
    if url is None:
        url = default_url()
    place = parse_url(url)

    async def open_channel() -> Channel:
        return await _open_channel(place, clock)

    return Client(open_channel, url=url, settings=settings, clock=clock)


async def _open_channel(place: Remote | File | Memory, clock: Clock | None) -> Channel:
    if isinstance(place, Remote):
        return TcpChannel(place.hosts)
    from penstock.embedded.channel import EmbeddedChannel  # noqa: PLC0415 - see above

    return await EmbeddedChannel.open(place, clock=clock)
