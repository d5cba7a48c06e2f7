"""Clients of every kind at once, for a cluster whose nodes are upgraded under them.

    Kafka       idempotent producers, a reader and a consumer group (`tests.cluster.workload`)
    SQS, HTTP   senders and workers of six queues (`tests.cluster.queue_workload`)
    native      one program with the client of 0.1.0 and one with the present client
                (`tests.upgrade.native_load`)

Each kind writes a history of its own, and each history is judged by the checker of its kind.
"""

import contextlib
import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster.checker import check
from tests.cluster.history import History, Recorder
from tests.cluster.processes import Cluster
from tests.cluster.queue_checker import check_queues
from tests.cluster.queue_workload import QueueWorkload
from tests.cluster.rounds import AnyWorkload, MakeWorkload
from tests.cluster.verdict import Verdict
from tests.cluster.waiting import wait_until
from tests.cluster.workload import Load, Workload
from tests.upgrade.old_version import old_version, present_module

MODULE = "tests.upgrade.native_load"
NOT_RETRIABLE = {
    *("_FATAL", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "_AUTO_OFFSET_RESET"),
    *("Unreadable", "ReceiptHandleIsInvalid", "InvalidReceipt", "InternalError"),
    *("QueueDoesNotExist", "UnknownTopic", "UNKNOWN_TOPIC_OR_PART"),
}
"""What no client may be told, whatever happens to the cluster."""
START_WITHIN_SECONDS = 60.0
END_WITHIN_SECONDS = 30.0
LOAD = Load(per_second=50, producers=1)


