"""Staging and publishing, for native clients.

A batch is staged with the node that leads its partition; published is at any node.
"""

from penstock.core.errors import UnknownPartition
from penstock.core.types import Offset, PartitionId
from penstock.engine.engine import partition_of
from penstock.engine.publications import PublishRequest
from penstock.machines.publication_commands import PublishedPart
from penstock.native.handling import Desk, Handlers, Reply
from penstock.wire.publish_requests import (
    AskPublished,
    LastPublished,
    Publish,
    Published,
    Stage,
    StagedAt,
    StagedPart,
)


async def answer_stage(desk: Desk, request: Stage, payload: memoryview) -> Reply:
    """Keep a batch unseen."""
    topic = desk.topic(request.topic_id)
    staged = await desk.engine.publications.staging.stage(topic, request.index, payload)
    return StagedAt(staged.staging, staged.first, staged.end), b""


async def answer_publish(desk: Desk, request: Publish, _payload: memoryview) -> Reply:
    """Let staged messages be there."""
    asked = PublishRequest(
        application=request.application,
        batch=request.batch,
        owner=request.owner,
        parts=tuple(_part(desk, part) for part in request.parts),
    )
    outcome = await desk.engine.publications.publish(asked)
    return Published(outcome.is_new), b""


async def answer_published(desk: Desk, request: AskPublished, _payload: memoryview) -> Reply:
    """The last batch of an application."""
    return LastPublished(await desk.engine.publications.last(request.application)), b""


def _part(desk: Desk, part: StagedPart) -> PublishedPart:
    topic = desk.topic(part.topic_id)
    partition = partition_of(topic, part.index)
    engine = desk.engine
    staging = PartitionId(part.staging)
    if engine.shard_of(staging) != engine.shard_of(partition):
        raise UnknownPartition(
            f"what is staged for partition {part.index} of {topic.name} cannot be in partition"
            f" {staging}"
        )
    ranges = tuple((Offset(first), Offset(end)) for first, end in part.ranges)
    return PublishedPart(topic.topic_id, partition, staging, ranges)


PUBLISH_HANDLERS: Handlers = {
    AskPublished: answer_published,
    Publish: answer_publish,
    Stage: answer_stage,
}
