"""Acknowledgements and silences: alerts that fire and are not announced.

    acknowledge    one alert, until it is over, gets worse, or the time is up
    silence        whatever a rule and a pattern match, until the time is up

Both end by themselves, after 30 days at the latest. They are records of the internal topic
`__silences`, so that every node knows them and a restart forgets none; the last record of an id
counts. Each node reads what is new with each of its surveys. A silenced alert is still watched and
listed; it is left out of notifications, event lines, headlines and exit codes.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from penstock.core.alert_levels import Level
from penstock.core.decoders import UNREADABLE, decode_json
from penstock.core.errors import InvalidRequest, PenstockError, TopicExists, UnknownAlert
from penstock.core.internal_topics import SILENCES_TOPIC
from penstock.core.limits import SILENCE_CHARACTERS_MAX, SILENCE_MS_MAX, SILENCES_MAX
from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.types import Offset, TopicId
from penstock.engine.cluster.node import Node
from penstock.watch.alert import Alert

CONFIGS = {"retention.ms": str(SILENCE_MS_MAX + 86_400_000)}
WAIT_SECONDS = 2.0
"""A survey waits no longer for the leader of the topic."""
_BATCH = 1_000
_VALUE_BYTES = 16 * SILENCE_CHARACTERS_MAX


class AlertSilence(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledgement or a silence."""

    id: str
    kind: Literal["ack", "silence"]
    rule: str = ""
    """Of a silence: the rule; empty: all."""
    subject: str = "*"
    """Of a silence: a pattern, such as `shop-*`, for the name of a queue, group, topic or node."""
    key: str = ""
    """Of an acknowledgement: the alert."""
    level: Level = Level.CRITICAL
    """Of an acknowledgement: the level of the alert then; a worse one is announced."""
    who: str = ""
    comment: str = ""
    at_ms: int
    until_ms: int
    ended: bool = False

    def covers(self, alert: Alert) -> bool:
        """Whether the alert is not to be announced."""
        if self.kind == "ack":
            return alert.key == self.key and alert.level.rank <= self.level.rank
        subject = alert.subject
        names = {subject.text, subject.queue, subject.group, subject.topic} - {""}
        return self.rule in ("", alert.rule) and any(
            fnmatchcase(name, self.subject) for name in names
        )


class Silences:
    """The silences, as one node's watch knows them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clock = node.engine.topics.clock
        self._known: dict[str, AlertSilence] = {}
        self._topic: TopicId | None = None
        self._next = Offset(0)

    def current(self) -> tuple[AlertSilence, ...]:
        """The silences in force, the latest first."""
        now_ms = self._clock.wall_ms()
        some = [one for one in self._known.values() if one.until_ms > now_ms and not one.ended]
        return tuple(sorted(some, key=lambda one: (-one.at_ms, one.id)))

    def of(self, alert: Alert) -> AlertSilence | None:
        """Why an alert is not announced; None if it is."""
        return next((one for one in self.current() if one.covers(alert)), None)

    def audible(self, alerts: Iterable[Alert]) -> list[Alert]:
        """The alerts that no silence covers."""
        current = self.current()
        return [one for one in alerts if not any(silence.covers(one) for silence in current)]

    async def add(
        self,
        kind: Literal["ack", "silence"],
        *,
        for_ms: int,
        rule: str = "",
        subject: str = "*",
        alert: Alert | None = None,
        who: str,
        comment: str = "",
    ) -> AlertSilence:
        """Begin one; it is known everywhere with the next surveys."""
        if not 0 < for_ms <= SILENCE_MS_MAX:
            raise InvalidRequest("it lasts for up to 30 days, such as 30m, 2h or 7d")
        for text in (rule, subject, who, comment):
            if len(text) > SILENCE_CHARACTERS_MAX:
                raise InvalidRequest(f"a text has at most {SILENCE_CHARACTERS_MAX} characters")
        await self.read()
        if len(self.current()) >= SILENCES_MAX:
            raise InvalidRequest(f"{SILENCES_MAX} silences are in force already; end some first")
        now_ms = self._clock.wall_ms()
        one = AlertSilence(
            id=secrets.token_hex(4),
            kind=kind,
            rule=rule,
            subject=subject,
            key="" if alert is None else alert.key,
            level=Level.CRITICAL if alert is None else alert.level,
            who=who,
            comment=comment,
            at_ms=now_ms,
            until_ms=now_ms + for_ms,
        )
        await self._write(one)
        return one

    async def end(self, name: str) -> AlertSilence:
        """End an acknowledgement or a silence early."""
        with contextlib.suppress(PenstockError):
            await self.read()
        found = next((one for one in self.current() if one.id == name), None)
        if found is None:
            raise UnknownAlert(f"no silence {name[:60]} is in force; see: penstock alert silences")
        await self._write(msgspec.structs.replace(found, ended=True))
        return found

    async def end_acks(self, keys: Iterable[str]) -> None:
        """End the acknowledgements of alerts that are over."""
        over = set(keys)
        for one in self.current():
            if one.kind == "ack" and one.key in over:
                with contextlib.suppress(PenstockError, TimeoutError):
                    async with asyncio.timeout(WAIT_SECONDS):
                        await self._write(msgspec.structs.replace(one, ended=True))

    async def read(self) -> None:
        """Take in what is new in the topic."""
        topic = self._node.engine.topics.catalog.topic(SILENCES_TOPIC)
        if topic is None:
            return
        if topic.topic_id != self._topic:
            self._topic, self._next = topic.topic_id, Offset(0)
        while not await self._step(topic):
            pass
        now_ms = self._clock.wall_ms()
        live = [one for one in self._known.values() if one.until_ms > now_ms and not one.ended]
        live.sort(key=lambda one: one.at_ms)
        self._known = {one.id: one for one in live[-SILENCES_MAX:]}

    async def _step(self, topic: Topic) -> bool:
        """Take in the next records; whether there are no more."""
        async with asyncio.timeout(WAIT_SECONDS):
            seen = await self._node.log_queries.looks.look(
                topic, {0: self._next}, messages_max=_BATCH, value_bytes=_VALUE_BYTES
            )
        part = seen.parts[0]
        for one in part.messages:
            with contextlib.suppress(*UNREADABLE):
                found = decode_json(one.message.value or b"", AlertSilence)
                self._known[found.id] = found
        progressed = part.next > self._next
        self._next = part.next
        return part.is_over or not progressed

    async def _write(self, one: AlertSilence) -> None:
        message = NewMessage(msgspec.json.encode(one), one.id.encode())
        await self._node.delivery.send(await self._made(), [message], index=0)
        self._known[one.id] = one

    async def _made(self) -> Topic:
        topics = self._node.engine.topics
        topic = topics.catalog.topic(SILENCES_TOPIC)
        if topic is None:
            try:
                return await topics.create_topic(SILENCES_TOPIC, 1, CONFIGS, internal=True)
            except TopicExists:  # Another node was quicker.
                return topics.topic(SILENCES_TOPIC)
        return topic
