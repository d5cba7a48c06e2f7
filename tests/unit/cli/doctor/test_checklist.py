"""The production checklist of `penstock doctor`: each item, on good facts and on bad ones."""

import inspect
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.cli.doctor import checklist
from penstock.cli.doctor.checklist import CHECKLIST, TEMPORARY, check_production
from penstock.cli.doctor.facts import Facts, QueueSettings, _messages_per_request
from penstock.cli.doctor.machine import Finding
from penstock.core.types import NodeId, ShardId, Term
from penstock.engine.cluster.status import ClusterStatus, NodeStatus, ShardStatus
from penstock.watch.readings import (
    GroupReading,
    NodeReading,
    QueueReading,
    Readings,
    TopicReading,
    Totals,
)
from tests.unit.cli.commands import Commands

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "production-checklist.md"
NODES = (NodeId(1), NodeId(2), NodeId(3))


def node(number: int, leads: int = 2) -> NodeStatus:
    return NodeStatus(
        node=NodeId(number),
        alive=True,
        leaving=False,
        peer="",
        kafka="",
        http="",
        leads=leads,
        holds=5,
    )


def shard(number: int, voters: tuple[NodeId, ...] = NODES) -> ShardStatus:
    return ShardStatus(
        shard=ShardId(number), leader=voters[0], term=Term(1), placed=voters, voters=voters
    )


def good() -> Facts:
    queue = QueueSettings(
        dead_letter_topic="jobs-dead",
        deliveries_max=5,
        lease_ms=30_000,
        retry_policy="exponential",
        retention_ms=604_800_000,
        max_message_bytes=1 << 20,
    )
    return Facts(
        cluster=ClusterStatus(
            cluster_id="c",
            node=NodeId(1),
            controller=NodeId(1),
            read_only=False,
            health="",
            nodes=tuple(node(one) for one in NODES),
            shards=tuple(shard(one) for one in range(5)),
            topics=2,
            partitions=8,
        ),
        readings=Readings(
            at_ms=1,
            node=1,
            health="",
            healthy=True,
            totals=Totals(),
            queues=(QueueReading(queue="jobs", group="queue", kind="standard", partitions=4),),
            nodes=(NodeReading(node=1, alive=True, disk_used_share=0.4),),
        ),
        settings={"data": "/var/lib/penstock", "limits.stop_grace": "10s"},
        queues={"jobs": queue, "jobs-dead": replace(queue, dead_letter_topic="")},
        alerts_enabled=True,
        webhook="http://example.com",
        firing=0,
        batch=40.0,
    )


def found(facts: Facts, name: str) -> Finding:
    (finding,) = [one for one in check_production(facts) if one.check == name]
    return finding


def test_all_is_well_but_for_what_nobody_can_see() -> None:
    findings = list(check_production(good()))
    assert [one.check for one in findings] == [name for name, _ in CHECKLIST]
    assert {one.verdict for one in findings} == {"ok", "ask"}
    assert all(one.advice for one in findings if one.verdict == "ask")


def with_queue(**changes: object) -> Facts:
    facts = good()
    queues = facts.queues | {"jobs": replace(facts.queues["jobs"], **changes)}
    return replace(facts, queues=queues)


def with_readings(**changes: object) -> Facts:
    facts = good()
    return replace(facts, readings=replace(facts.readings, **changes))


def with_cluster(**changes: object) -> Facts:
    facts = good()
    return replace(facts, cluster=replace(facts.cluster, **changes))


