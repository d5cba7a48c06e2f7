"""A port that is free on every address, and stays so until a server that is slow to start takes it.

Most servers are given an address of the benchmark's own, where every port is free. Some listen on
all addresses: Erlang's nodes and their name server do, and fauxqs knows no other way. Their ports
are reserved until the benchmark ends; RabbitMQ, for one, stops with `dist_port_already_used` if
another program was quicker.
"""

from penstock.server.reserved_ports import ReservedPorts

_reserved: list[ReservedPorts] = []


def free_everywhere() -> int:
    """Another one at each call."""
    ports = ReservedPorts(1, host="")
    _reserved.append(ports)
    return ports.numbers[0]
