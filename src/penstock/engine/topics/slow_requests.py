"""The log of slow requests: a line for each, with the most likely cause.

    slow request: kafka Produce of 127.0.0.1:53114 took 1240 ms; a sync of the log of shard 2 took
    1180 ms of it

A request does not carry a watch through the engine. The shards remember their last long syncs and
commits (`core.spans`), and those that fell into the time of the request explain it. Time that a
client asked to wait for messages is no part of it. Only a few lines are written in a second; how
many were left out is in the next one.
"""

import logging
from typing import Final

from penstock.core.clock import Clock
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.loop_watchdog import Stall

LINES_PER_SECOND_MAX: Final = 5
SLOW_MS: Final = 1_000
WAITS_FOR_MEMBERS: Final = frozenset({"JoinGroup", "SyncGroup"})
"""Requests that last until the other members of a consumer group have sent theirs."""
_CULPRIT_SHARE: Final = 0.4
"""The share of a request's time above which an operation counts as its cause."""

logger = logging.getLogger("penstock.slow")


class SlowRequests:
    """The slow requests of one node, of all protocols."""

    def __init__(self, shards: LocalShards, clock: Clock) -> None:
        self.seconds = SLOW_MS / 1_000
        """The threshold; infinity turns the log off."""
        self.count = 0
        self.stalls = 0
        self._shards = shards
        self._clock = clock
        self._second = 0
        self._lines = 0
        self._unsaid = 0

    def note(
        self, protocol: str, api: str, client: str, *, began: float, ended: float, waited: float = 0
    ) -> None:
        """A request was answered; `waited` is for how long its client wanted to wait. Times are of
        `core.clock.precise_seconds`."""
        took = ended - began - waited
        if took < self.seconds or api.partition(" ")[0] in WAITS_FOR_MEMBERS:
            return
        self.count += 1
        if not self._may_say():
            return
        unsaid, self._unsaid = self._unsaid, 0
        # Clients choose names; what they choose must not look like lines of the log.
        plain = "".join(letter if letter.isprintable() else "?" for letter in client[:200])
        logger.warning(
            "slow request: %s %s of %s took %d ms; %s%s",
            protocol,
            api,
            plain or "an unnamed client",
            round(took * 1_000),
            self.explain(began, ended),
            f" ({unsaid} more such lines were left out)" if unsaid else "",
            extra={
                "protocol": protocol,
                "api": api,
                "client": plain,
                "took_ms": round(took * 1_000),
            },
        )

    def note_stall(self, stall: Stall) -> None:
        """Record that one piece of work held the event loop, and with it every request of this
        node."""
        self.stalls += 1
        if self._may_say():
            logger.warning(
                "the event loop was held for %d ms by %s",
                round(stall.seconds * 1_000),
                stall.place or "work that was over before it could be seen",
                extra={"took_ms": round(stall.seconds * 1_000), "place": stall.place},
            )

    def _may_say(self) -> bool:
        second = self._clock.monotonic_ms() // 1_000
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > LINES_PER_SECOND_MAX:
            self._unsaid += 1
        return self._lines <= LINES_PER_SECOND_MAX

    def explain(self, began: float, ended: float) -> str:
        """Return the most likely cause of a slow request."""
        slowest_sync, slowest_commit = (0.0, 0), (0.0, 0)
        for shard in self._shards:
            running = self._shards.get(shard)
            if running is not None:
                replica = running.replica
                sync = replica.log.syncs.longest_within(began, ended)
                commit = replica.commit_times.spans.longest_within(began, ended)
                slowest_sync = max(slowest_sync, (sync, shard))
                slowest_commit = max(slowest_commit, (commit, shard))
        culprit = _CULPRIT_SHARE * (ended - began)
        if slowest_sync[0] >= culprit:
            return (
                f"a sync of the log of shard {slowest_sync[1]} took {slowest_sync[0] * 1_000:.0f}"
                " ms of it"
            )
        if slowest_commit[0] >= culprit:
            return (
                f"a commit in shard {slowest_commit[1]} took {slowest_commit[0] * 1_000:.0f} ms of"
                " it and no disk of this node did: other nodes were slow, or could not be reached"
            )
        return "neither a disk nor a commit was slow: this node had too much to do"
