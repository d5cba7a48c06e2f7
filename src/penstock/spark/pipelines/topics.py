"""Topics that a pipeline needs: those it reads must be there, those it writes are made.

Looked at before Spark is started, which takes seconds: a mistyped name is reported at once.
"""

from penstock.client.client import Client
from penstock.core.errors import UnknownTopic
from penstock.core.pipeline_report import CONFIGS, TOPIC
from penstock.spark.pipelines.declaration import Declaration

DEAD_LETTER_CONFIGS = {
    "queue.message.headers": "true",
    "queue.delete.acked": "true",
    "retention.ms": str(14 * 24 * 60 * 60 * 1_000),
}
"""The configs with which a broker creates a dead-letter queue."""


async def prepare_topics(client: Client, declaration: Declaration) -> list[str]:
    """Create the missing topics; return their names."""
    there = {one.name for one in await client.topics()}
    for stage in declaration.stages:
        name = declaration.input_of(stage)
        if stage.source.stage is None and name not in there:
            written = {one.to.topic or one.to.queue for one in declaration.stages}
            if name not in written:
                raise UnknownTopic(
                    f"stage {stage.name} reads {name}, and there is no such topic; make it with"
                    f" `penstock topic create {name}`, or correct the pipeline"
                )
    made: list[str] = []

    async def make(name: str, *, partitions: int, configs: dict[str, str]) -> None:
        if name not in there and name not in made:
            await client.create_topic(name, partitions=partitions, configs=configs, exist_ok=True)
            made.append(name)

    await make(TOPIC, partitions=1, configs=CONFIGS)
    for stage in declaration.stages:
        if stage.to.topic is not None:
            await make(stage.to.topic, partitions=declaration.partitions, configs={})
        elif stage.to.queue is not None and stage.to.queue not in there:
            await client.create_queue(
                stage.to.queue, partitions=declaration.partitions, exist_ok=True
            )
            made.append(stage.to.queue)
        await make(stage.dead_letters, partitions=1, configs=dict(DEAD_LETTER_CONFIGS))
    return [name for name in made if name != TOPIC]
