"""The watch of one node: it looks at the whole cluster every few seconds, remembers a week of it,
and says when something is wrong.

Every node keeps such a watch, and all of them look at the same things by the same rules: any node
can show what there is to see, and when one dies the others have not forgotten. Only the node that
leads the catalog tells the world outside (see `webhook`). It sends the alerts that it announces to
the other nodes as well: its successor may have taken no survey while one of them was firing, and
must announce its end all the same.

A survey costs time that messages could have had. It is taken every two seconds, and less often
when it takes longer: at most a hundredth of the time goes into it. When a node is lost or found, or
a shard gets another leader, the next one is taken at once: people should not read that all is well
when this node knows better.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from penstock.core.alert_levels import Level
from penstock.core.decoders import decode_msgpack
from penstock.core.errors import PenstockError
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.types import CATALOG_SHARD, NO_NODE, ShardId
from penstock.engine.cluster.node import Node
from penstock.engine.replica.time_slices import TimeSlices
from penstock.storage import Disk
from penstock.watch.alert import Alert, AlertState, Subject
from penstock.watch.alerts import Alerts, Finding
from penstock.watch.availability import Availability
from penstock.watch.depths import Depths
from penstock.watch.expected_rate import ExpectedRates
from penstock.watch.history import History
from penstock.watch.inspection import inspect, unknown_keys
from penstock.watch.long_history import LongHistory
from penstock.watch.readings import Readings
from penstock.watch.rules import RULES
from penstock.watch.settings import AlertSettings
from penstock.watch.silences import Silences
from penstock.watch.survey import Survey
from penstock.watch.webhook import Notice, Webhook

EVERY_MS = 2_000
SHARE_MAX = 0.01
"""Of the time."""
NOTICE_SECONDS = 0.25
"""How soon a change of the leader is noticed."""
LATE_MS = 15_000
"""Events of so long before this node began to lead the catalog are announced by it: the former
leader may not have been able to."""

ALERTS_NOTICE = "alerts"

logger = logging.getLogger(__name__)


class Watch:
    """One per node."""

    def __init__(
        self,
        node: Node,
        settings: AlertSettings | None = None,
        *,
        disk: Disk | None = None,
        folder: str = "",
    ) -> None:
        """The history of days is kept in the folder of the disk, if they are given."""
        self._node = node
        self._clock = node.engine.topics.clock
        self.settings = settings or AlertSettings()
        self.readings: Readings | None = None
        """The latest; None until the first survey is done."""
        self.history = History()
        self.long_history = LongHistory(self.history, disk, folder)
        self.alerts = Alerts(self.settings)
        self.silences = Silences(node)
        self.availability = Availability()
        self.depths = Depths()
        self.webhook = Webhook(self.settings.webhook)
        self._expected = ExpectedRates()
        self._slices = TimeSlices()
        self._survey = Survey(node, self._expected_rate, self._slices)
        self._spent_seconds = 0.0
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._listeners: list[Callable[[Readings], None]] = []
        self._led = False
        self._announced: dict[str, Level] = {}
        """The alerts that this node or a former leader has announced, and at which level."""
        self._late: list[tuple[int, Alert]] = []
        node.notices[ALERTS_NOTICE] = self._take_announced

    # Life.

    def start(self) -> None:
        """Look, again and again, until `close`."""
        assert self._task is None, "it watches already"
        self.webhook.start()
        self._task = asyncio.create_task(self._run(), name="watch")

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.long_history.close()
        await self.webhook.close()

    def listen(self, listener: Callable[[Readings], None]) -> Callable[[], None]:
        """Call back with all readings from now on; calling the result ends that."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    async def _run(self) -> None:
        await self.long_history.load()
        while True:
            try:
                readings = await self.look()
                pause_ms = readings.every_ms
            except PenstockError as error:
                logger.debug("a survey came to nothing: %s", error)
                pause_ms = EVERY_MS
            except Exception:
                logger.exception("a survey failed; this is a bug of Penstock")
                pause_ms = 10 * EVERY_MS
            await self._pause(pause_ms / 1_000)

    async def _pause(self, seconds: float) -> None:
        """Until it is time for the next survey, or there is news."""
        known = self._leaders()
        while seconds > 0 and self._leaders() == known:
            self._note_availability()
            await asyncio.sleep(min(seconds, NOTICE_SECONDS))
            seconds -= NOTICE_SECONDS

    def _leaders(self) -> tuple[object, ...]:
        """The nodes that are alive and the leaders; empty while the catalog is being opened."""
        engine = self._node.engine
        try:
            leaders = [engine.topics.leader(ShardId(shard)) for shard in engine.topics.shards()]
        except PenstockError:
            return ()
        return frozenset(engine.topics.alive()), leaders

    def _note_availability(self) -> None:
        topics = self._node.engine.topics
        try:
            available = all(
                topics.leader(ShardId(shard)).node != NO_NODE
                and not topics.is_read_only(ShardId(shard))
                for shard in topics.shards()
            )
        except PenstockError:  # The catalog is being opened.
            available = False
        self.availability.note(self._clock.monotonic_ms(), available)

    # Looking.

    async def look(self) -> Readings:
        """Take readings now, remember them, and see whether something is wrong."""
        async with self._looking:
            readings = await self._survey.take()
            self._note_availability()
            self._slices.begin()
            for _ in self.history.steps(readings):
                await self._slices.let_others()
            for values in self.long_history.steps(readings.at_ms):
                if values is None:
                    await self._slices.let_others()
                else:
                    await self.long_history.write(readings.at_ms, values)
            if self.settings.enabled:
                changes = await self._inspect(readings)
                await self._read_silences()
                await self._tell(self._audible(changes))
            if self._node.engine.topics.controller() == self._node.engine.topics.node_id:
                self.depths.observe(readings.queues)
            self._slices.end()
            took_ms = self._took_ms()
            self.readings = readings = msgspec.structs.replace(
                readings,
                took_ms=round(took_ms, 3),
                every_ms=max(EVERY_MS, int(took_ms / SHARE_MAX)),
                availability=self.availability.share(),
            )
            for listener in list(self._listeners):
                listener(readings)
            return readings

    def _took_ms(self) -> float:
        """What was spent since the last survey, on it and on samples for others."""
        spent = self._slices.spent_seconds + self._node.sampler.spent_seconds
        before, self._spent_seconds = self._spent_seconds, spent
        return 1_000 * (spent - before)

    async def _inspect(self, readings: Readings) -> list[Alert]:
        now_ms = self._clock.monotonic_ms()
        slow = {
            (one.subject.queue, one.subject.group)
            for one in self.alerts.active()
            if one.rule == "processing_rate"
        }
        self._expected.learn(readings.queues, self.history, slow, now_ms)
        catalog = self._node.engine.topics.catalog
        findings: list[Finding] = []
        for found in inspect(readings, catalog, self.settings):
            findings += found
            await self._slices.let_others()
        return self.alerts.note(
            findings,
            now_ms=now_ms,
            wall_ms=readings.at_ms,
            unknown=unknown_keys(readings),
            blind=any(shard.leader == NO_NODE for shard in readings.shards),
        )

    def _expected_rate(self, queue: str, group: str) -> float | None:
        """What was asked for, or what is usual."""
        topic = self._node.engine.topics.catalog.topic(queue)
        asked = None if topic is None else topic.settings.alerts.expected_rate
        return asked or self._expected.usual(queue, group)

    # Telling.

    def firing(self) -> list[Alert]:
        """The alerts that fire and are neither acknowledged nor silenced, the worst first."""
        return self.silences.audible(self.alerts.firing())

    async def _read_silences(self) -> None:
        """What cannot be read now stays as it was."""
        with contextlib.suppress(PenstockError, TimeoutError):
            await self.silences.read()

    def _audible(self, changes: list[Alert]) -> list[Alert]:
        """The changes to announce: none of an alert that is silenced, and its firing when that
        ends. An alert is announced as over if it was announced before."""
        over = [one for one in changes if one.state is AlertState.RESOLVED]
        found = [one for one in over if self._announced.pop(one.key, None) is not None]
        for alert in self.firing():
            if self._announced.get(alert.key) is not alert.level:
                self._announced[alert.key] = alert.level
                found.append(alert)
        return found

    async def _tell(self, changes: list[Alert]) -> None:
        """The leader of the catalog speaks for all nodes."""
        leader = self._node.engine.topics.leader(CATALOG_SHARD).node
        now_ms = self._clock.monotonic_ms()
        leads = leader == self._node.engine.topics.node_id
        if leads and not self._led:
            changes = [alert for at_ms, alert in self._late if now_ms - at_ms <= LATE_MS] + changes
        self._led = leads
        if leads:
            self._late.clear()
        else:
            self._late = [one for one in self._late if now_ms - one[0] <= LATE_MS]
            self._late += [(now_ms, alert) for alert in changes]
            return
        # Before the webhook: an alert that the world knows of is known to the next leader.
        if firing := [one for one in changes if one.state is AlertState.FIRING]:
            self._node.notify_all(ALERTS_NOTICE, msgspec.msgpack.encode(firing))
        for alert in changes:
            self._node.events.note(alert.sentence, "alert")
            log = logger.info if alert.state is AlertState.RESOLVED else logger.warning
            log("alert %s", alert.sentence)
            self.webhook.send(self._notice(alert))
        if over := [one.key for one in changes if one.state is AlertState.RESOLVED]:
            await self.silences.end_acks(over)

    def _take_announced(self, body: bytes) -> None:
        """The leader announces these; its webhook may not have been reached if it dies now."""
        announced = decode_msgpack(body, list[Alert])
        now_ms = self._clock.monotonic_ms()
        if self.settings.enabled:
            self._late += [(now_ms, one) for one in announced if self.alerts.adopt(one, now_ms)]
            self._announced |= {one.key: one.level for one in announced}

    async def test(self) -> None:
        """Send a notice that says it is none, and raise what goes wrong."""
        rule = RULES["depth"]
        now_ms = self._clock.wall_ms()
        alert = Alert(
            key="test:queue/example/queue",
            rule=rule.name,
            title=rule.title,
            level=Level.ATTENTION,
            state=AlertState.FIRING,
            subject=Subject(kind="queue", queue="example", group=DEFAULT_WORK_GROUP),
            value=10_001,
            threshold=10_000,
            unit=rule.unit.value,
            message="this is a test of the webhook: nothing is wrong",
            advice="",
            runbook=rule.runbook,
            since_ms=now_ms,
            fired_ms=now_ms,
        )
        await self.webhook.try_now(msgspec.structs.replace(self._notice(alert), test=True))

    def _notice(self, alert: Alert) -> Notice:
        engine = self._node.engine
        return Notice(
            cluster=engine.topics.cluster_id,
            node=engine.topics.node_id,
            sent_ms=self._clock.wall_ms(),
            alert=alert,
        )
