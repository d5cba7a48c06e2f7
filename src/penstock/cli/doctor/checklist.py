"""The production checklist, item by item: the finding in a running cluster, and advice.

One table, in the order of `docs/guides/production-checklist.md`, which has a chapter for each item.
What a broker can see is checked; "ask" is for what only the people can answer who wrote the
programs around it, with the question and where to read about it.
"""

from collections.abc import Callable, Iterable, Iterator

from penstock.cli.doctor.facts import Facts
from penstock.cli.doctor.machine import Finding, Verdict
from penstock.core.plurals import counted

REPLICAS_WANTED = 3
BATCH_WANTED = 5.0
ERROR_SHARE_MAX = 0.01
USED_SHARE_MAX = 0.7
PARTITIONS_WANTED_MAX = 10_000
"""In a cluster: elections, snapshots and surveys take longer with each, and a node that starts
reads the state of all it holds."""
GRACE_MIN = ("0s", "0ms", "0")
NAMES_SHOWN = 5
TEMPORARY = ("/tmp/", "/dev/shm/", "/var/tmp/")  # noqa: S108 - looked for, not used

Check = Callable[[Facts], tuple[Verdict, str, str]]


def check_production(facts: Facts) -> Iterator[Finding]:
    """Run every check of the list."""
    for name, check in CHECKLIST:
        verdict, found, advice = check(facts)
        yield Finding(name, verdict, found, "" if verdict == "ok" else advice)


def _guarantee(facts: Facts) -> tuple[Verdict, str, str]:
    voters = min((len(one.voters) for one in facts.cluster.shards if one.voters), default=0)
    needed = voters // 2 + 1
    found = f"acknowledged means written to {needed} of {voters} disks"
    advice = "choose per producer and queue: `penstock doctor --explain guarantee`"
    return ("ok" if voters > 1 else "warn"), found, advice


def _replicas(facts: Facts) -> tuple[Verdict, str, str]:
    few = [str(one.shard) for one in facts.cluster.shards if 0 < len(one.voters) < REPLICAS_WANTED]
    nodes = len(facts.cluster.nodes)
    if not few:
        return "ok", f"every shard has {REPLICAS_WANTED} replicas or more, on {nodes} nodes", ""
    found = (
        f"shards {_some(few)} have fewer than {REPLICAS_WANTED} replicas; {counted(nodes, 'node')}"
    )
    return "warn", found, "run three nodes: `penstock cluster add` lets more in, with no stop"


def _dead_letters(facts: Facts) -> tuple[Verdict, str, str]:
    bare = [name for name, one in facts.working_queues.items() if not one.dead_letter_topic]
    endless = [
        name
        for name, one in facts.working_queues.items()
        if one.ttl_ms < 0 and one.retention_ms < 0
    ]
    if bare:
        found = f"no dead-letter queue: {_some(bare)}"
        return "warn", found, "`penstock queue configure NAME --dead-letter-topic NAME-dlq`"
    if endless:
        found = f"messages are kept for ever: {_some(endless)}"
        return "warn", found, "set a ttl, or retention.ms"
    return "ok", "dead letters have a place, and messages an end, in every queue", ""


def _groups(facts: Facts) -> tuple[Verdict, str, str]:
    idle = [one.group for one in facts.readings.groups if one.lag and not one.members]
    if idle:
        found = f"behind, and without members: {_some(idle)}"
        return "warn", found, "start them, or delete them with `penstock group delete`"
    return "ok", "no group is behind and without members", ""


def _monitoring(facts: Facts) -> tuple[Verdict, str, str]:
    if not facts.alerts_enabled:
        return "warn", "the broker's alerts are switched off", "set alerts.enabled = true"
    totals = facts.readings.totals
    firing = f"{counted(facts.firing, 'alert')} {'is' if facts.firing == 1 else 'are'} firing"
    found = f"depth {totals.ready:,}, lag {totals.lag:,}; {firing}"
    advice = "see `penstock alert list`; each has a runbook"
    return ("warn" if facts.firing else "ok"), found, advice


