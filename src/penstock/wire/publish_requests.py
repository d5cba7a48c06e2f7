"""What a native client may ask about publishing, and what it is answered.

    Stage          a record batch for a partition, unseen    → StagedAt    payload: the batch
    Publish        staged messages, once for each batch      → Published   asked of any node
    AskPublished   the last batch of an application          → LastPublished   asked of any node

A batch is staged with the node that leads the partition it is meant for.
"""

from typing import Final

import msgspec

from penstock.wire.requests import Answer, Request

NOTHING_PUBLISHED: Final = -1
"""Of an application that has not published anything, or not for a month."""


class Stage(Request, frozen=True, tag="stage"):
    """Keep the payload, one record batch, for this partition, invisible to readers."""

    topic_id: bytes
    index: int


class StagedAt(Answer, frozen=True, tag="stage"):
    """Where it waits, and for which partition of the cluster."""

    partition: int
    staging: int
    first: int
    end: int


class StagedPart(msgspec.Struct, frozen=True, array_like=True):
    """What one partition is to get, in this order."""

    topic_id: bytes
    partition: int
    """Its number in the cluster, as `StagedAt` says: not its index in the topic."""
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
    """What has an application published last?"""

    application: str


class LastPublished(Answer, frozen=True, tag="published"):
    """The number of the batch, or `NOTHING_PUBLISHED`."""

    batch: int