BAD: list[tuple[str, Facts]] = [
    ("guarantee", with_cluster(shards=(shard(0, NODES[:1]),))),
    ("replicas", with_cluster(shards=(shard(0), shard(1, NODES[:2])))),
    ("dead letters", with_queue(dead_letter_topic="")),
    ("dead letters", with_queue(retention_ms=-1)),
    (
        "groups",
        with_readings(
            groups=(GroupReading(group="g", state="Empty", coordinator=1, members=0, lag=3),)
        ),
    ),
    ("monitoring", replace(good(), alerts_enabled=False)),
    ("monitoring", replace(good(), firing=1)),
    ("batching", replace(good(), batch=1.2)),
    ("persistence", replace(good(), settings={"data": ""})),
    ("persistence", replace(good(), settings={"data": f"{TEMPORARY[0]}x"})),
    ("poison", with_queue(deliveries_max=0)),
    ("partitions", with_cluster(nodes=(node(1, 5), node(2, 0), node(3, 0)))),
    ("partitions", with_cluster(partitions=10_000)),
    (
        "partitions",
        with_readings(topics=(TopicReading(topic="t", partitions=1, in_rate=5.0),)),
    ),
    (
        "errors",
        with_readings(
            queues=(
                QueueReading(
                    queue="jobs", group="queue", kind="standard", partitions=1, error_rate=0.011
                ),
            )
        ),
    ),
    ("dead alerts", replace(good(), webhook="")),
    ("dead alerts", with_readings(totals=Totals(dead_letters=1))),
    ("shutdown", replace(good(), settings={"data": "/d", "limits.stop_grace": "0s"})),
    ("capacity", with_readings(nodes=(NodeReading(node=1, alive=True, disk_used_share=0.71),))),
    ("timeouts", with_queue(retry_policy="none")),
]


@pytest.mark.parametrize(("name", "facts"), BAD)
def test_what_is_not_well_is_found_with_advice(name: str, facts: Facts) -> None:
    finding = found(facts, name)
    assert finding.verdict == "warn"
    assert finding.advice
    others = [one.check for one in check_production(facts) if one.verdict == "warn"]
    assert set(others) - {name, "guarantee"} in (set(), {"replicas"}), others


def test_batches_are_counted_from_the_metrics() -> None:
    produced = "penstock_messages_produced_total"
    text = (
        f'{produced}{{destination="a",protocol="kafka"}} 900\n'
        f'{produced}{{destination="x\\",protocol=\\"http",protocol="sqs"}} 300\n'
        f'{produced}{{destination="__audit",protocol="internal"}} 5000\n'
        'penstock_request_duration_seconds_count{protocol="kafka",api="Produce"} 100\n'
        'penstock_request_duration_seconds_count{protocol="kafka",api="Fetch"} 9000\n'
        'penstock_request_duration_seconds_count{protocol="sqs",api="SendMessage"} 100\n'
    )
    assert _messages_per_request(text) == 6.0
    assert _messages_per_request("") is None


def test_the_guide_has_a_chapter_for_each_item() -> None:
    chapters = re.findall(r"^## .*\(`([a-z ]+)`\)$", GUIDE.read_text(), re.MULTILINE)
    assert chapters == [name for name, _ in CHECKLIST]


def test_what_the_guide_says_is_in_the_terminal(commands: Commands) -> None:
    for name, _ in CHECKLIST:
        text = commands.said("doctor", "--explain", name)
        assert len(text.splitlines()) >= 3, name
        assert "](" not in text, "links lead nowhere in a terminal"
    assert "delivered" in commands.document("doctor", "--explain", "idempotence")["text"]
    assert "must be one of: guarantee, replicas" in commands.complaint(
        2, "doctor", "--explain", "nothing"
    )


def test_no_advice_names_a_file_that_a_wheel_does_not_have() -> None:
    _, _, below_its_docstring = inspect.getsource(checklist).split('"""', 2)
    assert "docs/" not in below_its_docstring


def test_a_queue_of_which_nothing_was_said_is_well(commands: Commands) -> None:
    commands.said("queue", "create", "jobs")
    commands.broker.look()
    found = commands.document("doctor", "--data", ".")["findings"]
    of_queues = ("dead letters", "poison", "timeouts")
    assert [one["verdict"] for one in found if one["check"] in of_queues] == ["ok", "ok", "ok"]


def test_a_running_broker_is_held_against_it(commands: Commands) -> None:
    commands.said("queue", "create", "endless", "--deliveries-max", "0")
    commands.broker.look()
    verdicts = {
        one["check"]: one["verdict"]
        for one in commands.document("doctor", "--data", ".")["findings"]
    }
    assert verdicts["replicas"] == "warn", "there is one node"
    assert verdicts["dead letters"] == "ok"
    assert verdicts["poison"] == "warn"
    assert "poison" not in commands.said("doctor", "--data", ".", "--no-checklist")
