"""The requests of native clients about publishing, and their answers.

    Stage          a record batch for a partition, unseen    → StagedAt    payload: the batch
    Publish        staged messages, once for each batch      → Published   asked of any node
    AskPublished   the last batch of an application          → LastPublished   asked of any node

A batch is staged with the node that leads the partition it is meant for.
"""

from typing import Final

import msgspec

from penstock.wire.requests import Answer, Request

NOTHING_PUBLISHED: Final = -1
"""The answer for an application that has not published anything, or not for a month."""


class Stage(Request, frozen=True, tag="stage"):
    """Keep the payload, one record batch, for this partition, invisible to readers."""

    topic_id: bytes
    index: int


class StagedAt(Answer, frozen=True, tag="stage"):
    """The place where a batch waits, and the partition it is for."""

    partition: int
    staging: int
    first: int
    end: int


class StagedPart(msgspec.Struct, frozen=True, array_like=True):
    """The staged ranges for one partition, in order."""

    topic_id: bytes
    partition: int
    """The id of the partition in the cluster, as in `StagedAt`; not its index in the topic."""
    staging: int
    ranges: tuple[tuple[int, int], ...]


class Publish(Request, frozen=True, tag="publish"):
    """Let staged messages be there, in all their partitions or in none, if the application has not
    published this batch or a later one."""

    application: str
    batch: int
    owner: str
    parts: tuple[StagedPart, ...]


class Published(Answer, frozen=True, tag="publish"):
    """All partitions have it; whether this request has decided that."""

    is_new: bool


class AskPublished(Request, frozen=True, tag="published"):
    """Requests the last published batch of an application."""

    application: str


class LastPublished(Answer, frozen=True, tag="published"):
    """The number of the batch, or `NOTHING_PUBLISHED`."""

    batch: int
