"""The table of remote calls: everything that one node asks of another.

    name             request            reply                            callers  seconds

Clusters and shards:

    introduce        Introduction       Welcome                          anyone         2
    change           Envelope           Envelope                         members       15
    partitions       MakePartitions     None                             members       15
    shard            DescribeShard      ShardStatus                      members        3
    transfer         TransferShard      None                             members        3
    hold             ShardHold          None                             members        1
    mark             ShardHold          dict[ShardId, Index]             members        1
    release          ShardHold          None                             members        1
    catalog_version  None               int                              members        3
    cluster_key      KeyOffer           None                             members        3

Topics and queues:

    publish          PublishRequest     PublishOutcome                   members       20
    last published   FindLastBatch      LastBatch                        members       10
    part             PartRequest        None                             members       60
    queue            QueueCall          object                           members       10
    moves            ListMoves          list[Move]                       members       10
    topic_places     PlacesRequest      dict[PartitionId, LogPlace]      members        3
    queue_places     PlacesRequest      dict[PartitionId, QueuePlace]    members        3
    look             LogBrowseRequest   list[LogPart]                    members       10

Groups:

    group            str                GroupLag                         members        3
    groups           None               list[GroupLine]                  members        3
    ends             list[PartitionId]  list[Offset | None]              members        3
    topic_readers    bytes              list[TopicReader]                members        3
    work_groups      None               dict[PartitionId, list[str]]     members        3

Inspection:

    trace_place      AskedPlace         PlaceFacts                       members        5
    trace_copies     FindCopies         list[FoundCopy]                  members       20
    sample           None               NodeSample                       members        2
    events           None               list[Event]                      members        3
    audit            int                list[AuditLine]                  members        3
    pipelines        None               list[PipelineReport]             members        3
    workers          WorkersRequest     list[WorkerActivity]             members        3

`callers`: members of the cluster, or anyone who holds the cluster key, such as a node that is about
to join. Each row is declared in the module of its types and joined here to the local function that
serves it; a unit test compares the table with the rows. `engine.peers.calls` says how calls travel,
and what must not change because nodes of different versions call each other. The reply to `queue`
follows from the request; see `delivery.forwarded_requests`.
"""

from penstock.engine.cluster.administration import SHARD, TRANSFER, Cluster
from penstock.engine.cluster.backups.cut import HOLD, MARK, RELEASE, Cuts
from penstock.engine.cluster.keys.key_distribution import CLUSTER_KEY, KeyDistribution
from penstock.engine.delivery.forwarded_requests import QUEUE
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.groups.lag import ENDS, GROUP, GROUPS, Lag
from penstock.engine.inspection.audit import AUDIT, Audit
from penstock.engine.inspection.events import EVENTS, Events
from penstock.engine.inspection.log_browser import LOOK
from penstock.engine.inspection.log_queries import LogQueries
from penstock.engine.inspection.pipeline_reports import PIPELINES, PipelineReports
from penstock.engine.inspection.queue_survey import QUEUE_PLACES, WORK_GROUPS, QueueSurvey
from penstock.engine.inspection.sampler import SAMPLE, Sampler
from penstock.engine.inspection.topic_survey import TOPIC_PLACES, TOPIC_READERS
from penstock.engine.inspection.traces.message_facts import TRACE_PLACE
from penstock.engine.inspection.traces.message_search import TRACE_COPIES
from penstock.engine.inspection.traces.trace import Traces
from penstock.engine.inspection.worker_survey import WORKERS, WorkerSurvey
from penstock.engine.moves.moves import MOVES, Moves
from penstock.engine.peers.calls import RemoteCalls
from penstock.engine.peers.forwarder import CHANGE, PARTITIONS, Forwarder
from penstock.engine.topics.catalog_versions import CATALOG_VERSION, CatalogVersions
from penstock.engine.topics.publications import LAST_PUBLISHED, PART, PUBLISH, Publications


def serve_calls(
    calls: RemoteCalls,
    *,
    forwarder: Forwarder,
    cluster: Cluster,
    cuts: Cuts,
    catalog_versions: CatalogVersions,
    publications: Publications,
    delivery: DeliveryService,
    moves: Moves,
    lag: Lag,
    survey: QueueSurvey,
    log_queries: LogQueries,
    traces: Traces,
    sampler: Sampler,
    events: Events,
    audit: Audit,
    pipeline_reports: PipelineReports,
    workers: WorkerSurvey,
    keys: KeyDistribution,
) -> None:
    """Serve every row but `introduce`, which a node serves before it belongs to a cluster."""
    serve = calls.serve

    serve(CHANGE, forwarder.change_here)
    serve(PARTITIONS, forwarder.make_partitions_here)
    serve(SHARD, cluster.shard_here)
    serve(TRANSFER, cluster.transfer_here)
    serve(HOLD, cuts.hold_here)
    serve(MARK, cuts.mark_here)
    serve(RELEASE, cuts.release_here)
    serve(CATALOG_VERSION, catalog_versions.newest_here)
    serve(CLUSTER_KEY, keys.accept_here)

    serve(PUBLISH, publications.publish_here)
    serve(LAST_PUBLISHED, publications.last_here)
    serve(PART, publications.part_here)
    serve(QUEUE, delivery.serve, draws=True)
    serve(MOVES, moves.list_here)
    serve(TOPIC_PLACES, log_queries.survey.places_here)
    serve(QUEUE_PLACES, survey.places_here)
    serve(LOOK, log_queries.looks.look_here)

    serve(GROUP, lag.group_here)
    serve(GROUPS, lag.groups_here)
    serve(ENDS, lag.ends_here)
    serve(TOPIC_READERS, log_queries.survey.readers_here)
    serve(WORK_GROUPS, survey.groups_here)

    serve(TRACE_PLACE, traces.facts.known_here)
    serve(TRACE_COPIES, traces.copies_here)
    serve(SAMPLE, sampler.sample_here)
    serve(EVENTS, events.events_here)
    serve(AUDIT, audit.recent_here)
    serve(PIPELINES, pipeline_reports.reports_here)
    serve(WORKERS, workers.workers_here)
