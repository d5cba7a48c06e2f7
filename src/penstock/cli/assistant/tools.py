"""The tools that an assistant can call: one method for each, with one document as its answer.

The docstring of a tool is what the assistant reads about it. Answers are bounded: a list ends after
so many lines and a body after so many characters, because an assistant reads every word.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from penstock.cli.address_flags import BrokerAddress, forget_addresses
from penstock.cli.assistant.diagnosis import diagnose
from penstock.core.decoders import decode_json
from penstock.core.delivery_headers import DEAD_REASON
from penstock.core.errors import InvalidRequest, LocalError, Unavailable
from penstock.core.limits import KIB
from penstock.watch.readings import Readings
from penstock.web.queue_lines import QueueDetail, QueueLine

T = TypeVar("T")
Document = dict[str, Any]
State = Literal["ready", "leased", "delayed", "dead"]
AlertState = Literal["firing", "pending", "resolved"]

QUEUES_MAX = 200
MESSAGES_MAX = 50
LETTERS_MAX = 500
"""Dead letters that are counted by reason."""
TEXT_CHARACTERS_MAX = 2 * KIB
"""The length of a body, a key or a header that an assistant is shown."""


class _Queues(msgspec.Struct):
    queues: list[QueueLine]
    next: str | None


class BrokerTools:
    """The tools of one broker or cluster."""

    def __init__(self, broker: BrokerAddress) -> None:
        self._broker = broker

    def looks(self) -> Sequence[Callable[..., Document]]:
        """The tools that change nothing."""
        return (
            self.list_queues,
            self.describe_queue,
            self.peek_messages,
            self.trace_message,
            self.list_alerts,
            self.list_dead_letters,
            self.explain_queue,
            self.propose_redrive,
        )

    def changes(self) -> Sequence[Callable[..., Document]]:
        """The tools that change something."""
        return (self.redrive, self.stop_redrive, self.pause_queue, self.resume_queue)

    # Looking.

    def list_queues(self, prefix: str = "") -> Document:
        """List the queues with their work groups and how many messages are ready, leased, delayed
        and dead. `prefix`: only names that begin so."""
        query = urlencode({"prefix": prefix, "limit": QUEUES_MAX})
        found = self._read("GET", f"/v1/queues?{query}", _Queues)
        return {
            "queues": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "paused": one.paused,
                    "dead_letter_queue": one.dead_letter_topic,
                    "groups": [
                        {
                            "group": group.group,
                            "ready": group.ready,
                            "leased": group.leased,
                            "delayed": group.delayed,
                            "dead": group.dead,
                            "oldest_age_ms": group.oldest_age_ms,
                        }
                        for group in one.groups
                    ],
                }
                for one in found.queues
            ],
            "there_are_more": found.next is not None,
        }

    def describe_queue(self, queue: str) -> Document:
        """Describe a queue: settings, counts of each work group since it was opened, settings of
        groups, redrives out of it."""
        return self._ask("GET", f"{_path(queue)}")

    def peek_messages(
        self,
        queue: str,
        state: State | None = None,
        body_contains: str = "",
        key_contains: str = "",
        limit: int = 10,
        start: str = "0:0",
    ) -> Document:
        """Look at messages of a queue without leasing them, the oldest first. `start` is where to
        begin, PARTITION:OFFSET: `next` of the answer before. At most 50 at once; long bodies are
        cut."""
        if not 1 <= limit <= MESSAGES_MAX:
            raise InvalidRequest(f"limit must be from 1 to {MESSAGES_MAX}")
        asked = {"state": state or "", "body": body_contains, "key": key_contains}
        query = {name: value for name, value in asked.items() if value}
        query |= {"limit": str(limit), "from": start}
        return self._look(f"{_path(queue)}/messages?{urlencode(query)}")

    def trace_message(self, message: str, queue: str = "") -> Document:
        """Tell what became of one message: where it is, who received it and when, how it ended, and
        where it was moved. `message` is its id, or its place as QUEUE:PARTITION:OFFSET. `queue`:
        look for an id here and nowhere else."""
        query = f"?{urlencode({'in': queue})}" if queue else ""
        return self._look(f"/v1/trace/{quote(message)}{query}")

    def list_alerts(self, state: AlertState | None = None) -> Document:
        """List alerts that fire or are pending, each with the first thing to do; or those that are
        resolved."""
        query = f"?state={state}" if state else ""
        found = self._ask("GET", f"/v1/alerts{query}")
        return {"alerts": found["resolved"] if state == "resolved" else found["alerts"]}

    def list_dead_letters(self, queue: str, limit: int = 10) -> Document:
        """Count the dead letters of a queue by reason, and show some of them. Looked at are its
        dead-letter queue and the messages that died and stayed; for a dead-letter queue itself, all
        of its messages."""
        if not 1 <= limit <= MESSAGES_MAX:
            raise InvalidRequest(f"limit must be from 1 to {MESSAGES_MAX}")
        detail = self._read("GET", _path(queue), QueueDetail)
        places = [(queue, {"state": "dead"})]
        if detail.dead_letter_topic:
            places.append((detail.dead_letter_topic, {"topic": queue}))
        else:
            places.append((queue, {"state": "ready,leased,delayed", "header": DEAD_REASON}))
        letters: list[Document] = []
        for name, conditions in places:
            query = urlencode({**conditions, "limit": LETTERS_MAX})
            found = self._ask("GET", f"{_path(name)}/messages?{query}")
            letters += [{"queue": name, **one} for one in found["messages"]]
        reasons = Counter(_reason(one) for one in letters)
        return {
            "dead_letter_queue": detail.dead_letter_topic,
            "seen": len(letters),
            "seen_at_most": LETTERS_MAX,
            "reasons": dict(reasons.most_common(20)),
            "messages": [_cut(one) for one in letters[:limit]],
        }

    def explain_queue(self, queue: str, group: str = "") -> Document:
        """Explain why messages of a queue are not processed: paused, no workers, failing workers,
        leases that are held, delays, message groups that are blocked, a cluster without a leader.
        Each finding has its evidence and what to do. `group`: a work group; by default the one with
        most to do."""
        detail = self._read("GET", _path(queue), QueueDetail)
        readings = self._read("GET", "/v1/readings", Readings)
        return diagnose(detail, readings, group)

    def propose_redrive(
        self, dead_letter_queue: str, to: str = "", reason: str = "", rate: int | None = None
    ) -> Document:
        """Count the messages that a redrive would move out of a dead-letter queue, and write the
        command for it; nothing is moved. `to`: a queue to move all of them to; by default each goes
        back to where it died. `reason`: only messages with this in the reason why they died."""
        body = _redrive(to, reason, rate) | {"dry_run": True}
        matching = self._ask("POST", f"{_path(dead_letter_queue)}/redrive", body)["matching"]
        words = ["penstock", "redrive", dead_letter_queue]
        for flag, value in (("--to", to), ("--reason", reason), ("--rate", rate)):
            words += [flag, str(value)] if value else []
        return {
            "matching": matching,
            "goes_to": to or "where each message died",
            "command": " ".join(map(shlex.quote, words)),
            "advice": "Repair the cause first, or the messages come back; a rate spares the"
            " workers.",
        }

    # Changing.

    def redrive(
        self, dead_letter_queue: str, to: str = "", reason: str = "", rate: int | None = None
    ) -> Document:
        """Move messages out of a dead-letter queue, as propose_redrive has it; `rate` is messages
        each second. The cluster moves them; the answer has the id of the move."""
        body = _redrive(to, reason, rate)
        return self._ask("POST", f"{_path(dead_letter_queue)}/redrive", body)

    def stop_redrive(self, dead_letter_queue: str, move: str) -> Document:
        """Cancel a redrive by its id; messages already moved stay moved."""
        return self._ask("DELETE", f"{_path(dead_letter_queue)}/moves/{quote(move, safe='')}")

    def pause_queue(self, queue: str) -> Document:
        """Pause delivery of a queue until it is resumed; messages can still be sent."""
        return _switched(self._ask("POST", f"{_path(queue)}/pause"))

    def resume_queue(self, queue: str) -> Document:
        """Deliver again from a queue that was paused."""
        return _switched(self._ask("POST", f"{_path(queue)}/resume"))

    # Requests.

    def _look(self, path: str) -> Document:
        """The answer with long texts cut."""
        return {name: _cut(one) for name, one in self._ask("GET", path).items()}

    def _ask(self, method: str, path: str, body: object = None) -> Document:
        return self._read(method, path, Document, body)

    def _read(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        try:
            answer = self._broker.ask(method, path, body)
        except Unavailable:
            # The node that was found first may be gone; another one may serve. A change is not
            # repeated: it may have been done.
            forget_addresses()
            if method != "GET":
                raise
            answer = self._broker.ask(method, path, body)
        try:
            return decode_json(answer, kind)
        except msgspec.DecodeError as error:
            raise LocalError(f"the broker is of another version: {error}") from error


def _path(queue: str) -> str:
    return f"/v1/queues/{quote(queue, safe='')}"


def _redrive(to: str, reason: str, rate: int | None) -> Document:
    body: Document = {"filter": {"reason": reason}}
    if to:
        body["to"] = to
    if rate is not None:
        body["rate"] = rate
    return body


def _switched(answer: Mapping[str, Any]) -> Document:
    return {"queue": answer["name"], "paused": answer["settings"]["paused"]}


def _reason(message: Mapping[str, Any]) -> str:
    return str(message["reason"] or message["headers"].get(DEAD_REASON, "")) or "no reason given"


def _cut(value: Any) -> Any:
    """Return a copy of the value in which long texts are cut, at every level."""
    match value:
        case str() if len(value) > TEXT_CHARACTERS_MAX:
            return f"{value[:TEXT_CHARACTERS_MAX]}… ({len(value)} characters)"
        case dict():
            return {name: _cut(one) for name, one in value.items()}
        case list():
            return [_cut(one) for one in value]
    return value
