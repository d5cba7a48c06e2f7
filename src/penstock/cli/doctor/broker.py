"""The checks of `penstock doctor` on a running broker: that it answers, its health, its clock and
its version."""

import email.utils
import http.client
from collections.abc import Iterator

import msgspec

from penstock.cli.admin import ANSWER_BYTES_MAX, ask_for, parse_http
from penstock.cli.doctor.machine import Finding
from penstock.core.decoders import decode_json
from penstock.core.errors import PenstockError
from penstock.core.version import __version__
from penstock.engine.cluster.status import ClusterStatus

CLOCK_SKEW_SECONDS_MAX = 2.0
"""An HTTP date counts whole seconds, so one of difference means nothing."""
PROBE_SECONDS_MAX = 5.0


class _Health(msgspec.Struct):
    problems: list[str] = []


def check_http(address: str, *, now: float, wanted: bool) -> Iterator[Finding]:
    """The HTTP port: readiness, health of the cluster, and the broker's clock.

    A broker that does not answer is a failure only if it was asked for by name.
    """
    try:
        status, date, body = _get(address, "/readyz")
    except (OSError, http.client.HTTPException) as error:
        told = f"no answer from http://{address}: {getattr(error, 'strerror', '') or error}"
        advice = "start a broker with `penstock dev`, or say where it is with --url URL"
        yield Finding("http", "fail" if wanted else "warn", told, advice)
        return
    yield _ready(address, status, body)
    if date is not None:
        yield _skew(date - now)
    try:
        cluster = ask_for(address, "GET", "/v1/cluster", ClusterStatus)
    except PenstockError as error:
        advice = "see whether something else listens at this port"
        yield Finding("cluster", "fail", " ".join(str(error).split()), advice)
        return
    yield _cluster(cluster)


def check_version(theirs: str) -> Finding:
    """Client and broker of one version know the same words."""
    if theirs == __version__:
        return Finding("version", "ok", f"the broker and this program are both {theirs}")
    told = f"the broker is {theirs}, this program is {__version__}"
    return Finding("version", "warn", told, "use the same version on both sides")


def _ready(address: str, status: int, body: bytes) -> Finding:
    if status == 200:
        return Finding("http", "ok", f"the broker at http://{address} is ready")
    try:
        problems = "; ".join(decode_json(body, _Health).problems)
    except msgspec.DecodeError:
        problems = ""
    told = f"http://{address} answers {status}" + (f": {problems}" if problems else "")
    return Finding("http", "fail", told, "see the broker's log for the reason")


def _skew(seconds: float) -> Finding:
    if abs(seconds) <= CLOCK_SKEW_SECONDS_MAX:
        return Finding("broker's clock", "ok", "it agrees with ours")
    told = f"it is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} ours"
    advice = "run chrony or systemd-timesyncd on both: times in messages are compared"
    return Finding("broker's clock", "warn", told, advice)


def _cluster(status: ClusterStatus) -> Finding:
    alive = sum(node.alive for node in status.nodes)
    leaderless = [str(shard.shard) for shard in status.shards if not shard.leader]
    full = [str(shard.shard) for shard in status.shards if shard.full]
    told = f"{alive} of {len(status.nodes)} nodes are up: {status.health}"
    if leaderless:
        advice = f"start the missing nodes: shards {', '.join(leaderless)} have no leader"
        return Finding("cluster", "fail", told, advice)
    if full:
        advice = f"free some space: shards {', '.join(full)} take no messages"
        return Finding("cluster", "fail", told, advice)
    if alive < len(status.nodes):
        return Finding(
            "cluster", "warn", told, "see `penstock cluster status` for the missing nodes"
        )
    return Finding("cluster", "ok", told)


def _get(address: str, path: str) -> tuple[int, float | None, bytes]:
    where = parse_http(address)
    connection = http.client.HTTPConnection(where.host, where.port, timeout=PROBE_SECONDS_MAX)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, _time(response.headers["Date"]), response.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()


def _time(date: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return None
