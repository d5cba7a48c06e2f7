"""Dead letters on a page: where those of a queue lie, what they died of, and what is done to them.

    box       where they lie                            how they are delivered anew
    letters   in the queue's dead-letter queue          moved back, by /redrive of that queue
    own       this is a dead-letter queue: all in it    moved back, by /redrive
    here      they died and stayed in their queue       revived, by /dead/revive

A person narrows down what is meant by conditions, which are in the page's address; the same
conditions go with a redrive. So what is listed is what will be moved, and a count comes first.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
from starlette.requests import Request

from penstock.core.delivery_headers import DEAD_REASON
from penstock.core.message_states import ALL_STATES
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import BrowsedMessage
from penstock.web.dashboard.widgets.filters import segment
from penstock.web.dashboard.widgets.messages import ShownMessage, queue_row
from penstock.web.dashboard.widgets.payloads import plain
from penstock.web.queue_browser import BrowsePage, BrowseWanted, browse
from penstock.web.queue_lines import MoveLine
from penstock.web.queue_moves import Conditions, move_lines

ROWS = 25
LOOKED_AT = 250
"""The number of dead letters that are read to summarise their reasons."""
LOOKS_MAX = 20
REASONS_SHOWN = 6
MOVES_SHOWN = 5
NO_REASON = "No reason was given"
LETTERS, OWN, HERE = "letters", "own", "here"


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """A reason and the number of dead letters that have it."""

    reason: str
    count: int


class LetterBox(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, as a page shows them."""

    box: str
    queue: str
    """The queue that holds them."""
    total: int
    """The number of dead letters in the queue, whether they match or not."""
    rows: list[ShownMessage]
    next: str | None
    reasons: list[Reason]
    """Of those that were looked at."""
    looked_at: int
    is_all: bool
    """True if all matching dead letters were read."""
    conditions: Conditions
    is_narrowed: bool
    """The request has filter conditions."""
    action: str
    """The path to which a redrive is posted."""
    body: dict[str, object]
    """The body of that request."""
    moves: list[MoveLine]


class OneLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The actions on a single dead letter."""

    action: str
    body: dict[str, object]
    discard: str
    discard_method: str
    discard_body: dict[str, object]


async def letter_box(
    node: Node, topic: Topic, group: str, request: Request, *, box: str, total: int
) -> LetterBox:
    """The dead letters of a queue; `topic` is where they lie."""
    asked = request.query_params
    given = Conditions(
        reason=asked.get("reason", "")[:1_000],
        key=asked.get("key", "")[:1_000],
        body=asked.get("text", "")[:1_000],
        header=asked.get("header", "")[:1_000],
        topic=asked.get("died_in", "")[:300] if box == OWN else "",
    )
    meant = given
    if box == LETTERS:
        meant = msgspec.structs.replace(given, topic=request.path_params["name"])
    page = await browse(
        node,
        topic,
        BrowseWanted(
            group=group,
            states=frozenset({"dead"}) if box == HERE else ALL_STATES,
            written=asked.get("from", "0"),
            limit=LOOKED_AT,
            filter=meant.filter(),
            looks_max=LOOKS_MAX,
        ),
    )
    return LetterBox(
        box=box,
        queue=topic.name,
        total=total,
        rows=[queue_row(topic, group, one) for one in page.found[:ROWS]],
        next=_next(page),
        reasons=_reasons(page.found),
        looked_at=len(page.found),
        is_all=page.next is None and not asked.get("from"),
        conditions=given,
        is_narrowed=given != Conditions(),
        action=_action(topic, box),
        body=_body(box, group, meant),
        moves=[] if box == HERE else (await move_lines(node, topic))[:MOVES_SHOWN],
    )


def one_letter(topic: Topic, group: str, letter: ShownMessage, box: str) -> OneLetter:
    """Return the actions on the selected dead letter."""
    only = Conditions(places=((letter.partition, letter.offset),))
    path = f"/v1/queues/{segment(topic.name)}"
    if box == HERE:
        return OneLetter(
            action=_action(topic, box),
            body=_body(box, group, only),
            discard=f"{path}/dead/discard",
            discard_method="POST",
            discard_body=_body(box, group, only),
        )
    return OneLetter(
        action=_action(topic, box),
        body=_body(box, group, only),
        discard=f"{path}/messages/{letter.partition}/{letter.offset}",
        discard_method="DELETE",
        discard_body={},
    )


def _action(topic: Topic, box: str) -> str:
    return f"/v1/queues/{segment(topic.name)}/" + ("dead/revive" if box == HERE else "redrive")


def _body(box: str, group: str, meant: Conditions) -> dict[str, object]:
    """Return the body of a request without the fields that have their defaults, so that it is
    easier to read."""
    nothing: Mapping[str, object] = msgspec.structs.asdict(Conditions())
    said = {
        name: value
        for name, value in msgspec.structs.asdict(meant).items()
        if value != nothing[name]
    }
    body: dict[str, object] = {"filter": said} if said else {}
    if box == HERE and group != DEFAULT_WORK_GROUP:
        body["group"] = group
    return body


def _reasons(found: Sequence[BrowsedMessage]) -> list[Reason]:
    counts = Counter(_reason(one) for one in found)
    return [
        Reason(reason=reason, count=count) for reason, count in counts.most_common(REASONS_SHOWN)
    ]


def _reason(one: BrowsedMessage) -> str:
    said = one.reason.encode() or one.message.header(DEAD_REASON) or b""
    return plain(said.decode("utf-8", "replace")) or NO_REASON


def _next(page: BrowsePage) -> str | None:
    if len(page.found) <= ROWS:
        return page.next
    first = page.found[ROWS]
    return f"{first.index}:{first.message.offset}"
