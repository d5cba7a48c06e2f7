"""What is known of one message: asked of any node, by any protocol.

    AskTrace   a message's id, or its place   → TraceInfo

All of it is also answered as JSON, as it stands here. A text is a text; bytes that are none are
`{"base64": "…"}`.
"""

import msgspec

from penstock.wire.requests import Answer, Request


class AskTrace(Request, frozen=True, tag="trace"):
    """What is known of a message? `message` is its id, or topic:partition:offset."""

    message: str
    within: tuple[str, ...] = ()
    """Look here and nowhere else."""


class Encoded(msgspec.Struct, frozen=True):
    """Bytes that are no text."""

    base64: bytes


Text = str | Encoded | None


class Place(msgspec.Struct, frozen=True, order=True):
    """A place in a topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic} {self.partition}:{self.offset}"


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message stands in the replicated log."""

    shard: int
    index: int
    term: int
    time_ms: int
    """When the leader of that term put it there; -1 if the entry is not there any more."""
    leader: int
    """The leader of the shard now; 0 if there is none."""
    nodes: tuple[int, ...]
    """The nodes that are known to hold it now."""


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done to a message, or that happened to it."""

    time_ms: int
    what: str
    """See `engine.inspection.traces`."""
    group: str
    receiver: str = ""
    """The receiver, or the one that acted; empty if that is not known."""
    deliveries: int | None = None
    until_ms: int | None = None
    detail: str = ""
    index: int = 0
    """Of the entry that did it; 0 if time alone did."""
    copy: Place | None = None
    """Where it went, if it was moved."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is with a work group."""

    group: str
    state: str
    """ready, leased, delayed, dead; or over: done, expired, dropped, or moved away."""
    deliveries: int | None = None
    until_ms: int | None = None
    reason: str = ""


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group that reads the topic by offsets."""

    group: str
    committed: int
    """The next offset it wants."""
    time_ms: int
    """When it committed that."""
    passed_ms: int | None = None
    """When it first committed one behind the message; None if it has not, or it is forgotten."""
    member: str = ""
    """The member that did."""


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """What a dead letter says of itself."""

    place: Place
    group: str
    reason: str
    deliveries: int | None
    time_ms: int | None


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A message at one place."""

    place: Place
    id: str
    is_queue: bool
    is_there: bool
    """It can still be read."""
    timestamp_ms: int | None = None
    key: Text = None
    body: Text = None
    """Its beginning, if it is long."""
    body_bytes: int = 0
    headers: dict[str, Text] = {}
    trace: str = ""
    """The trace it belongs to, of the header traceparent."""
    came_from: Place | None = None
    """Where it was moved from, if it was."""
    died: Death | None = None
    written: Written | None = None
    states: tuple[State, ...] = ()
    happenings: tuple[Happening, ...] = ()
    readers: tuple[Reader, ...] = ()
    is_complete: bool = False
    """The delivery history reaches back to when the message was written."""
    since_ms: int | None = None
    """Otherwise: to here."""


class TraceInfo(Answer, frozen=True, tag="trace"):
    """Where it was found, where it was sent to first; nothing: it was not found."""

    message: str
    sightings: tuple[Sighting, ...]
    gave_up: bool = False
    """There was more than could be searched: say where to look."""
