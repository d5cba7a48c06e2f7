"""Peers: what is counted, what is found, what is told of; no server is started here."""

import os
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.broker import apache, memory
from benchmarks.broker.client_process import Pending, both_results
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.systems import Kind, System, kafka_home
from benchmarks.peers import beanstalk, install, maven, places, ports, systems
from benchmarks.peers.excuses import excused
from benchmarks.peers.orders import QueueOrder
from benchmarks.peers.rabbitmq import Confirms
from benchmarks.report import Measured, Progress
from penstock.core.errors import LocalError
from penstock.server.reserved_ports import ReservedPorts


def counted(*confirms: tuple[int, bool]) -> int:
    counter = Confirms()
    for tag, multiple in confirms:
        counter.add(tag, multiple=multiple)
    return len(counter)


def test_confirms_in_order() -> None:
    assert counted((1, False), (2, False), (10, True), (11, False)) == 11


def test_a_confirm_that_overtook_others_counts_once() -> None:
    # What is above the messages confirmed all at once stays confirmed.
    assert counted((7, False), (5, True)) == 6
    assert counted((7, False), (5, True), (6, False)) == 7
    # What is below them is among them.
    assert counted((3, False), (5, True)) == 5


def test_a_peer_that_breaks_is_left_out_and_told_of() -> None:
    kind = Kind(name="Other", family="other", nodes=1, durability="", make=_unused)
    others, absences, told = [kind], list[str](), list[str]()

    progress = Progress(told.append)
    with excused(kind, others, absences, progress):
        refuse("it was refused:\nand said much more")
    assert others == []
    assert absences == ["Other: it broke (it was refused); shown are the rounds before, if any."]
    assert told == ["Other broke: it was refused:\nand said much more"]
    with pytest.raises(ClientFailed), excused(kind, others, absences, progress):
        refuse("ours is not excused")


class Answered(Pending[str]):
    """A call whose answer is there, and is taken once."""

    def __init__(self, answer: str = "", fault: str = "") -> None:
        self._answer, self._fault = answer, fault
        self.is_taken = False

    def result(self, seconds: float = 0.0) -> str:
        assert not self.is_taken
        self.is_taken = True
        if self._fault:
            refuse(self._fault)
        return self._answer


def test_the_answer_of_the_second_is_taken_although_the_first_failed() -> None:
    assert both_results(Answered("sent"), Answered("received")) == ("sent", "received")
    second = Answered("received")
    with pytest.raises(ClientFailed, match="no acknowledgement"):
        both_results(Answered(fault="no acknowledgement"), second)
    assert second.is_taken
    with pytest.raises(ClientFailed, match="no acknowledgement"):
        both_results(Answered(fault="no acknowledgement"), Answered(fault="it hung up"))


def refuse(why: str) -> None:
    raise ClientFailed(why)


def _unused(directory: Path) -> System:
    raise AssertionError(f"nothing is started in {directory}")


def test_a_peer_without_a_server_is_told_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(places, "program", lambda _: None)
    kinds, absences = systems.peers({"BEANSTALKD": str(tmp_path / "beanstalkd")})
    assert "beanstalkd, sync always" in [kind.name for kind in kinds]
    told = [line for line in absences if line.startswith("NATS JetStream")]
    assert len(told) == 2
    assert "nats-server is neither on PATH nor named by NATS_SERVER" in told[0]


def test_every_peer_says_what_its_acknowledgement_is_worth(tmp_path: Path) -> None:
    servers = ("REDIS_SERVER", "RABBITMQ_SERVER", "POSTGRES_SERVER", "BEANSTALKD")
    kinds, _ = systems.peers(dict.fromkeys(servers, str(tmp_path / "server")))
    for kind in kinds:
        assert kind.durability in {systems.SYNCED, systems.EACH_SECOND, systems.CACHED}, kind.name


def test_kafka_is_where_the_variable_says_or_where_it_was_put(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(places, "KAFKA", tmp_path / "fetched")
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    assert kafka_home() is None
    assert apache.apache_kafka(1) == []
    assert "not measured" in apache.absence_of_kafka()[0]
    (tmp_path / "fetched" / "libs").mkdir(parents=True)
    (tmp_path / "fetched" / "libs" / "kafka-clients-4.3.1.jar").touch()
    assert kafka_home() == tmp_path / "fetched"
    monkeypatch.setattr(places, "java", lambda: Path("java"))
    assert [kind.name for kind in apache.apache_kafka(1)] == ["Kafka 4.3.1, 1 node"]
    assert apache.absence_of_kafka() == []
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "mine"))
    assert kafka_home() == tmp_path / "mine"


def test_a_port_that_is_free_everywhere_is_reserved_on_each_address() -> None:
    first, second = ports.free_everywhere(), ports.free_everywhere()
    assert first != second
    with pytest.raises(LocalError, match="no 1 free ports"):
        ReservedPorts(1, among=[first])
    with socket.create_server(("", first)):
        pass


def test_a_port_that_is_taken_on_one_address_is_not_free_everywhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalError, match="no 1 free ports"):
            ReservedPorts(1, host="", among=[port])


def test_java_is_the_one_that_is_named(tmp_path: Path) -> None:
    assert places.java({"JAVA_HOME": str(tmp_path)}) == tmp_path / "bin" / "java"