def _batching(facts: Facts) -> tuple[Verdict, str, str]:
    if facts.batch is None:
        return "ask", "too little was sent to this node to tell", "let producers send in batches"
    found = f"{facts.batch:.1f} messages to a request on this node"
    advice = "let producers wait some milliseconds (linger.ms), or send many at once"
    return ("ok" if facts.batch >= BATCH_WANTED else "warn"), found, advice


def _persistence(facts: Facts) -> tuple[Verdict, str, str]:
    data = facts.settings.get("data", "")
    if not data:
        return "warn", "the data directory is not set: this is a trial", "set data, on a disk"
    if data.startswith(TEMPORARY):
        return "warn", f"data is in {data}, which may be emptied", "move it to a disk of its own"
    return "ok", f"data is in {data}; `penstock backup` copies it while the node runs", ""


def _poison(facts: Facts) -> tuple[Verdict, str, str]:
    endless = [name for name, one in facts.working_queues.items() if not one.deliveries_max]
    if endless:
        found = f"a message that fails is delivered for ever: {_some(endless)}"
        return "warn", found, "`penstock queue configure NAME --deliveries-max 5`"
    return "ok", "every queue gives up on a message that keeps failing", ""


def _sizes(facts: Facts) -> tuple[Verdict, str, str]:
    largest = max((one.max_message_bytes for one in facts.queues.values()), default=0)
    request = facts.settings.get("limits.request_size_max", "unknown")
    told = f", a message of a queue at most {largest:,} bytes" if largest else ""
    return "ok", f"a request has at most {request}{told}", ""


def _partitions(facts: Facts) -> tuple[Verdict, str, str]:
    if facts.cluster.partitions >= PARTITIONS_WANTED_MAX:
        found = (
            f"{facts.cluster.partitions:,} partitions; from {PARTITIONS_WANTED_MAX:,} on"
            " failover and starts take longer"
        )
        return "warn", found, "delete unused topics, or divide the topics between two clusters"
    leads = {one.node: one.leads for one in facts.cluster.nodes if one.alive}
    if leads and max(leads.values()) - min(leads.values()) > 2:
        spread = ", ".join(f"node {node} leads {count}" for node, count in sorted(leads.items()))
        return "warn", f"leaders are unevenly spread: {spread}", "`penstock cluster transfer`"
    single = [
        one.topic
        for one in facts.readings.topics
        if one.partitions < len(leads) and not one.topic.startswith("__") and one.in_rate > 0
    ]
    if single and len(leads) > 1:
        found = "busy topics with fewer partitions than there are nodes"
        return "warn", f"{found}: {_some(single)}", "`penstock topic config`, or `penstock plan`"
    partitions, shards = facts.cluster.partitions, len(facts.cluster.shards)
    return "ok", f"{counted(partitions, 'partition')} in {counted(shards, 'shard')}", ""


def _errors(facts: Facts) -> tuple[Verdict, str, str]:
    failing = [one.queue for one in facts.readings.queues if one.error_rate > ERROR_SHARE_MAX]
    if failing:
        found = f"more than 1 % of deliveries fail: {_some(failing)}"
        return (
            "warn",
            found,
            "read why: `penstock peek NAME-dlq`, `penstock alert runbook error_rate`",
        )
    return "ok", "less than 1 % of deliveries fail, in every queue", ""


def _dead_letter_alerts(facts: Facts) -> tuple[Verdict, str, str]:
    dead = facts.readings.totals.dead_letters
    if not facts.webhook:
        found = f"{counted(dead, 'dead letter')}, and no webhook receives alerts"
        return "warn", found, "set alerts.webhook, or load `penstock generate prometheus`"
    if dead:
        return "warn", counted(dead, "dead letter"), "look at them, then `penstock redrive`"
    return "ok", "no dead letters, and a webhook receives new ones", ""


