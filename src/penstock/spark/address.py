"""The address of the broker in the options of a source or sink.

    kafka.bootstrap.servers   "one:9092,two:9092", as Spark's Kafka connector has it: Penstock's own
                              protocol is served on the same port
    url                       "penstock://one:9092,two:9092"

One of them is enough. Tasks run in processes of their own, perhaps on other machines, so an engine
inside this process (`file:`, `memory:`) cannot be read or written by Spark.
"""

from collections.abc import Mapping
from typing import Final

from penstock.client.connection.urls import Remote, parse_url
from penstock.core.errors import InvalidRequest, InvalidUrl

SERVERS: Final = "kafka.bootstrap.servers"
URL: Final = "url"


def address_of(options: Mapping[str, str]) -> str:
    """The address that `client_of` takes, in one form for each set of hosts, checked."""
    given = {name.lower(): value for name, value in options.items()}
    servers, url = given.get(SERVERS), given.get(URL)
    if servers is None and url is None:
        raise InvalidRequest(
            f'no broker is named: set the option {SERVERS} to "host:9092", or url to'
            ' "penstock://host:9092"'
        )
    if servers is None:
        assert url is not None
        return _read(url)
    address = _read("penstock://" + ",".join(_bare(one) for one in servers.split(",")))
    if url is not None and _read(url) != address:
        raise InvalidRequest(f"{SERVERS} says {servers} and url says {url}: set only one of them")
    return address


def _read(url: str) -> str:
    place = parse_url(url)
    if not isinstance(place, Remote):
        raise InvalidUrl(
            f"{url!r} is an engine inside one process, and Spark's tasks run in several: start a"
            " broker (`penstock serve`) and say penstock://host:9092"
        )
    hosts = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in place.hosts)
    return "penstock://" + ",".join(hosts)


def _bare(server: str) -> str:
    """A server of the list, without the name of a listener: PLAINTEXT://host:9092."""
    return server.strip().rpartition("://")[2]
