"""Staging and publishing, for native clients.

A batch is staged with the node that leads its partition; published is at any node.
"""

from penstock.core.errors import InvalidRequest
from penstock.core.types import Offset, PartitionId, TopicId
from penstock.engine.topics.publications import PublishRequest
from penstock.machines.publication_commands import PublishedPart
from penstock.native.context import Context, Handlers, Reply
from penstock.wire.publish_requests import (
    AskPublished,
    LastPublished,
    Publish,
    Published,
    Stage,
    StagedAt,
    StagedPart,
)


async def answer_stage(context: Context, request: Stage, payload: memoryview) -> Reply:
    """Keep a batch unseen."""
    topic = context.topic(request.topic_id)
    staged = await context.engine.publications.staging.stage(topic, request.index, payload)
    return StagedAt(*staged), b""


async def answer_publish(context: Context, request: Publish, _payload: memoryview) -> Reply:
    """Let staged messages be there."""
    asked = PublishRequest(
        application=request.application,
        batch=request.batch,
        owner=request.owner,
        parts=tuple(_part(context, part) for part in request.parts),
    )
    outcome = await context.engine.publications.publish(asked)
    return Published(outcome.is_new), b""


async def answer_published(context: Context, request: AskPublished, _payload: memoryview) -> Reply:
    """The last batch of an application."""
    return LastPublished(await context.engine.publications.last(request.application)), b""


def _part(context: Context, part: StagedPart) -> PublishedPart:
    partition, staging = PartitionId(part.partition), PartitionId(part.staging)
    if context.engine.topics.shard_of(staging) != context.engine.topics.shard_of(partition):
        raise InvalidRequest(
            f"what is staged for partition {partition} cannot be in partition {staging}; pass"
            " the staged messages unchanged"
        )
    ranges = tuple((Offset(first), Offset(end)) for first, end in part.ranges)
    return PublishedPart(TopicId(part.topic_id), partition, staging, ranges)


PUBLISH_HANDLERS: Handlers = {
    AskPublished: answer_published,
    Publish: answer_publish,
    Stage: answer_stage,
}
