"""Everything a front-end may ask of a node, by subject.

A front-end translates a protocol into these calls and the outcome back; it decides nothing. A
`Node` builds the parts and hands out this record; no part holds it.
"""

from dataclasses import dataclass

from penstock.engine.delivery.service import DeliveryService
from penstock.engine.groups.groups import Groups
from penstock.engine.inspection.queue_survey import QueueSurvey
from penstock.engine.moves.moves import Moves
from penstock.engine.topics.publications import Publications
from penstock.engine.topics.topics import Topics


@dataclass(frozen=True, slots=True)
class Engine:
    """The parts of one node that serve clients."""

    topics: Topics
    """Topics and their logs."""
    delivery: DeliveryService
    """Messages of queues, by lease."""
    groups: Groups
    """Consumer groups and share groups."""
    moves: Moves
    """Messages on their way from one queue to another, such as redriven dead letters."""
    publications: Publications
    """Staged batches that become visible in all their partitions or in none."""
    survey: QueueSurvey
    """Which work groups exist in the cluster, and how far they are."""
