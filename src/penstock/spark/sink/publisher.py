"""The work of the driver when all tasks of a batch are done: it publishes the staged messages,
once.

The broker publishes a batch of an application once, in all partitions or in none, however often it
is asked (`client.stage`). So a driver that dies before Spark has noted the batch as done, and runs
it again after it was restarted, adds nothing.

A batch that was published before is taken for this one only if it is this one: the last one, of the
same query, from the same plan (`plans`). Spark repeats no other. Anything else means that a
checkpoint was deleted and numbers begin anew under an old name, that it was restored from a backup,
or that two drivers run one query. To call such a batch done would lose it, and to write it would
double it, so the query ends and says why.
"""

import logging
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.client import Client
from penstock.client.staged_message import Publication
from penstock.core.errors import PublicationConflict
from penstock.spark.connections import client_of, run
from penstock.spark.sink.stager import StagedRows

logger = logging.getLogger(__name__)

PUBLISH_SECONDS: Final = 120.0
"""A batch that cannot be published fails its query: a cluster has time to find a leader first."""
TaskMessages: TypeAlias = list[WriterCommitMessage | None]
"""The reports of tasks to the driver; None for those that failed."""


@dataclass
class TaskDone(WriterCommitMessage):
    """The report of a task to the driver."""

    rows: StagedRows | None
    application: str
    query: str = ""
    """The streaming query that the task belongs to, if any."""


def publish_tasks(
    url: str,
    messages: TaskMessages,
    batch: int,
    *,
    plan: str = "",
    even_nothing: bool = False,
) -> Publication | None:
    """Publish what the tasks of a batch staged. `even_nothing`: a batch without a row is noted,
    too, so that no other batch can take its number."""
    done = [message for message in messages if isinstance(message, TaskDone)]
    written = [one.rows for one in done if one.rows is not None]
    if not done or not (written or even_nothing):
        return None
    application, query = done[0].application, done[0].query
    publication = run(
        _publish(client_of(url), application, batch, written, owner=f"{query} {plan}".strip())
    )
    dead = sum(rows.dead for rows in written)
    if not publication.is_new:
        logger.info("batch %d of %s was published before", batch, application)
    elif dead:
        logger.warning("%d rows of batch %d of %s are dead letters", dead, batch, application)
    return publication


async def _publish(
    client: Client, application: str, batch: int, written: list[StagedRows], *, owner: str
) -> Publication:
    staged = [rows.staged for rows in written]
    try:
        publication = await client.publish(
            application, batch, staged, owner=owner, timeout=PUBLISH_SECONDS
        )
    except PublicationConflict as error:
        raise _conflict(application, batch) from error
    if not publication.is_new and (await client.last_published(application) or 0) > batch:
        raise _conflict(application, batch)
    return publication


def _conflict(application: str, batch: int) -> PublicationConflict:
    return PublicationConflict(
        f"batch {batch} of {application} was not written: the application has published another"
        f" batch {batch}, or later ones. If this is a job that was run before, nothing is missing."
        " If it is a query, its checkpoint was deleted or is older than what it has written, or"
        " another driver runs it, too: end that one, go on with the last checkpoint, or give the"
        " query an appId of its own"
    )