def test_one_that_cannot_be_installed_keeps_nobody_else_from_it() -> None:
    def cannot() -> str:
        raise install.CannotInstall("there is no apt-get")

    assert install.attempt("beanstalkd", cannot) == install.Outcome(
        "beanstalkd", False, "there is no apt-get"
    )
    assert install.attempt("fauxqs", lambda: "by npm").is_there


def test_requirements_are_those_of_the_group() -> None:
    names = {line.partition(">")[0].partition("[")[0] for line in install.requirements()}
    assert {"redis", "pika", "psycopg", "nats-py", "rstream"} <= names
    assert "pytest" not in names


def test_a_client_that_cannot_be_had_keeps_the_others_from_nothing() -> None:
    installed: list[str] = []

    def pip(wanted: Sequence[str]) -> None:
        if "server-without-a-wheel" in wanted:
            raise install.CannotInstall("pip ended with 1")
        installed.extend(wanted)

    said = install.install_each(["redis", "server-without-a-wheel", "pika"], pip)
    assert installed == ["redis", "pika"]
    assert said == "2 packages, by pip, but not server-without-a-wheel"
    assert install.install_each(["redis"], pip) == "1 packages, by pip"
    with pytest.raises(install.CannotInstall):
        install.install_each(["server-without-a-wheel"], pip)


def test_services_are_kept_from_starting_for_this_while_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with install.services_stay_off(policy):
        assert policy.read_text("ascii").endswith("exit 101\n")
        assert policy.stat().st_mode & 0o111
    assert not policy.exists()
    policy.write_text("another's", "ascii")
    with install.services_stay_off(policy):
        assert policy.read_text("ascii") == "another's"
    assert policy.exists()


def test_a_package_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / maven.KAFKA.jar).touch()
    assert maven.fetch(maven.KAFKA, tmp_path) == f"{maven.KAFKA.version} is there already"


def test_a_package_that_cannot_be_fetched_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(maven, "java", lambda: None)
    with pytest.raises(maven.CannotFetch, match="mvn: not installed; spark-submit: Spark or Java"):
        maven.fetch(maven.ELASTICMQ, tmp_path / "elasticmq")
    assert not (tmp_path / "elasticmq").exists()


def test_names_of_files_are_the_same_by_either_resolver() -> None:
    package = maven.KAFKA
    assert maven.plain_name(f"{package.group}_{package.jar}", package) == package.jar
    assert maven.plain_name(package.jar, package) == package.jar
    assert maven.plain_name("org.slf4j_slf4j-api-2.0.jar", package) == "org.slf4j_slf4j-api-2.0.jar"


def test_no_host_is_named_in_what_maven_is_told() -> None:
    assert "http://maven.apache.org/POM/4.0.0" in maven.KAFKA.pom()  # A namespace, not an address.
    assert "<repositor" not in maven.KAFKA.pom()


def served(script: Callable[[socket.socket], None]) -> str:
    """The place of a server that says what the script does, to one connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            line, _ = listener.accept()
            with line:
                script(line)

    threading.Thread(target=serve, daemon=True).start()
    host, port = listener.getsockname()
    return f"{host}:{port}"


def test_beanstalkd_is_read_whatever_the_pieces_its_answers_come_in() -> None:
    def script(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(b"USING q\r\nWATCHING 2\r\nWATCH")
        line.sendall(b"ING 1\r\n")
        while b"reserve" not in line.recv(1 << 16):
            pass
        line.sendall(b"RESERVED 1 4\r\na\r\nb\r\nRESERVED 2 4\r")
        line.sendall(b"\nwxyz\r\n")
        while line.recv(1 << 16).count(b"delete") < 2:
            pass
        line.sendall(b"DELETED\r\nDELETED\r\nTIMED_OUT\r\nTIMED_OUT\r\n")

    order = QueueOrder(
        place=served(script), queue="q", batch=2, messages_max=2, seconds=60.0, body_bytes=4
    )
    assert beanstalk.receive(order).messages == 2


def test_a_message_that_beanstalkd_refuses_is_a_failure() -> None:
    def script(line: socket.socket) -> None:
        line.recv(1 << 16)
        line.sendall(b"USING q\r\nWATCHING 2\r\nWATCHING 1\r\n")
        line.recv(1 << 16)
        line.sendall(b"INSERTED 1\r\nDRAINING\r\n")
        line.recv(1 << 16)

    order = QueueOrder(
        place=served(script), queue="q", batch=2, messages_max=2, seconds=60.0, body_bytes=4
    )
    with pytest.raises(ClientFailed, match="DRAINING"):
        beanstalk.send(order)


def test_our_memory_stands_beside_kafkas_at_the_same_point() -> None:
    numbers: list[Measured] = [
        {"system": "Penstock, 1 node", "memory_bytes": 50},
        {"system": "Penstock, 1 node", "memory_bytes": 60},
        {"system": "Kafka 4.3.1, 1 node", "memory_bytes": 200},
        {"system": "Kafka 4.3.1, 1 node", "memory_bytes": 600},
    ]
    memory._add_ratios(numbers)
    assert [row.get("memory_ratio_to_kafka") for row in numbers] == [0.25, 0.1, None, None]
