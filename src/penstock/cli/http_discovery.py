"""Discovery of a broker's HTTP address from its native address.

A node says where each node of its cluster serves HTTP. The node that answers is preferred, because
it has just been reached; if it names no address, another one that is up is taken.
"""

from penstock.cli.session import with_client
from penstock.client.client import Client
from penstock.client.connection.urls import Remote, parse_url
from penstock.client.descriptions import ClusterDescription
from penstock.core.errors import LocalError, Unavailable
from penstock.server.notation import ADDRESS, Address

SECONDS_MAX = 10.0


def find_http(url: str, node: int | None = None) -> Address:
    """The HTTP address of `node`, or of any node that is up."""
    if not isinstance(parse_url(url), Remote):
        raise LocalError(
            f"{url} has no HTTP port, which this command asks; start a broker on the directory"
            " with `penstock serve --data PATH`, or use peek, produce, consume, redrive, topic or"
            " group, which open the directory themselves"
        )

    async def look(client: Client) -> ClusterDescription:
        return await client.cluster()

    cluster = with_client(url, look, timeout=SECONDS_MAX)
    wanted = cluster.node if node is None else node
    nodes = sorted(cluster.nodes, key=lambda one: (one.id != wanted, not one.alive, one.id))
    for one in nodes:
        if one.http:
            return ADDRESS.parse(one.http)
    raise Unavailable(
        f"the broker at {url} is {cluster.version} and does not say where its HTTP port is; say it"
        " with --http HOST:PORT"
    )
