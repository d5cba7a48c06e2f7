"""Combinations of settings that are refused before anything is opened.

The broker has no users and no encryption yet: every client that reaches a port may do everything.
So it listens on this machine only, unless `insecure` is given. A name other than localhost counts
as reachable from elsewhere, because the address behind it can change.
"""

from penstock.core.errors import LocalError
from penstock.server.config import Config
from penstock.server.notation import Address


def check_config(config: Config) -> None:
    """Raise `LocalError` for a configuration that makes no sense as a whole, or is not safe."""
    _check_reach(config)
    _check_advertised(config)
    _check_cluster(config)
    groups = config.groups
    if groups.session_min_ms > groups.session_max_ms:
        raise LocalError(
            "groups.session_min is above groups.session_max; no member could ever join"
        )
    limits = config.limits
    if limits.request_bytes_max > max(limits.memory_bytes_max, limits.requests_held_bytes_max):
        raise LocalError(
            "limits.request_size_max is above limits.memory_max; the largest request would never"
            " find room"
        )


def _check_reach(config: Config) -> None:
    broker = config.broker
    if broker.insecure:
        return
    for name, address in (("kafka", broker.kafka), ("http", broker.http)):
        if not address.is_loopback:
            raise LocalError(
                f"{name} = {address} can be reached from other machines, and there is no"
                " authentication yet: every client may read and change everything; use"
                " 127.0.0.1, or add --insecure if the network is yours alone"
            )
    if not broker.peer.is_loopback:
        raise LocalError(
            f"peer = {broker.peer} can be reached from other machines, and what nodes say to each"
            " other is authenticated but not encrypted yet; use 127.0.0.1, or add --insecure if the"
            " network is yours alone"
        )


def _check_advertised(config: Config) -> None:
    broker = config.broker
    for name, given in (
        ("advertise_kafka", broker.advertise_kafka),
        ("advertise_http", broker.advertise_http),
        ("advertise_peer", broker.advertise_peer),
    ):
        if given is not None and given.is_wildcard:
            raise LocalError(
                f"{name} = {given} is no address to connect to; give the name or address"
                " of this machine"
            )
    if broker.kafka.is_wildcard and broker.advertise_kafka is None:
        raise LocalError(
            f"kafka = {broker.kafka} listens on every address, so clients need a name: add"
            f" --advertise-kafka HOST:{broker.kafka.port}"
        )


def _check_cluster(config: Config) -> None:
    broker = config.broker
    if not broker.cluster:
        return
    if all(member.node != broker.node_id for member in broker.cluster):
        listed = " ".join(str(member.node) for member in broker.cluster)
        raise LocalError(
            f"this is node {broker.node_id}, but cluster lists nodes {listed}; give --node-id,"
            " or add this node's own address"
        )
    if broker.peer.port == 0:
        raise LocalError(
            "peer has port 0, but in a cluster the others must know where to connect; give the"
            " port that --cluster says"
        )


def advertised(
    bound: Address, given: Address | None, *, fallback: Address | None = None
) -> Address:
    """The advertised address: the given one, else where it listens, else the fallback's host.

    A given port 0 stands for the bound port."""
    if given is not None:
        return Address(given.host, given.port or bound.port)
    if bound.is_wildcard and fallback is not None:
        return Address(fallback.host, bound.port)
    return bound
