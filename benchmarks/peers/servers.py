"""The servers of other queues, each run in a directory and on addresses of the benchmark.

A server is ready when its own client gets an answer. How much an acknowledgement is worth is a
matter of settings, and those are chosen here:

- **Redis**: appendonly, no snapshots; appendfsync always, or its default, everysec.
- **RabbitMQ**: its defaults; a quorum queue syncs before it confirms, a stream does not.
- **PostgreSQL**: its defaults; a commit syncs.
- **NATS JetStream**: sync_interval always, or its default, which syncs every two minutes.
- **beanstalkd**: a binlog, synced with every command that changes it.
"""

import os
import pwd
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.broker.programs import Program, ProgramFailed, Usage, usage_of
from benchmarks.broker.systems import System
from benchmarks.peers.ports import free_everywhere
from tests.cluster.addresses import Block

SERVER_PORT, STREAM_PORT = 0, 1
NOBODY = "nobody"
_CHILD_TICKS = (13, 14)
"""Fields of /proc/PID/stat: processor time of children that have ended."""
_ENDING_SECONDS = 0.1
"""Until the process of a connection that was closed has ended, and its time is its parent's."""


class Peer(System):
    """A server that is ready when its client gets an answer."""

    def __init__(self, directory: Path, server: Path, answers: Callable[[str], bool]) -> None:
        super().__init__(directory, 1)
        self._server = server
        self._answers = answers
        self._place = ""

    @property
    def bootstrap(self) -> str:
        return self._place

    def is_ready(self) -> bool:
        return self._answers(self._place)


class Redis(Peer):
    """`redis-server`."""

    def __init__(
        self, directory: Path, server: Path, answers: Callable[[str], bool], *, sync: str
    ) -> None:
        super().__init__(directory, server, answers)
        self._sync = sync

    def prepare(self, node: int, block: Block) -> Program:
        host, port = block.host(node), block.port(SERVER_PORT)
        self._place = f"{host}:{port}"
        command = [
            str(self._server),
            *("--bind", host, "--port", str(port), "--dir", str(self.directory)),
            *("--appendonly", "yes", "--appendfsync", self._sync, "--save", ""),
        ]
        return Program(command, self.directory / "log.txt", ready=self.is_ready)


class RabbitMq(Peer):
    """`rabbitmq-server` with a name server of its own, both in the foreground.

    The name server answers on the machine's first loopback address too, whatever it is told, and
    ends in peace if another one does so already: it needs a port that nobody else has."""

    plugins = "[].\n"

    def settings(self, block: Block) -> str:  # noqa: ARG002 - a plugin wants a port of it
        """The lines of its configuration."""
        return "log.console = true\n"

    def start(self) -> None:
        names = Program(
            ["epmd", "-address", self._host, "-port", str(self._names_port)],
            self.directory / "names.txt",
            ready=lambda: True,
        )
        names.launch()
        self.programs.insert(0, names)
        self.programs[1].launch()
        self.programs[1].wait_ready()

    def prepare(self, node: int, block: Block) -> Program:
        self._host, self._names_port = block.host(node), free_everywhere()
        self._place = f"{self._host}:{block.port(SERVER_PORT)}"
        home = self.directory
        (home / "plugins").write_text(self.plugins, "utf-8")
        (home / "rabbitmq.conf").write_text(self.settings(block), "utf-8")
        environment = {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": self._host,
            "RABBITMQ_NODENAME": f"benchmark{os.getpid()}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": self._host,
            "RABBITMQ_NODE_PORT": str(block.port(SERVER_PORT)),
            "RABBITMQ_DIST_PORT": str(free_everywhere()),
            "ERL_CRASH_DUMP": os.devnull,
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
            # So the script becomes the server instead of watching over it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        return Program(
            [str(self._server)], home / "log.txt", ready=self.is_ready, environment=environment
        )


