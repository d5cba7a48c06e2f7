"""The plan of a replay: what it is about, fixed when it begins, and where plans are kept.

A plan is a message of the topic `penstock-replays`, whose key is the name of the replay. Of several
with one name the first counts, so that two who begin the same replay at once carry out one plan.
Plans are small and are kept for ever: a name that was used once stays used.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.client.client import Client
from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidRequest, UnknownTopic
from penstock.spark.lake.spans import Span

TOPIC: Final = "penstock-replays"
KEPT_FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
ROWS_AT_ONCE: Final = 200_000
"""About how many messages are published at once if there is no rate."""
BURST_SECONDS: Final = 2.0
BUCKETS: Final = 1_000
"""The number of buckets in which messages are counted before they are sent."""


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a replay, their destination and their windows."""

    name: str
    topic: str
    to: str
    lake: str | None
    since_ms: int | None
    until_ms: int | None
    key: str | None
    where: str | None
    keep_partitions: bool
    keep_timestamps: bool
    partitions: Mapping[int, tuple[int, int]] = {}
    """The first and the end offset of each partition."""
    step: int = 1
    """The number of offsets of each partition in one window."""

    @property
    def width(self) -> int:
        """The number of offsets of the longest partition."""
        return max((end - first for first, end in self.partitions.values()), default=0)

    @property
    def windows(self) -> int:
        return -(-self.width // self.step)

    def window(self, number: int) -> dict[int, Span]:
        """The offsets of one window, by partition."""
        spans = {}
        for partition, (first, end) in self.partitions.items():
            start = first + number * self.step
            if start < end:
                spans[partition] = (start, min(end, start + self.step))
        return spans

    @property
    def application(self) -> str:
        """The application that publishes its windows."""
        return f"penstock-replay/{self.name}"

    def check_same(self, asked: "ReplayPlan") -> None:
        """Refuse what goes by the same name and is something else."""
        mine, other = (_choice(self), _choice(asked))
        for name, value in mine.items():
            if other[name] != value:
                raise InvalidRequest(
                    f"the replay {self.name} was begun with {name} = {value!r}, and now it is"
                    f" {other[name]!r}: give the new one a name of its own"
                )


class Counts:
    """The number of selected messages in each bucket, counted before they are sent."""

    def __init__(self, bucket: int, rows: Mapping[int, int]) -> None:
        self.bucket = bucket
        """The number of offsets of each partition in one bucket."""
        self.rows = rows

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    def may_hold(self, first: int, end: int) -> bool:
        """Whether there is one between two places, counted from where the replay begins."""
        buckets = range(first // self.bucket, -(-end // self.bucket))
        return any(self.rows.get(one, 0) for one in buckets)


def bucket_of(plan: ReplayPlan) -> int:
    """The number of offsets in one bucket."""
    return max(1, -(-plan.width // BUCKETS))


def choose_step(plan: ReplayPlan, counts: Counts, rate: float | None) -> int:
    """Choose a number of offsets so small that even the densest window is not a burst."""
    densest = max(counts.rows.values(), default=0)
    if not densest:
        return max(1, plan.width)
    wanted = ROWS_AT_ONCE if rate is None else max(1.0, rate * BURST_SECONDS)
    return int(min(max(1, wanted * counts.bucket / densest), max(1, plan.width)))


async def read_plan(client: Client, name: str) -> ReplayPlan | None:
    """The plan of a replay that was begun before."""
    try:
        async for record in client.read(TOPIC, codec=bytes):
            if record.key == name.encode():
                return decode_json(record.raw, ReplayPlan)
    except UnknownTopic:
        return None
    return None


async def keep_plan(client: Client, plan: ReplayPlan) -> ReplayPlan:
    """Write a plan. The plan that counts is returned: another run may have written one before."""
    await client.create_topic(TOPIC, partitions=1, exist_ok=True, configs=KEPT_FOR_EVER)
    await client.topic(TOPIC, codec=bytes).send(msgspec.json.encode(plan), key=plan.name)
    kept = await read_plan(client, plan.name)
    assert kept is not None, "what was sent can be read"
    return kept


def _choice(plan: ReplayPlan) -> dict[str, object]:
    """The fields of the plan that the user has chosen."""
    fields = msgspec.structs.asdict(plan)
    return {name: fields[name] for name in fields if name not in ("partitions", "step")}
