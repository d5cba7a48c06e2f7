"""The group that a stream's progress is committed to: the part of a query's progress that names it.

A source runs in a process of its own, and the listener that sees its progress (`progress`) in
another. All that passes between them is the progress itself: offsets, as JSON. Beside the topics
stands one entry more in the latest offset, under a name that no topic can have:

    {"orders": {"0": 200}, ":penstock": {"url": "penstock://…", "kind": "queue", "group": "queue"}}

It is in the progress only and not in the checkpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

IDENTITY: Final = ":penstock"
QUEUE: Final = "queue"
TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a source whose progress is committed."""

    url: str
    kind: str
    group: str


def tell_queue(url: str, group: str) -> dict[str, Any]:
    """A queue's stream: its work group acks what is done."""
    return _entry(Identity(url, QUEUE, group))


def tell_topics(url: str, group: str) -> dict[str, Any]:
    """A topic's stream with a group id: the consumer group commits its progress."""
    return _entry(Identity(url, TOPIC, group))


def find_identity(latest: Mapping[str, Any]) -> Identity | None:
    """The group to commit to; None of a source without one, or that is not ours."""
    said = latest.get(IDENTITY)
    if not isinstance(said, dict):
        return None
    url, kind, group = (said.get(name) for name in ("url", "kind", "group"))
    if not (isinstance(url, str) and isinstance(kind, str) and isinstance(group, str)):
        return None
    return Identity(url, kind, group)


def _entry(one: Identity) -> dict[str, Any]:
    return {IDENTITY: {"url": one.url, "kind": one.kind, "group": one.group}}
