"""A broker's own figures during a load: processor time, and time in fsync.

It is asked at its HTTP port for `/metrics`, at the end of the warm-up and at the end. A page serves
all clients for a second, or longer. There is one in each format, so the second look asks for the
other one and is not given the page of the first even after half a second; if another client has
asked for that one just before, it is older than the first, which shows in the time that was spent
on pages, and the next one is waited for. The first page may be a little old as well, if another
client has just asked: its own clock shows it.

The nodes of the cluster say where their ports are; of a broker that does not, the usual port on the
first host of `--url` is tried. What answers there must be of the same cluster as the broker under
load, since numbers of another one would be worse than none.
"""

import asyncio
import http.client
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.cli.admin import DEFAULT_HTTP, parse_http
from penstock.client.connection.urls import Remote, parse_url
from penstock.server.notation import Address

TIMEOUT_SECONDS = 5.0
FRESH_SECONDS_MAX = 3.0
RETRY_SECONDS = 0.2
PAGE_BYTES_MAX = 64 << 20
_FORMATS = ("text/plain", "application/openmetrics-text; version=1.0.0")
_LINE = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>[^}]*)\})? (?P<value>\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_CPU = "process_cpu_seconds_total"
_SYNC = "penstock_storage_fsync_duration_seconds"
_COMMIT = "penstock_raft_commit_duration_seconds"
_UP = "penstock_uptime_seconds"
_PAGES = "penstock_metrics_duration_seconds_total"
_SUMMED = {_CPU, _UP, _PAGES, f"{_SYNC}_count", f"{_COMMIT}_sum", f"{_COMMIT}_count"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """The metrics of one node at one moment."""

    at: float
    """The time of the request, by this process's clock."""
    cluster: str = ""
    cpu_seconds: float = 0.0
    up_seconds: float = 0.0
    """By the node's own clock; this one may be of a moment before."""
    page_seconds: float = 0.0
    """Spent on pages until then: it grows from one to the next."""
    sync_seconds: Mapping[str, float] = field(default_factory=dict)
    """By shard, each of which has one log and one sync at a time."""
    syncs: float = 0.0
    commit_seconds: float = 0.0
    commits: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWork:
    """The work of the busiest node between two readings."""

    cpu_share: float
    """The share of one core."""
    sync_share: float
    """The share of time spent in syncs, in the shard that synced longest."""
    syncs: int = 0
    sync_seconds: float = 0.0
    """The average duration of an fsync."""
    commit_seconds: float = 0.0
    nodes: int = 1
    """The number of nodes that were read."""


def read_page(text: str, at: float) -> NodeReading:
    """The few numbers of a page that matter here."""
    cluster = ""
    sync_seconds: dict[str, float] = {}
    sums: dict[str, float] = defaultdict(float)
    for line in _LINE.finditer(text):
        name, labels = line["name"], line["labels"] or ""
        if name == "penstock_node_info":
            cluster = dict(_LABEL.findall(labels)).get("cluster", "")
        elif name == f"{_SYNC}_sum":
            sync_seconds[labels] = float(line["value"])
        elif name in _SUMMED:
            sums[name] += float(line["value"])
    return NodeReading(
        at=at,
        cluster=cluster,
        cpu_seconds=sums[_CPU],
        up_seconds=sums[_UP],
        page_seconds=sums[_PAGES],
        sync_seconds=sync_seconds,
        syncs=sums[f"{_SYNC}_count"],
        commit_seconds=sums[f"{_COMMIT}_sum"],
        commits=sums[f"{_COMMIT}_count"],
    )


def work_between(before: NodeReading, after: NodeReading, idle_seconds: float = 0.0) -> BrokerWork:
    """Return the work of a node between two readings; `idle_seconds` at the end are not counted.

    The longer of the two clocks counts: the node's shows if the first page was an old one, and ours
    if the node has looked at its own only once."""
    wall = max(after.at - before.at, after.up_seconds - before.up_seconds)
    wall = max(1e-9, wall - idle_seconds)
    spent = {
        shard: seconds - before.sync_seconds.get(shard, 0.0)
        for shard, seconds in after.sync_seconds.items()
    }
    syncs, commits = after.syncs - before.syncs, after.commits - before.commits
    return BrokerWork(
        cpu_share=(after.cpu_seconds - before.cpu_seconds) / wall,
        sync_share=max(spent.values(), default=0.0) / wall,
        syncs=round(syncs),
        sync_seconds=sum(spent.values()) / syncs if syncs else 0.0,
        commit_seconds=(after.commit_seconds - before.commit_seconds) / commits if commits else 0,
    )


def busiest(nodes: Sequence[BrokerWork]) -> BrokerWork:
    """Return the work of the node that is nearest to its limits."""
    most = max(nodes, key=lambda one: max(one.cpu_share, one.sync_share))
    return replace(most, nodes=len(nodes))


class Probe:
    """Asks a broker twice. A failure of that is reported and stops nothing; of several
    nodes, those count that answered both times."""

    def __init__(self, url: str, http: str | None) -> None:
        place = parse_url(url)
        self.embedded = not isinstance(place, Remote)
        self.problem = ""
        """Why the broker could not be asked."""
        self._hint = "" if http else "; --http HOST:PORT says where its HTTP port is"
        self._is_gone = False
        self._before: dict[Address, NodeReading] = {}
        self._addresses: list[Address] = []
        if isinstance(place, Remote):
            host, port = place.hosts[0][0], DEFAULT_HTTP.rpartition(":")[2]
            written = http or f"{host}:{port}"
            self._addresses = [parse_http(one.strip()) for one in written.split(",")]

    async def begin(self, cluster: str) -> None:
        """Take the first readings, of nodes of this cluster."""
        readings = await self._read(self._addresses, _FORMATS[0])
        for address, reading in readings.items():
            if reading.cluster == cluster:
                self._before[address] = reading
            else:
                self.problem = f"what answers at http://{address} is not of this cluster"
        if readings and not self._before:
            self.problem += self._hint

    async def end(self) -> BrokerWork | None:
        """Return the work of the broker since the start; None if it could not be read."""
        if not self._before:
            return None
        asked = time.perf_counter()
        readings = await self._read_newer(asked + FRESH_SECONDS_MAX)
        if not readings:
            return None
        idle = max(one.at for one in readings.values()) - asked
        before = self._before
        works = [work_between(before[place], one, idle) for place, one in readings.items()]
        return busiest(works)

    async def _read_newer(self, until: float) -> dict[Address, NodeReading]:
        """Pages that are newer than the first ones."""
        found: dict[Address, NodeReading] = {}
        while True:
            missing = [one for one in self._before if one not in found]
            for place, reading in (await self._read(missing, _FORMATS[1])).items():
                if reading.page_seconds > self._before[place].page_seconds:
                    found[place] = reading
                else:
                    self.problem = "it had no new figures at the end, or was started anew meanwhile"
            if len(found) == len(self._before) or time.perf_counter() >= until or self._is_gone:
                return found
            await asyncio.sleep(RETRY_SECONDS)

    async def _read(self, addresses: Sequence[Address], accept: str) -> dict[Address, NodeReading]:
        router = (asyncio.to_thread(_ask, one, accept) for one in addresses)
        answers = await asyncio.gather(*router, return_exceptions=True)
        found = {}
        self._is_gone = False
        for address, answer in zip(addresses, answers, strict=True):
            if isinstance(answer, NodeReading):
                found[address] = answer
            elif isinstance(answer, (OSError, http.client.HTTPException)):
                self._is_gone = True
                reason = getattr(answer, "strerror", None) or str(answer) or type(answer).__name__
                self.problem = f"nothing answers at http://{address} ({reason})"
            else:
                raise answer
        if not found and not self._before:
            self.problem += self._hint
        return found


def _ask(address: Address, accept: str) -> NodeReading:
    at = time.perf_counter()
    connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/metrics", headers={"Accept": accept})
        response = connection.getresponse()
        text = response.read(PAGE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise http.client.HTTPException(f"status {response.status}")
    return read_page(text, at)
