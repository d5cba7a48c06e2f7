"""The trace of one message, requested from any node by any protocol.

    AskTrace   a message's id, or its place   → TraceInfo

All of it is also answered as JSON, as it stands here. A text is a text; bytes that are none are
`{"base64": "…"}`.
"""

import msgspec

from penstock.wire.requests import Answer, Request


class AskTrace(Request, frozen=True, tag="trace"):
    """Requests the trace of a message; `message` is its id, or topic:partition:offset."""

    message: str
    within: tuple[str, ...] = ()
    """The topics to search; all if empty."""


class Encoded(msgspec.Struct, frozen=True):
    """Binary data, as base64."""

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
    """The place of a message in the replicated log."""

    shard: int
    index: int
    term: int
    time_ms: int
    """The time at which the leader of that term appended it; -1 if the entry was removed."""
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
    """The index of the entry that did it; 0 if it was only the passing of time."""
    copy: Place | None = None
    """The place it was moved to, if it was."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a message in a work group."""

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
    """The offset of the next message to read."""
    time_ms: int
    """The time of that commit."""
    passed_ms: int | None = None
    """The time when it first committed an offset after the message; None if it has not, or if that
    is forgotten."""
    member: str = ""
    """The member that committed it."""


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """The dead-letter headers of a message."""

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
    """True if it can still be read."""
    timestamp_ms: int | None = None
    key: Text = None
    body: Text = None
    """The body; only its beginning if it is long."""
    body_bytes: int = 0
    headers: dict[str, Text] = {}
    trace: str = ""
    """The trace it belongs to, of the header traceparent."""
    came_from: Place | None = None
    """The place it was moved from, if it was."""
    died: Death | None = None
    written: Written | None = None
    states: tuple[State, ...] = ()
    happenings: tuple[Happening, ...] = ()
    readers: tuple[Reader, ...] = ()
    is_complete: bool = False
    """The delivery history reaches back to when the message was written."""
    since_ms: int | None = None
    """If it is not complete: the time to which it reaches back."""


class TraceInfo(Answer, frozen=True, tag="trace"):
    """The places of a message, from the first; empty if it was not found."""

    message: str
    sightings: tuple[Sighting, ...]
    gave_up: bool = False
    """True if there was more than could be searched: say where to look."""
