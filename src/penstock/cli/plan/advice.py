"""Advice on a guarantee, a kind of queue, the size of a cluster, another system, or no queue at
all.

The tables are what practice has settled on; figures of other systems are the orders of magnitude
that are usually quoted, not measurements of ours (docs/benchmarks has those). Everything is a pure
function of a few numbers, and every answer comes with its reason.
"""

from dataclasses import dataclass

AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE = "at-most-once", "at-least-once", "exactly-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeRow:
    """A row of the matrix of guarantees."""

    name: str
    performance: str
    complexity: str
    loss: str
    duplication: str
    fits: str
    how: str
    """The steps of a consumer, in order."""


GUARANTEES = {
    row.name: row
    for row in (
        GuaranteeRow(
            name=AT_MOST_ONCE,
            performance="highest",
            complexity="low",
            loss="possible",
            duplication="none",
            fits="metrics, logs, telemetry: what is superseded by the next one",
            how="acknowledge, then work: a worker that dies takes its messages with it",
        ),
        GuaranteeRow(
            name=AT_LEAST_ONCE,
            performance="high",
            complexity="medium",
            loss="none",
            duplication="possible",
            fits="nearly everything, if the work may be repeated without harm",
            how="work, then acknowledge: a worker that dies between the two makes a duplicate",
        ),
        GuaranteeRow(
            name=EXACTLY_ONCE,
            performance="lower: the effect and the message's id are written together",
            complexity="high",
            loss="none",
            duplication="none in effect",
            fits="payments and other changes of state",
            how="work and note the message's id in one transaction, then acknowledge; a message"
            " whose id is noted is acknowledged and skipped",
        ),
    )
}


