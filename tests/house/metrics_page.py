"""docs/reference/metrics.md: what a node exports, from the table that it exports by."""

import textwrap
from collections.abc import Iterable

from penstock.core.histogram import REQUEST_BOUNDS, WORK_BOUNDS
from penstock.core.limits import (
    COUNTED_TOPICS_MAX,
    SCRAPED_CONSUMERS_MAX,
    SCRAPED_GROUPS_MAX,
    SCRAPED_HISTOGRAMS_MAX,
    SCRAPED_PARTITIONS_MAX,
)
from penstock.watch.metric_table import CHAPTERS, Kind, Metric

INTRODUCTION = """\
`GET /metrics` on the HTTP port of every node, in Prometheus' text format, or in OpenMetrics on
request. `penstock generate prometheus` writes a configuration that scrapes a cluster, with rules
for alerts. The page needs no counters of its own: all are plain numbers, kept once for each request
or batch and never for each message. The page is made on request, and the same page answers all
requests for a second, or longer if it took long to make: at most a fiftieth of a node's time goes
into it."""

ADDING_UP = f"""\
## Several nodes

Scrape every node. Each exports what it did itself and what it leads, and nothing of the others, so
that a sum over all nodes is the cluster's number:

- **Counters** count what this node did: what it appended as the leader, what it handed to clients,
  which requests it answered, what became of messages while it led their shard. When another node
  takes over, the old one's counters stop and the new one's continue:
  `sum(rate(...))` is right at any time. They begin at 0 when a process starts, which Prometheus
  knows how to read.
- **Gauges** of queues, topics and groups are exported by the leader of their shard. A
  queue with several partitions is exported in part by several nodes. When leadership moves, the
  series moves with it.
- Where adding makes no sense, the column *over nodes* says what does: the oldest message of a queue
  is the `max`, the time since a worker was heard of the `min`. Each node has its own replica of a
  shard, so that `penstock_raft_term` and its like are there once for each copy, and
  `penstock_storage_bytes` counts every copy.

For example, the messages that are ready in each queue, what comes in and what is done, the slowest
in a hundred requests, the oldest message, the share of deliveries that fail, how they fail, how
many messages Kafka producers send at once, how deep a queue was, and for how much of the last
thirty days the cluster was not available:

```text
sum by (queue) (penstock_queue_messages{{state="ready"}})
sum by (destination) (rate(penstock_messages_produced_total[5m]))
sum by (destination) (rate(penstock_messages_acked_total[5m]))
histogram_quantile(0.99, sum by (le, api) (rate(penstock_request_duration_seconds_bucket[5m])))
max by (queue) (penstock_queue_oldest_message_age_seconds)
sum by (destination) (rate(penstock_messages_failed_total[5m]))
  / (sum by (destination) (rate(penstock_messages_failed_total[5m]))
     + sum by (destination) (rate(penstock_messages_acked_total[5m])))
sum by (error_type) (rate(penstock_messages_failed_total[5m]))
sum(rate(penstock_messages_produced_total{{protocol="kafka"}}[5m]))
  / sum(rate(penstock_batches_produced_total{{protocol="kafka"}}[5m]))
sum by (le) (increase(penstock_queue_depth_messages_bucket{{queue="orders"}}[5m]))
1 - sum(increase(penstock_available_seconds_total[30d]))
  / sum(increase(penstock_observed_seconds_total[30d]))
```

## Bounds

A label never has more values than are good for Prometheus. Each node tells
{COUNTED_TOPICS_MAX:,} topics apart in its counters and queues in its gauges; what is above that is
exported under the name `other`, and so is, from then on, what was counted for a topic that was
deleted: no sum ever falls. The histograms of processing time and depth have
{SCRAPED_HISTOGRAMS_MAX:,} queues by name, and the others together. Error rates cover the
{SCRAPED_CONSUMERS_MAX:,} consumers with the most failures. Each coordinator exports
{SCRAPED_GROUPS_MAX:,} consumer groups, in the order of their names. Names by partition are part of
the small page as long as there are no more than {SCRAPED_PARTITIONS_MAX:,} of them; above that, and
for all of them, ask for `/metrics?detail=partition`."""

HOST = """\
The page is open to whoever reaches the port, under an address, `localhost`, the advertised name or
one from `web.hosts`."""


def metrics_page(notice: str) -> str:
    """The whole page."""
    parts = ["# Metrics", notice, INTRODUCTION, HOST, ADDING_UP]
    for chapter in CHAPTERS:
        text = textwrap.fill(chapter.text, 100, break_on_hyphens=False, break_long_words=False)
        parts += [f"## {chapter.title}", text, _table(chapter.metrics)]
        for histogram in (one for one in chapter.metrics if one.kind is Kind.HISTOGRAM):
            work = "processing" in histogram.name
            bounds = ", ".join(f"{bound:g}" for bound in (WORK_BOUNDS if work else REQUEST_BOUNDS))
            parts.append(f"Buckets of `{histogram.name}`: {bounds} seconds.")
    return "\n\n".join(parts) + "\n"


def _table(metrics: Iterable[Metric]) -> str:
    lines = ["| metric | kind | labels | over nodes | what it is |", "|---|---|---|---|---|"]
    for one in metrics:
        labels = " ".join(f"`{label}`" for label in one.labels)
        over = "sum" if one.kind is not Kind.GAUGE else one.over_nodes
        lines.append(f"| `{one.name}` | {one.kind.value} | {labels} | {over} | {one.meaning} |")
    return "\n".join(lines)
