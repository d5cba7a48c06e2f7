"""Apache Kafka beside Penstock, on the same machine, with the same client; never installed by us.

KAFKA_HOME names an unpacked distribution, 3.3 or later; it runs in KRaft mode with the settings it
comes with, and topics of three replicas want two of them in sync. Java keeps its own heap size.
"""

import base64
import re
import socket
import subprocess
import uuid
from pathlib import Path

from benchmarks.broker.programs import Program, ProgramFailed
from benchmarks.broker.systems import APACHE, KAFKA_PORT, PEER_PORT, Kind, System, kafka_home
from tests.cluster.addresses import Block

FORMAT_WITHIN_SECONDS = 60.0
_ANSWER_WITHIN_SECONDS = 0.2


class ApacheKafka(System):
    """Broker and controller in one process, as many times as there are nodes."""

    def __init__(self, directory: Path, nodes: int, home: Path) -> None:
        super().__init__(directory, nodes)
        self._home = home
        self._kafka: list[str] = []
        self._cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    @property
    def bootstrap(self) -> str:
        return ",".join(self._kafka)

    def prepare(self, node: int, block: Block) -> Program:
        home = self.directory / f"node-{node}"
        home.mkdir()
        kafka = f"{block.host(node)}:{block.port(KAFKA_PORT)}"
        controller = f"{block.host(node)}:{block.port(PEER_PORT)}"
        voters = ",".join(
            f"{number}@{block.host(number)}:{block.port(PEER_PORT)}"
            for number in range(1, self._nodes + 1)
        )
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{kafka},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{kafka}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(home / "data"),
            "default.replication.factor": str(self._nodes),
            "min.insync.replicas": str(self._nodes // 2 + 1),
            "offsets.topic.replication.factor": str(self._nodes),
            "transaction.state.log.replication.factor": str(self._nodes),
            "transaction.state.log.min.isr": str(self._nodes // 2 + 1),
        }
        path = home / "server.properties"
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        path.write_text("".join(lines), "utf-8")
        self._format(path, home)
        self._kafka.append(kafka)
        return Program(
            [str(self._home / "bin/kafka-server-start.sh"), str(path)],
            home / "log.txt",
            ready=lambda: _answers(kafka),
            environment={"LOG_DIR": str(home / "logs")},
        )

    def _format(self, path: Path, home: Path) -> None:
        command = [str(self._home / "bin/kafka-storage.sh"), "format"]
        ended = subprocess.run(
            [*command, "--cluster-id", self._cluster, "--config", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FORMAT_WITHIN_SECONDS,
            check=False,
        )
        if ended.returncode != 0:
            raise ProgramFailed(f"{command[0]} ended with {ended.returncode}:\n{ended.stderr}")
        (home / "format.txt").write_text(ended.stdout, "utf-8")


def apache_kafka(nodes: int) -> list[Kind]:
    """Apache Kafka with so many nodes, or nothing where there is none."""
    home = kafka_home()
    if home is None:
        return []
    return [
        Kind(
            name=f"Kafka {_version(home)}, {'1 node' if nodes == 1 else f'{nodes} nodes'}",
            family=APACHE,
            nodes=nodes,
            durability=f"cached {nodes // 2 + 1}/{nodes}",
            make=lambda directory: ApacheKafka(directory, nodes, home),
        )
    ]


def _version(home: Path) -> str:
    for path in home.glob("libs/kafka-clients-*.jar"):
        if found := re.fullmatch(r"kafka-clients-([\d.]+)\.jar", path.name):
            return found.group(1)
    return "?"


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _ANSWER_WITHIN_SECONDS):
            return True
    except OSError:
        return False
