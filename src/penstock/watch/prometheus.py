"""The alert rules for Prometheus, with the same thresholds.

Made from the one table (`rules`) and the settings in force; what is compared with what stands here,
metric by metric (see `metric_table`). Each level of each rule is an alert of its own, with the
level as its `severity`.

Three things differ, because a metric says less than the broker knows. A dead-letter queue has a
depth like any other, and a paused queue is as silent as one whose workers are gone: leave them out
with a matcher if you have them. What a queue is expected to get done is always what was usual in
the last hour. And the numbers that single queues have (`alert.…`) are not in it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from penstock.core.alert_levels import Level
from penstock.watch.rules import BACKLOG_SECONDS, RULES, Unit
from penstock.watch.settings import AlertSettings

METRICS_PATH = "/metrics"
SCRAPE_SECONDS = 15


class Expression(msgspec.Struct, frozen=True):
    """An alert rule as an expression of Prometheus."""

    rule: str
    value: str
    """The value that is compared with the thresholds."""
    condition: str = ""
    """A further condition."""
    described: str = ""
    """The sentence, as a template of Prometheus."""
    lasting: str = ""
    """Instead of comparing, this must be so for as long as the level says; the name of the case."""


_READY = 'sum by (queue, group) (penstock_queue_messages{state="ready"})'
_LAG = "sum by (group, topic) (penstock_consumer_group_lag_messages)"
_FAILED = "sum by (destination) (rate(penstock_messages_failed_total[1m]))"
_ACKED = "sum by (destination) (rate(penstock_messages_acked_total[1m]))"
_USUAL = f"quantile_over_time(0.5, ({_ACKED})[1h:1m])"
_WAITING = (
    "sum by (destination) (label_replace(penstock_queue_messages"
    '{state="ready"}, "destination", "$1", "queue", "(.*)"))'
)

EXPRESSIONS = (
    Expression(
        "lag",
        _LAG,
        described="group {{ $labels.group }} is {{ $value | humanize }} messages behind in"
        " {{ $labels.topic }}",
    ),
    Expression(
        "depth",
        _READY,
        described="{{ $value | humanize }} messages of {{ $labels.queue }} are ready and not"
        " leased",
    ),
    Expression(
        "dead_letters",
        "sum by (queue) (penstock_queue_dead_letters)",
        described="{{ $value | humanize }} messages of {{ $labels.queue }} failed for good",
    ),
    Expression(
        "error_rate",
        f"{_FAILED} / ({_FAILED} + {_ACKED})",
        f"60 * ({_FAILED} + {_ACKED}) > {RULES['error_rate'].counted_min - 1}",
        described="{{ $value | humanizePercentage }} of the deliveries of"
        " {{ $labels.destination }} fail",
    ),
    Expression(
        "no_consumers",
        "min by (queue, group) (penstock_queue_silent_seconds)",
        f"{_READY} > 0",
        described="no consumer has asked for messages of {{ $labels.queue }} for"
        " {{ $value | humanizeDuration }}, and some wait",
    ),
    Expression(
        "no_consumers",
        "sum by (group) (penstock_consumer_group_members) == 0",
        "sum by (group) (penstock_consumer_group_lag_messages) > 0",
        described="group {{ $labels.group }} has no members, and messages wait for it",
        lasting="Group",
    ),
    Expression(
        "disk",
        "1 - penstock_disk_free_bytes / penstock_disk_size_bytes",
        described="the disk of {{ $labels.instance }} is {{ $value | humanizePercentage }} full",
    ),
    Expression(
        "state",
        "penstock_shard_state_bytes / penstock_shard_state_limit_bytes",
        described="shard {{ $labels.group }} on {{ $labels.instance }} holds"
        " {{ $value | humanizePercentage }} of the {{ $labels.kind }} that it may",
    ),
    Expression(
        "processing_rate",
        f"{_ACKED} / ({_USUAL} > 0)",
        f"{_WAITING} > {BACKLOG_SECONDS} * {_USUAL}",
        described="workers of {{ $labels.destination }} get {{ $value | humanizePercentage }} of"
        " what is usual done",
    ),
)


def threshold_of(rule: str, at: float) -> float:
    """A number of the table in Prometheus' units: seconds, not milliseconds."""
    return at / 1_000 if RULES[rule].unit is Unit.DURATION else at


def rules_text(settings: AlertSettings) -> str:
    """Return a file of rules, as YAML."""
    lines = [
        "# Alerts of Penstock for Prometheus, written by `penstock generate prometheus`.",
        "# Name it in prometheus.yml: rule_files: [penstock-rules.yml]",
        "groups:",
        "  - name: penstock",
        "    rules:",
    ]
    for expression in EXPRESSIONS:
        for level, at in reversed(settings.levels[expression.rule].items()):
            lines += _rule_lines(expression, level, at, settings)
    return "\n".join([*lines, ""])


def _rule_lines(
    expression: Expression, level: Level, at: float, settings: AlertSettings
) -> Iterator[str]:
    rule = RULES[expression.rule]
    number = threshold_of(rule.name, at)
    hold_seconds = settings.hold_ms / 1_000 if rule.waits else 0
    text = f"{expression.value} {'<' if rule.below else '>'} {number:.12g}"
    if expression.lasting:
        text, hold_seconds = expression.value, number
    if expression.condition:
        text = f"({text}) and ({expression.condition})"
    name = "".join(word.capitalize() for word in rule.name.split("_"))
    runbook = f"{settings.runbooks.rstrip('/')}/{rule.page}" if settings.runbooks else rule.runbook
    yield f"      - alert: Penstock{name}{expression.lasting}{level.value.capitalize()}"
    yield f"        expr: {_quoted(text)}"
    yield f"        for: {hold_seconds:.0f}s"
    yield f"        keep_firing_for: {settings.clear_ms // 1_000}s"
    yield "        labels:"
    yield f"          severity: {level.value}"
    yield f"          rule: {rule.name}"
    yield "        annotations:"
    yield f"          summary: {_quoted(expression.described)}"
    yield f"          description: {_quoted(rule.meaning + ' ' + rule.advice)}"
    yield f"          runbook_url: {_quoted(runbook)}"


def scrape_text(targets: Sequence[str], *, rules_file: str = "penstock-rules.yml") -> str:
    """A configuration that scrapes these nodes, as YAML."""
    lines = [
        "# A configuration of Prometheus, written by `penstock generate prometheus --scrape`.",
        "global:",
        f"  scrape_interval: {SCRAPE_SECONDS}s",
        f"  evaluation_interval: {SCRAPE_SECONDS}s",
        f"rule_files: [{_quoted(rules_file)}]",
        "scrape_configs:",
        "  - job_name: penstock",
        f"    metrics_path: {METRICS_PATH}",
        "    static_configs:",
        "      - targets:",
    ]
    lines += [f"          - {_quoted(target)}" for target in targets]
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """Quote a text for YAML."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
