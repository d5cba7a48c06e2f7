"""The waiting time in a queue with several servers, by Erlang's formulas.

Little's law (L = λW) says how much work is under way on average, and needs no assumption at all.
It does not say how long a message waits, since that depends on how unevenly messages come. The
M/M/c queue, random arrivals and random service times, is the usual answer, and a cautious one:
work that comes or takes more evenly waits less. What comes in bursts waits longer, which is why a
plan looks at its peak by itself.

Erlang's B formula (all c servers busy, no waiting) has a recursion that never overflows:

    B(0) = 1,   B(k) = a·B(k−1) / (k + a·B(k−1))          a = λW, the offered load

and from it follows Erlang's C, the share of messages that have to wait at all:

    C = B / (1 − ρ(1 − B))                                 ρ = a / c, the utilisation
    P(wait > t) = C·exp(−(c − a)·t / W)
    mean wait = C·W / (c − a)

Pure functions; numbers in, numbers out.
"""

import math
from dataclasses import dataclass

SERVERS_MAX = 2_000_000
"""The recursion takes a step for each server; more of them is no plan but a typing error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The distribution of waiting times with some number of servers."""

    servers: int
    offered: float
    """Erlangs: how many servers would be busy on average if there were enough."""
    service_seconds: float
    share: float
    """The share of messages that wait at all (Erlang C)."""

    @property
    def utilisation(self) -> float:
        """The share of time for which the servers are busy."""
        return self.offered / self.servers

    @property
    def mean_seconds(self) -> float:
        """Over all messages, those that need not wait included."""
        return self.share * self.service_seconds / (self.servers - self.offered)

    @property
    def messages(self) -> float:
        """The average number of waiting messages, by Little's law."""
        return self.mean_seconds * self.offered / self.service_seconds

    def exceeding(self, seconds: float) -> float:
        """The share of messages that wait longer than this."""
        spare = (self.servers - self.offered) / self.service_seconds
        return self.share * math.exp(-spare * seconds)

    def quantile_seconds(self, share: float) -> float:
        """The waiting time that the given share of messages does not exceed."""
        if self.share <= 1 - share:
            return 0.0
        spare = (self.servers - self.offered) / self.service_seconds
        return math.log(self.share / (1 - share)) / spare


def waiting(*, offered: float, service_seconds: float, servers: int) -> Waiting:
    """Return the distribution of waiting times. `servers` must exceed `offered`, or the queue grows
    without bound."""
    assert 0 <= offered < servers <= SERVERS_MAX, f"{servers} servers for a load of {offered}"
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = offered * blocked / (number + offered * blocked)
    return _waiting(offered, service_seconds, servers, blocked)


def servers_for_wait(
    *, offered: float, service_seconds: float, wait_seconds: float, share: float
) -> Waiting:
    """The fewest servers with which at most `1 − share` of all messages wait longer than that."""
    blocked = 1.0
    for number in range(1, SERVERS_MAX + 1):
        blocked = offered * blocked / (number + offered * blocked)
        if number > offered:
            found = _waiting(offered, service_seconds, number, blocked)
            if found.exceeding(wait_seconds) <= 1 - share:
                return found
    raise AssertionError(f"a load of {offered} needs more than {SERVERS_MAX} servers")


def _waiting(offered: float, service_seconds: float, servers: int, blocked: float) -> Waiting:
    share = blocked / (1 - offered / servers * (1 - blocked))
    return Waiting(servers=servers, offered=offered, service_seconds=service_seconds, share=share)
