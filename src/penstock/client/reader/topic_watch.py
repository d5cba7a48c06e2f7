"""The topics that a subscription reads, and their current numbers of partitions.

Topics are given by name, and then they may not exist yet; or by a pattern, which the whole name of
a topic must match. Either way what there is changes: topics appear, grow, and are made anew under
the same name, with another id.

Any node is asked, and one that has just begun may not know yet what the others know. So a topic is
believed to be gone only when it has been missing for a while, and never to have shrunk.
"""

import asyncio
import re
from collections.abc import Iterable
from typing import NamedTuple

from penstock.client.connection.request_router import RequestRouter
from penstock.core.errors import InvalidRequest, UnknownTopic
from penstock.core.internal_topics import is_internal
from penstock.wire.requests import AskTopic, AskTopics, TopicInfo, TopicRow, TopicRows

FEW_TOPICS = 16
"""Up to this number of topics each is requested by itself; above it, all are listed."""

Topics = str | Iterable[str] | re.Pattern[str]
"""A name, several, or a pattern for whole names."""


class TopicSight(NamedTuple):
    """The id and size of a topic."""

    topic_id: bytes
    partitions: int


class TopicWatch:
    def __init__(self, router: RequestRouter, topics: Topics, *, patience: float) -> None:
        """`patience`: for how many seconds a topic must be missing to be gone."""
        self._router = router
        self._patience = patience
        self._seen: dict[str, tuple[TopicSight, float]] = {}
        """The last known state of each topic, and when it was last seen."""
        self._pattern: re.Pattern[str] | None = None
        self._names: frozenset[str] = frozenset()
        if isinstance(topics, re.Pattern):
            self._pattern = topics
        else:
            self._names = frozenset([topics] if isinstance(topics, str) else topics)
            if not self._names or not all(self._names):
                raise InvalidRequest(f"{topics!r} names no topic to subscribe to")

    @property
    def only_name(self) -> str | None:
        """The topic, if it is a single one that was given by name."""
        return next(iter(self._names)) if len(self._names) == 1 else None

    async def names(self, deadline: float) -> frozenset[str]:
        """Return the topics to read. Names that were given are included even if there is no such
        topic."""
        return self._names if self._pattern is None else frozenset(await self._match(deadline))

    async def look(self, deadline: float) -> dict[str, TopicSight]:
        """The watched topics that exist."""
        if self._pattern is None:
            return await self.look_at(self._names, deadline)
        return await self._match(deadline)

    async def look_at(self, names: Iterable[str], deadline: float) -> dict[str, TopicSight]:
        """The topics of these that exist, as they are now."""
        names = sorted(names)
        if len(names) > FEW_TOPICS:
            wanted = set(names)
            rows = (row for row in await self._rows(deadline) if row.name in wanted)
            found = {row.name: TopicSight(row.topic_id, row.partitions) for row in rows}
            return self._believe(found, wanted)
        found = {}
        for name in names:
            try:
                info = await self._router.ask(AskTopic(name), TopicInfo, deadline=deadline)
            except UnknownTopic:
                self._router.metadata.forget(name)
                continue
            self._router.metadata.note(info)
            found[name] = TopicSight(info.topic_id, len(info.leaders))
        return self._believe(found, set(names))

    async def _match(self, deadline: float) -> dict[str, TopicSight]:
        assert self._pattern is not None
        rows = (
            row
            for row in await self._rows(deadline)
            if self._pattern.fullmatch(row.name) and not is_internal(row.name)
        )
        found = {row.name: TopicSight(row.topic_id, row.partitions) for row in rows}
        return self._believe(found, {name for name in self._seen if self._pattern.fullmatch(name)})

    async def _rows(self, deadline: float) -> tuple[TopicRow, ...]:
        return (await self._router.ask(AskTopics(), TopicRows, deadline=deadline)).rows

    def _believe(self, found: dict[str, TopicSight], names: set[str]) -> dict[str, TopicSight]:
        """Combine an answer about topics with what was known of them before."""
        now = asyncio.get_running_loop().time()
        for name, sight in found.items():
            known = self._seen.get(name)
            if known is not None and known[0].topic_id == sight.topic_id:
                found[name] = max(known[0], sight)
            self._seen[name] = found[name], now
        for name in names - found.keys():
            if name in self._seen:
                sight, last = self._seen[name]
                if now - last < self._patience:
                    found[name] = sight
                else:
                    del self._seen[name]
        return found
