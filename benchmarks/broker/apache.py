"""Apache Kafka beside Penstock, on the same machine, with the same client.

`make bench-peers` fetches it, or KAFKA_HOME names an unpacked distribution, 3.3 or later. It runs
in KRaft mode, broker and controller in one process, with the settings it has when told nothing
else, and topics of three replicas want two of them in sync. Java is started as Kafka's own script
starts it: with the heap and the collector named below. It is ready when it answers a client that
asks for the topics, and not before: its port accepts connections earlier than that.
"""

import base64
import re
import socket
import struct
import subprocess
import uuid
from pathlib import Path

from benchmarks.broker.programs import Program, ProgramFailed
from benchmarks.broker.systems import APACHE, KAFKA_PORT, PEER_PORT, Kind, System, kafka_home
from benchmarks.peers import places
from tests.cluster.addresses import Block

FORMAT_WITHIN_SECONDS = 60.0
HEAP = ("-Xmx1G", "-Xms1G")
"""As kafka-server-start.sh has it."""
COLLECTOR = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
"""As kafka-run-class.sh has it."""
_ANSWER_WITHIN_SECONDS = 0.5
_METADATA_REQUEST = struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 0)
"""Metadata, version 1, of no topic: which brokers are there. A broker that is still starting keeps
silent, or knows of none."""


class ApacheKafka(System):
    """Broker and controller in one process, as many times as there are nodes."""

    def __init__(self, directory: Path, nodes: int, home: Path) -> None:
        super().__init__(directory, nodes)
        self._classes = f"{home / 'libs'}/*"
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
            "share.coordinator.state.topic.replication.factor": str(self._nodes),
            "share.coordinator.state.topic.min.isr": str(self._nodes // 2 + 1),
            "transaction.state.log.replication.factor": str(self._nodes),
            "transaction.state.log.min.isr": str(self._nodes // 2 + 1),
        }
        path = home / "server.properties"
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        path.write_text("".join(lines), "utf-8")
        self._format(path, home)
        self._kafka.append(kafka)
        command = [_java(), *HEAP, *COLLECTOR, "-cp", self._classes, "kafka.Kafka", str(path)]
        return Program(command, home / "log.txt", ready=lambda: _answers(kafka))

    def _format(self, path: Path, home: Path) -> None:
        command = [_java(), "-cp", self._classes, "kafka.tools.StorageTool", "format"]
        ended = subprocess.run(
            # With "=", as an id may begin with a dash.
            [*command, f"--cluster-id={self._cluster}", "--config", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FORMAT_WITHIN_SECONDS,
            check=False,
        )
        if ended.returncode != 0:
            said = f"{ended.stdout}{ended.stderr}"
            raise ProgramFailed(f"{command[3]} ended with {ended.returncode}:\n{said}")
        (home / "format.txt").write_text(ended.stdout, "utf-8")


def apache_kafka(nodes: int) -> list[Kind]:
    """Apache Kafka with so many nodes, or nothing where there is none."""
    home = kafka_home()
    if home is None or places.java() is None:
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


def absence_of_kafka() -> list[str]:
    """A line for the report where there is none."""
    if kafka_home() is None:
        return [
            "Apache Kafka: not measured; `make bench-peers` fetches it, or KAFKA_HOME names it."
        ]
    if places.java() is None:
        return ["Apache Kafka: not measured; there is no Java."]
    return []


def _version(home: Path) -> str:
    for path in home.glob("libs/kafka-clients-*.jar"):
        if found := re.fullmatch(r"kafka-clients-([\d.]+)\.jar", path.name):
            return found.group(1)
    return "?"


def _java() -> str:
    found = places.java()
    assert found is not None, "there is no Java"
    return str(found)


def _answers(address: str) -> bool:
    """Whether it names a broker when it is asked which there are."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), _ANSWER_WITHIN_SECONDS) as line:
            line.sendall(struct.pack(">i", len(_METADATA_REQUEST)) + _METADATA_REQUEST)
            answer = line.recv(1 << 16)
    except OSError:
        return False
    # Length, correlation id, number of brokers.
    return len(answer) >= 12 and struct.unpack_from(">i", answer, 8)[0] > 0