def _shutdown(facts: Facts) -> tuple[Verdict, str, str]:
    grace = facts.settings.get("limits.stop_grace", "unknown")
    if grace in GRACE_MIN:
        return "warn", "requests under way are cut off at a stop", "set limits.stop_grace = 10s"
    return "ok", f"a stop waits up to {grace} for requests, and hands over what the node leads", ""


def _capacity(facts: Facts) -> tuple[Verdict, str, str]:
    tight = []
    for node in facts.readings.nodes:
        if node.disk_used_share is not None and node.disk_used_share > USED_SHARE_MAX:
            tight.append(f"the disk of node {node.node} is {node.disk_used_share:.0%} full")
        if node.memory_bytes and node.memory_bytes_max:
            share = node.memory_bytes / node.memory_bytes_max
            if share > USED_SHARE_MAX:
                tight.append(f"node {node.node} uses {share:.0%} of its memory")
    advice = "`penstock plan` works out what a peak takes"
    if tight:
        return "warn", "; ".join(tight), advice
    return "ok", f"disks and memory are below {USED_SHARE_MAX:.0%} on every node", advice


def _timeouts(facts: Facts) -> tuple[Verdict, str, str]:
    hasty = [
        name
        for name, one in facts.working_queues.items()
        if one.deliveries_max and one.retry_policy == "none"
    ]
    if hasty:
        found = f"what failed is tried again at once: {_some(hasty)}"
        return "warn", found, "`penstock queue configure NAME --retry-policy exponential`"
    return "ok", "leases and retries are set, queue by queue", ""


def _backups(facts: Facts) -> tuple[Verdict, str, str]:
    nodes = len(facts.cluster.nodes)
    found = f"{counted(nodes, 'node')}: replicas protect from a lost disk, not from a mistake"
    return "ask", found, "run `penstock backup` daily, and `penstock restore` once a quarter"


def _ask(found: str, advice: str) -> Check:
    """Only the operators of a broker can answer."""
    return lambda _facts: ("ask", found, advice)


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = len(listed) - NAMES_SHOWN
    return " ".join(listed[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


CHECKLIST: tuple[tuple[str, Check], ...] = (
    ("guarantee", _guarantee),
    ("replicas", _replicas),
    ("dead letters", _dead_letters),
    ("groups", _groups),
    ("monitoring", _monitoring),
    ("batching", _batching),
    ("persistence", _persistence),
    ("poison", _poison),
    (
        "schemas",
        _ask("do bodies carry a version?", "give them one: `penstock doctor --explain schemas`"),
    ),
    ("sizes", _sizes),
    ("partitions", _partitions),
    (
        "idempotence",
        _ask(
            "does a message that comes twice do no harm?",
            "let workers keep a store of what was processed: @app.worker(…, processed=…)",
        ),
    ),
    ("errors", _errors),
    ("dead alerts", _dead_letter_alerts),
    ("shutdown", _shutdown),
    (
        "autoscaling",
        _ask(
            "do workers grow with the lag?",
            "scale on lag, not on depth: @app.worker(…, scaling=…), `penstock work --processes`",
        ),
    ),
    (
        "breakers",
        _ask(
            "do workers stop asking a service that is down?",
            "give them a circuit breaker: @app.worker(…, breaker=…)",
        ),
    ),
    ("capacity", _capacity),
    (
        "rehearsal",
        _ask(
            "have a bad message, a peak and a killed node been tried?",
            "`penstock bench`, `penstock demo`; `penstock doctor --explain rehearsal`",
        ),
    ),
    ("timeouts", _timeouts),
    (
        "runbooks",
        _ask(
            "does the person on call know where they are?",
            "`penstock alert runbook`, or /runbooks of the dashboard",
        ),
    ),
    (
        "migration",
        _ask("is there a way back at every step?", "`penstock doctor --explain migration`"),
    ),
    ("backups", _backups),
)
"""Name and check, in the order of the guide."""
