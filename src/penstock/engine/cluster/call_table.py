"""The table of remote calls: everything that one node asks of another.

    name            request          reply                                    seconds

    audit           int              list[AuditLine]                                3

`serve_calls` joins each row to the local function that serves it. A unit test compares this table
with the rows.
"""

from penstock.engine.cluster.administration import SHARD, TRANSFER, Cluster
from penstock.engine.cluster.cut import HOLD, MARK, RELEASE, Cuts
from penstock.engine.delivery.forwarded_requests import QUEUE
from penstock.engine.delivery.moves import MOVES, Moves
from penstock.engine.delivery.service import Queues
from penstock.engine.groups.lag import ENDS, GROUP, GROUPS, Lag
from penstock.engine.inspection.audit import AUDIT, Audit
from penstock.engine.inspection.events import EVENTS, Events
from penstock.engine.inspection.log_browser import LOOK
from penstock.engine.inspection.log_queries import LogQueries
from penstock.engine.inspection.message_facts import TRACE_PLACE
from penstock.engine.inspection.message_search import TRACE_COPIES
from penstock.engine.inspection.pipeline_reports import PIPELINES, PipelineReports
from penstock.engine.inspection.queue_survey import QUEUE_PLACES, WORK_GROUPS, QueueSurvey
from penstock.engine.inspection.sampler import SAMPLE, Sampler
from penstock.engine.inspection.topic_survey import TOPIC_PLACES, TOPIC_READERS
from penstock.engine.inspection.trace import Traces
from penstock.engine.peers.calls import RemoteCalls
from penstock.engine.peers.forwarding import CHANGE, PARTITIONS, Forwarding
from penstock.engine.topics.publications import LAST_PUBLISHED, PART, PUBLISH, Publications


def serve_calls(
    calls: RemoteCalls,
    *,
    forwarding: Forwarding,
    cluster: Cluster,
    cuts: Cuts,
    publications: Publications,
    delivery: Queues,
    moves: Moves,
    lag: Lag,
    survey: QueueSurvey,
    log_queries: LogQueries,
    traces: Traces,
    sampler: Sampler,
    events: Events,
    audit: Audit,
    pipeline_reports: PipelineReports,
) -> None:
    """Serve every row but `introduce`, which a node serves before it belongs to a cluster."""
    serve = calls.serve
    serve(CHANGE, forwarding.change_here)
    serve(PARTITIONS, forwarding.make_partitions_here)
    serve(SHARD, cluster.shard_here)
    serve(TRANSFER, cluster.transfer_here)
    serve(HOLD, cuts.hold_here)
    serve(MARK, cuts.mark_here)
    serve(RELEASE, cuts.release_here)
    serve(PUBLISH, publications.publish_here)
    serve(LAST_PUBLISHED, publications.last_here)
    serve(PART, publications.part_here)
    serve(QUEUE, delivery.serve)
    serve(MOVES, moves.list_here)
    serve(GROUP, lag.group_here)
    serve(GROUPS, lag.groups_here)
    serve(ENDS, lag.ends_here)
    serve(WORK_GROUPS, survey.groups_here)
    serve(QUEUE_PLACES, survey.places_here)
    serve(TOPIC_PLACES, log_queries.survey.places_here)
    serve(TOPIC_READERS, log_queries.survey.readers_here)
    serve(LOOK, log_queries.looks.look_here)
    serve(TRACE_PLACE, traces.facts.known_here)
    serve(TRACE_COPIES, traces.copies_here)
    serve(SAMPLE, sampler.sample_here)
    serve(EVENTS, events.events_here)
    serve(AUDIT, audit.recent_here)
    serve(PIPELINES, pipeline_reports.reports_here)