class NativeProgram:
    """One `native_load` in a process of its own; it has the face of a workload, but for faults."""

    def __init__(self, name: str, url: str, directory: Path, *, old: bool, seed: int) -> None:
        arguments = ("--url", url, "--name", name, "--directory", str(directory))
        run = old_version().module if old else present_module
        self._command, self._environment = run(MODULE, *arguments, "--seed", str(seed))
        self.name = name
        self._directory = directory
        self._process: subprocess.Popen[str] | None = None
        self._status: dict[str, Any] = {}

    @property
    def version(self) -> str:
        """Where its package comes from."""
        return str(self._status["version"])

    @property
    def errors(self) -> Counter[str]:
        """What its client raised that may be tried again."""
        return Counter(self._status.get("errors", {}))

    @property
    def fatal(self) -> list[str]:
        """What its client raised that says: the same call will fail again."""
        return list(self._status.get("fatal", ()))

    def start(self) -> None:
        """Begin, and wait until messages flow."""
        log = (self._directory / f"native-{self.name}.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        wait_until(
            lambda: all(self.ask("status")[what] for what in ("acked", "received", "group_read")),
            lambda: f"messages flow through the {self.name} client: {self._status}",
            seconds=START_WITHIN_SECONDS,
        )

    def wait_acked(self, more: int, *, seconds: float) -> None:
        """Wait until so many more messages are acknowledged."""
        target = self.ask("status")["acked"] + more
        wait_until(
            lambda: self.ask("status")["acked"] >= target,
            lambda: f"{more} more acknowledgements of the {self.name} client: {self._status}",
            seconds=seconds,
        )

    def ask(self, what: str) -> dict[str, Any]:
        """Ask it something, and wait for the answer."""
        process = self._process
        assert process is not None, f"the {self.name} client does not run"
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        log = self._directory / f"native-{self.name}.log"
        assert answer, f"the {self.name} client ended:\n{log.read_text('utf-8')}"
        self._status = json.loads(answer)
        return self._status

    def close(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(END_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def check(self) -> list[Verdict]:
        """Judge its histories."""
        self.close()
        queue, topic = (
            History(self._directory / f"native-{self.name}-{what}.jsonl")
            for what in ("queue", "topic")
        )
        return [check_queues(queue), check(topic)]


class AllWorkload:
    """All of them, as one."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        *,
        seed: int,
        held: int,
        braces: int,
        load: Load,
        old: bool,
    ) -> None:
        self._queue_recorder = Recorder(cluster.directory / "queues.jsonl")
        self.logs = Workload(cluster.addresses, recorder, seed=seed, load=load)
        self.queues = QueueWorkload(
            cluster.addresses,
            cluster.web_addresses,
            self._queue_recorder,
            seed=seed,
            held=held,
            braces=braces,
            nodes_stop=True,
        )
        url = f"penstock://{cluster.addresses()}"
        self.programs = [
            NativeProgram(name, url, cluster.directory, old=name == "old", seed=seed)
            for name in (("old", "present") if old else ("present",))
        ]
        self.operator = self.logs.operator
        self.verdicts: dict[str, Verdict] = {}
        """Of each kind, in the end."""

    @property
    def topic(self) -> str:
        """Whose leaders are harmed."""
        return self.logs.topic

    @property
    def errors(self) -> Counter[str]:
        """What clients were told, with the kind of client in front."""
        kinds = {"kafka": self.logs.errors, "sqs": self.queues.errors}
        kinds |= {f"native {one.name}": one.errors for one in self.programs}
        return Counter(
            {f"{kind}: {name}": n for kind, found in kinds.items() for name, n in found.items()}
        )

    def start(self) -> None:
        """Begin, and wait until messages flow everywhere."""
        self.logs.start()
        self.queues.start()
        for program in self.programs:
            program.start()

    def brace(self) -> None:
        """Lease many messages, whose receipts are handed in after the strike."""
        self.queues.brace()

    def wait_acked(self, more: int, *, seconds: float) -> None:
        """Wait until clients of every kind get on."""
        self.queues.wait_acked(more, seconds=seconds)
        self.logs.wait_acked(more, seconds=seconds)
        for program in self.programs:
            program.wait_acked(more, seconds=seconds)

    def stop(self) -> None:
        """Send nothing more."""
        for program in self.programs:
            program.ask("stop")
        self.queues.stop()
        self.logs.stop()

    def drain(self) -> None:
        """Take out everything that is there."""
        for program in self.programs:
            program.ask("drain")
        self.queues.drain()
        self.logs.drain()

    def abandon(self) -> None:
        """Stop in the middle of a failure."""
        self.queues.abandon()
        self.logs.abandon()
        for program in self.programs:
            program.close()

    def check(self) -> Verdict:
        """Judge every history; all that is wrong, with the kind of client in front."""
        self.verdicts = {"sqs": self.queues.check(), "kafka": self.logs.check()}
        for program in self.programs:
            queue, topic = program.check()
            name = f"native {program.name}"
            self.verdicts |= {f"{name} queue": queue, f"{name} topic": topic}
        self._queue_recorder.close()
        total = Verdict()
        for kind, verdict in self.verdicts.items():
            total.counts.update({f"{kind} {what}": n for what, n in verdict.counts.items()})
            total.allowed.update({f"{kind} {what}": n for what, n in verdict.allowed.items()})
            total.silence_seconds = max(total.silence_seconds, verdict.silence_seconds)
            for anomaly, finding in verdict.anomalies.items():
                total.anomalies[f"{kind}: {anomaly}"] = finding
        for name in self.errors:
            if name.rpartition(": ")[2] in NOT_RETRIABLE:
                total.found("not retriable", name)
        for program in self.programs:
            for error in program.fatal:
                total.found("not retriable", f"native: {error}")
        return total


def everything(
    *,
    held: int,
    braces: int = 1 << 30,
    load: Load = LOAD,
    old: bool = True,
    keep: Callable[[AllWorkload], None] = lambda _: None,
) -> MakeWorkload:
    """For `run_round`; `keep` is handed the workload, whose verdicts are of interest later. `old`:
    with a client of 0.1.0, too."""

    def make(cluster: Cluster, recorder: Recorder, seed: int) -> AnyWorkload:
        made = AllWorkload(
            cluster, recorder, seed=seed, held=held, braces=braces, load=load, old=old
        )
        keep(made)
        return made

    return make