class RabbitMqStreams(RabbitMq):
    """The same with the plugin that speaks the protocol of streams, on a port of its own."""

    plugins = "[rabbitmq_stream].\n"

    @property
    def bootstrap(self) -> str:
        return f"{self._host}:{self._stream_port}"

    def is_ready(self) -> bool:
        return self._answers(self.bootstrap)

    def settings(self, block: Block) -> str:
        self._stream_port = block.port(STREAM_PORT)
        return (
            f"{super().settings(block)}"
            f"stream.listeners.tcp.1 = {self.bootstrap}\n"
            f"stream.advertised_host = {self._host}\n"
            f"stream.advertised_port = {self._stream_port}\n"
        )


class PostgreSql(Peer):
    """`postgres` on a directory that `initdb` makes; both refuse to run as root."""

    def prepare(self, node: int, block: Block) -> Program:
        host, port = block.host(node), block.port(SERVER_PORT)
        self._place = f"{host}:{port}"
        data = self.directory / "data"
        data.mkdir()
        prefix: Sequence[str] = ()
        if os.geteuid() == 0:
            prefix = self._as_nobody(data)
        made = subprocess.run(
            [*prefix, str(self._server.with_name("initdb")), "--pgdata", str(data),
             "--username", "benchmark", "--auth", "trust", "--no-instructions"],
            capture_output=True, text=True, check=False, cwd=data,
        )  # fmt: skip
        if made.returncode:
            raise ProgramFailed(f"initdb ended with {made.returncode}:\n{made.stderr}")
        command = [
            *prefix,
            *(str(self._server), "-D", str(data), "-h", host, "-p", str(port)),
            *("-c", "unix_socket_directories="),
        ]
        return Program(command, self.directory / "log.txt", ready=self.is_ready)

    def _as_nobody(self, data: Path) -> Sequence[str]:
        """How to become a user who may run it, and who can reach the directory."""
        user = pwd.getpwnam(NOBODY)
        os.chown(data, user.pw_uid, user.pw_gid)
        for path in (self.directory, self.directory.parent):
            path.chmod(0o711)
        ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
        return ("setpriv", *ids)

    def usage(self) -> Usage:
        """Of the postmaster and of the processes it makes for connections, gone ones included."""
        (program,) = self.programs
        program.check()
        time.sleep(_ENDING_SECONDS)
        first = program.usage()
        gone = Path(f"/proc/{program.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        ticks = sum(int(gone[field]) for field in _CHILD_TICKS)
        living = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text("ascii")
        found = first + Usage(cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"))
        for pid in living.split():
            try:
                one = usage_of(int(pid))
            except (FileNotFoundError, KeyError):
                continue  # It has ended since, or is about to and has no memory left.
            # What they share is the postmaster's already.
            own = one.anonymous_bytes
            found += Usage(one.cpu_seconds, own, own, own)
        return found

    def kill(self) -> None:
        """The postmaster's children end with it if it is asked to stop, not if it is killed."""
        for program in self.programs:
            program.terminate()


class Nats(Peer):
    """`nats-server` with JetStream on disk."""

    def __init__(
        self, directory: Path, server: Path, answers: Callable[[str], bool], *, sync: str
    ) -> None:
        super().__init__(directory, server, answers)
        self._sync = sync

    def prepare(self, node: int, block: Block) -> Program:
        host, port = block.host(node), block.port(SERVER_PORT)
        self._place = f"{host}:{port}"
        sync = f", sync_interval: {self._sync}" if self._sync else ""
        settings = self.directory / "nats.conf"
        settings.write_text(
            f'listen: "{host}:{port}"\n'
            f'jetstream {{ store_dir: "{self.directory / "data"}"{sync} }}\n',
            "utf-8",
        )
        command = [str(self._server), "--config", str(settings)]
        return Program(command, self.directory / "log.txt", ready=self.is_ready)


class Beanstalkd(Peer):
    """`beanstalkd` with a binlog that is synced each time."""

    def prepare(self, node: int, block: Block) -> Program:
        host, port = block.host(node), block.port(SERVER_PORT)
        self._place = f"{host}:{port}"
        data = self.directory / "data"
        data.mkdir()
        command = [
            *(str(self._server), "-l", host, "-p", str(port)),
            *("-b", str(data), "-f", "0"),
        ]
        return Program(command, self.directory / "log.txt", ready=self.is_ready)