def guarantee_advice(name: str, *, service_seconds: float, failures: float) -> list[str]:
    """Return sentences on the consequences of a guarantee."""
    row = GUARANTEES[name]
    advice = [f"{name.capitalize()} means: {row.how}. It fits {row.fits}."]
    if name == AT_MOST_ONCE:
        if failures:
            advice.append(
                f"With {failures:.2%} of the work failing, so much of the messages is lost for"
                " good, since nothing is tried again."
            )
        advice.append("If one lost message would be noticed, take at-least-once.")
    if name == AT_LEAST_ONCE:
        advice.append(
            "Make the work idempotent, or use the exactly-once guarantee for the part that is not:"
            " at-least-once with idempotent work is what most systems should have."
        )
    if name == EXACTLY_ONCE:
        advice.append(
            "It holds for what is in the one database: a mail that was sent or an interface that"
            " was called is outside, and needs the message's id as its own idempotence key."
        )
        if service_seconds < 0.01:
            advice.append(
                "A transaction takes about as long as this work does: measure the service time"
                " with it, or handle several messages in one."
            )
    return advice


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The usual architecture up to some rate."""

    below: float
    name: str
    advice: str


TIERS = (
    Tier(
        below=1_000,
        name="below 1,000/s",
        advice="Any queue will do. Choose by its features and by who is to run it.",
    ),
    Tier(
        below=100_000,
        name="1,000 to 100,000/s",
        advice="A cluster of three nodes, and workers in groups.",
    ),
    Tier(
        below=1_000_000,
        name="100,000 to 1,000,000/s",
        advice="Partitions decide: plan keys and partitions before the first message, and batch.",
    ),
    Tier(
        below=float("inf"),
        name="above 1,000,000/s",
        advice="Several clusters, parted by region or by customer: one cluster's limits are then"
        " not those of the others.",
    ),
)


def tier_for(rate: float) -> Tier:
    """By the rate at the peak: that is when a system must hold."""
    return next(tier for tier in TIERS if rate < tier.below)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRow:
    """A system as it is usually quoted."""

    name: str
    rate: float
    """The rate in messages per second: of a broker, or of a queue where the queue is the limit."""
    rate_note: str
    latency: str
    latency_seconds: float
    """The lower end of the usual figures."""
    ordering: str


SYSTEMS = (
    SystemRow(
        name="Apache Kafka",
        rate=1_000_000,
        rate_note="1M+",
        latency="2–5 ms",
        latency_seconds=0.002,
        ordering="per partition",
    ),
    SystemRow(
        name="RabbitMQ",
        rate=50_000,
        rate_note="50K",
        latency="<1 ms",
        latency_seconds=0.0005,
        ordering="per queue",
    ),
    SystemRow(
        name="Amazon SQS",
        rate=3_000,
        rate_note="3K a queue",
        latency="10–100 ms",
        latency_seconds=0.01,
        ordering="best effort, or per group in a FIFO queue",
    ),
    SystemRow(
        name="Apache Pulsar",
        rate=1_000_000,
        rate_note="1M+",
        latency="5–10 ms",
        latency_seconds=0.005,
        ordering="per partition",
    ),
    SystemRow(
        name="Redis Streams",
        rate=100_000,
        rate_note="100K",
        latency="<1 ms",
        latency_seconds=0.0005,
        ordering="per stream",
    ),
    SystemRow(
        name="Azure Service Bus",
        rate=2_000,
        rate_note="2K",
        latency="20–50 ms",
        latency_seconds=0.02,
        ordering="per session",
    ),
)


def fits(system: SystemRow, *, rate: float, delay_seconds: float) -> bool:
    """True if one broker or queue of the system takes the rate, and answers within the delay."""
    return rate <= system.rate and system.latency_seconds <= delay_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class NonUse:
    """A reason not to use a queue."""

    sign: str
    instead: str


NON_USES = (
    NonUse(
        sign="the caller waits for the answer",
        instead="call the service; a queue between them adds delay and a second way to fail",
    ),
    NonUse(
        sign="it is request and reply, each time",
        instead="call the service, with a deadline and a circuit breaker",
    ),
    NonUse(
        sign="every message must arrive within 10 ms, always",
        instead="shared memory or a direct connection; a durable queue waits for a disk",
    ),
    NonUse(
        sign="many listen, missed messages do not matter, nothing is kept",
        instead="plain publish and subscribe, without a log",
    ),
    NonUse(
        sign="everything runs in one process on one machine",
        instead='asyncio.Queue; or file:./data (penstock.connect("file:./data")) if a restart must'
        " lose nothing",
    ),
)


def objections(*, rate: float, delay_seconds: float, nodes: int) -> list[str]:
    """Return the reasons in these numbers not to use a queue, or not this one."""
    found = []
    if delay_seconds < 0.01:
        found.append(
            f"A target of {delay_seconds * 1e3:g} ms is below what a distributed queue should"
            " promise (10 to 100 ms; over a network 1 to 10): half of the messages will make it,"
            " the slowest in a hundred will not. If the caller waits for the answer, call it."
        )
    if rate < 1:
        found.append(
            "Fewer than one message a second: a table with a SKIP LOCKED query beside your data,"
            " or the embedded engine, is less to run."
        )
    if nodes == 1:
        found.append(
            "One node: what it has acknowledged survives its restart, but is not available"
            " meanwhile, and its disk is the only copy. Three nodes survive the loss of any one."
        )
    elif nodes % 2 == 0:
        found.append(
            f"{nodes} nodes survive no more losses than {nodes - 1}: a majority decides, so take"
            " an odd number."
        )
    return found


def kind_advice(order: str, *, replay_seconds: float) -> str:
    """Advise on the kind of queue, by the required order and by whether messages are read again."""
    kinds = {
        "none": "a standard queue: workers take whatever comes next, and a slow message holds up"
        " no other",
        "key": "order by key: a FIFO queue with the key as its message group, or a topic read by a"
        " consumer group; one message of a key is under way at a time",
        "total": "a FIFO queue with one message group: one message is under way at a time, and one"
        " that fails holds up all others",
    }
    text = f"Take {kinds[order]}."
    if replay_seconds > 0:
        text += (
            " To read messages again, keep them: create the queue with --no-delete-acked, or use a"
            " topic."
        )
    return text
