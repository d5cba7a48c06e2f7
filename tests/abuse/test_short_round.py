"""The short round of `make abuse`: representative cases and some thousand inputs for each port.

One broker for the ports of clients and a cluster of three for the peer port and for the oracle of
elections, and one kill -9 at the end of each. The bar of the stall is generous, because other tests
run beside it: what misses it has hung. Every case of `ROUND` and `TRIO` is expected to hold; a case
whose finding is not mended yet is in `make abuse` only.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.abuse.fuzzers import FUZZERS, FuzzOptions, fuzz_target
from tests.abuse.oracles import SHORT_ROUND, STRICT, judge
from tests.abuse.registry import Case
from tests.abuse.run import CASES
from tests.abuse.target import Target, open_target
from tests.cluster.waiting import pass_time

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROUND = (
    "k-frame-length-negative",
    "k-frame-length-greatest",
    "k-frame-client-forges-log",
    "k-frame-array-greatest",
    "k-frame-array-compact-greatest",
    "k-frame-varint-endless",
    "k-frame-string-surrogate",
    "k-frame-tags-greatest",
    "k-frame-records-beyond",
    "k-frame-http-request",
    "k-frame-sound-then-broken",
    "k19c-unknown-tags-in-a-small-request",
    "a-topic-is-not-named-like-a-path",
    "n-frame-greeting-version-greatest",
    "n-frame-length-greatest",
    "n-frame-head-beyond",
    "n-frame-head-deep",
    "n-frame-head-claims",
    "n-frame-id-twice",
    "n43-withdrawals-overtake-requests",
    "h25-a-form-of-another-site",
    "h26-dns-rebinding",
    "h27-receipts-are-not-guessed",
    "h-sqs-json-deep",
    "h-sqs-json-number-huge",
    "h-sqs-url-forges-log",
    "h-query-index-huge",
    "h-raw-two-lengths",
    "h-raw-length-and-chunks",
    "h-raw-header-folded",
    "h-raw-headers-10000",
    "h-raw-upgrade-h2c",
    "h50-a-page-of-another-site-changes-something",
    "h86-assets-path",
    "batch-gzip-garbage-to-fifo",
    "batch-count-too-high-to-fifo",
    "batch-record-length-negative-to-fifo",
    "batch-snappy-claim-to-fifo",
    "batch-headers-claim-to-fifo",
    "checksums-are-looked-at",
)
TRIO = (
    "p01-a-stranger-learns-the-cluster-id",
    "p02-a-stranger-calls",
    "p02b-an-outsider-calls",
    "p04-a-change-named-after-a-family",
    "p05-proofs-without-the-key",
    "p07-messages-of-an-outsider",
    "redirect-of-all-kafka-clients",
    "p-frame-length-greatest",
    "p-frame-header-sum-wrong",
    "p-frame-messages-before-hello",
    "p-frame-challenge-then-hello",
    "p-proof-own-id",
    "p-proof-garbage",
    "p-outsider-messages-garbage",
    "p-outsider-holds",
    "p-outsider-length-of-a-member",
    "p-member-messages-garbage",
    "p-member-entry-garbage",
    "p-member-entry-with-a-gap",
    "p-member-commit-negative",
    "p-member-snapshot-part-garbage",
    "k19b-one-known-tag-400000-times-on-three",
    "k47-one-partition-in-250000-rows-on-three",
    "k20-header-tags-of-24-mebibytes-on-three",
    "s19-offsets-of-topics-that-come-and-go-on-three",
)
INPUTS = 2_048


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A broker with its known set, which must be complete when everything else is over."""
    yield from _target(1)


@pytest.fixture(scope="module")
def trio() -> Iterator[Target]:
    """The same with three nodes."""
    yield from _target(3)


def _target(nodes: int) -> Iterator[Target]:
    with open_target(nodes=nodes) as broker:
        asyncio.run(broker.prepare())
        yield broker
        broker.kill_and_restart()
        assert asyncio.run(broker.missing()) == []


async def _freeze(target: Target) -> None:
    """Stops the broker, and lets it write what it must not."""
    target.cluster.freeze(1)
    pass_time(1.5)
    target.cluster.thaw(1)
    with target.cluster.nodes[1].log.open("a", encoding="utf-8") as log:
        log.write("Traceback (most recent call last):\n" + "x" * 200_000 + "\n")


@pytest.mark.timeout(600)
def test_the_oracles_can_fail(target: Target) -> None:
    case = Case("frozen", "process", "", "a broker that stands still", _freeze)
    bars = replace(STRICT, kept_bytes=-(1 << 40), peak_bytes=-1, settle_seconds=0.1)
    outcome = asyncio.run(judge(case, target, bars))
    found = {complaint.split()[0].strip(":") for complaint in outcome.complaints}
    assert found == {"stall", "memory", "log", "1"}, outcome.complaints
    assert outcome.stall > 1.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ROUND)
def test_a_hostile_case_does_no_harm(target: Target, name: str) -> None:
    outcome = asyncio.run(judge(CASES[name], target, SHORT_ROUND))
    assert outcome.held, "\n".join([outcome.describe(), *outcome.complaints])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["fuzz-kafka-mutated", "fuzz-native-grammar", "fuzz-http-mutated"])
def test_fuzzed_inputs_do_no_harm(target: Target, name: str) -> None:
    _fuzz(target, name)


def _fuzz(target: Target, name: str) -> None:
    assert name in FUZZERS
    options = FuzzOptions(seed=1, inputs=INPUTS)
    outcome = asyncio.run(fuzz_target(name, options, target, SHORT_ROUND))
    assert outcome.held, "\n".join([outcome.describe(), *outcome.complaints])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TRIO)
def test_a_hostile_case_does_no_harm_to_three_nodes(trio: Target, name: str) -> None:
    outcome = asyncio.run(judge(CASES[name], trio, SHORT_ROUND))
    assert outcome.held, "\n".join([outcome.describe(), *outcome.complaints])


@pytest.mark.timeout(600)
def test_frames_of_strangers_do_no_harm(trio: Target) -> None:
    _fuzz(trio, "fuzz-stranger-mutated")


async def _depose(target: Target) -> None:
    """Freezes the node that leads most shards for longer than an election takes."""
    leader = await target.busiest_leader()
    target.cluster.freeze(leader)
    pass_time(4.0)
    target.cluster.thaw(leader)


@pytest.mark.timeout(600)
def test_the_oracle_of_elections_can_fail(trio: Target) -> None:
    case = Case("deposed", "process", "", "a leader that stands still", _depose, nodes=3)
    bars = replace(SHORT_ROUND, stall_seconds=60.0, starved_seconds=60.0)
    outcome = asyncio.run(judge(case, trio, bars))
    assert outcome.elections > 0
    assert [one.split(":")[0] for one in outcome.complaints] == ["elections"], outcome.complaints


@pytest.mark.timeout(600)
def test_frames_of_a_member_cost_the_others_nothing(trio: Target) -> None:
    """The last: what was acknowledged is read when the nodes have been killed after it."""
    _fuzz(trio, "fuzz-peer-mutated")
