"""A member of a share group with nothing in it: it heartbeats, fetches and acknowledges when told.

It keeps the numbers that a client keeps, the epochs of the member and of its session, and nothing
else, so that a test may send any of them wrongly.
"""

from collections.abc import Mapping, Sequence

from penstock.kafka.codec import Message
from tests.batches import TODAY_MS, build_batch
from tests.unit.kafka.asking import Asker

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
HEARTBEAT, FETCH, ACKNOWLEDGE = 76, 78, 79
FETCH_MS = 10_000
RECORD_LIMIT = 1
"""An acquire mode; 0 is batch_optimized."""

Span = tuple[int, int, int] | tuple[int, int, Sequence[int]]
"""First and last offset, and the type of the acknowledgement, or one for each offset."""


class ShareMember:
    """One member, over one connection."""

    def __init__(self, ask: Asker, group: str, name: str = "m", version: int = 1) -> None:
        self.ask = ask
        self.group = group
        self.name = name
        self.version = version
        self.epoch = 0
        self.session_epoch = 0

    # The group.

    def heartbeat(self, *topics: str, epoch: int | None = None) -> Message:
        answer = self.ask(
            HEARTBEAT, 1,
            {
                "group_id": self.group, "member_id": self.name,
                "member_epoch": self.epoch if epoch is None else epoch,
                "subscribed_topic_names": list(topics) or None,
            },
        )  # fmt: skip
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer

    # The session.

    def fetch(
        self,
        *places: tuple[bytes, int],
        acks: Mapping[tuple[bytes, int], Sequence[Span]] | None = None,
        forget: Sequence[tuple[bytes, int]] = (),
        epoch: int | None = None,
        records: int = 500,
        wait_ms: int = 0,
        bytes_max: int = 1 << 20,
        exact: bool = False,
        **more: object,
    ) -> Message:
        """`exact`: no more than so many records, not whole batches."""
        if exact:
            more = {**more, "share_acquire_mode": RECORD_LIMIT}
        number = self.session_epoch if epoch is None else epoch
        fields = share_fetch(self.group, self.name, number, places, records, wait_ms, bytes_max)
        changes = {
            "topics": _topics(places, acks or {}),
            "forgotten_topics_data": [
                {"topic_id": topic, "partitions": [index]} for topic, index in forget
            ],
        }
        version = max(self.version, 2) if exact else self.version
        answer = self.ask(FETCH, version, {**fields, **changes, **more})
        if answer.error_code == 0:
            self.session_epoch += 1
        return answer

    def acknowledge(
        self,
        acks: Mapping[tuple[bytes, int], Sequence[Span]],
        epoch: int | None = None,
        **more: object,
    ) -> Message:
        fields = {
            "group_id": self.group, "member_id": self.name,
            "share_session_epoch": self.session_epoch if epoch is None else epoch,
            "topics": _topics((), acks),
        }  # fmt: skip
        answer = self.ask(ACKNOWLEDGE, self.version, {**fields, **more})
        if answer.error_code == 0:
            self.session_epoch += 1
        return answer


def share_fetch(
    group: str,
    member: str,
    epoch: int,
    places: Sequence[tuple[bytes, int]] = (),
    records: int = 500,
    wait_ms: int = 0,
    bytes_max: int = 1 << 20,
) -> dict[str, object]:
    """A fetch that acknowledges nothing."""
    return {
        "group_id": group, "member_id": member, "share_session_epoch": epoch,
        "max_wait": wait_ms, "min_bytes": 1, "max_bytes": bytes_max, "max_records": records,
        "batch_size": records, "topics": _topics(places, {}), "forgotten_topics_data": [],
    }  # fmt: skip


def produced(topic: str, count: int, timestamp: int = TODAY_MS) -> dict[str, object]:
    """A produce of one batch to partition 0."""
    rows = [{"index": 0, "records": bytes(build_batch(count, timestamp=timestamp))}]
    topics = [{"name": topic, "partition_data": rows}]
    return {"acks": -1, "timeout": 10_000, "topic_data": topics}


def _topics(
    places: Sequence[tuple[bytes, int]], acks: Mapping[tuple[bytes, int], Sequence[Span]]
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for topic_id, index in dict.fromkeys([*places, *acks]):
        batches = [
            {
                "first_offset": first, "last_offset": last,
                "acknowledge_types": [kind] if isinstance(kind, int) else list(kind),
            }
            for first, last, kind in acks.get((topic_id, index), ())
        ]  # fmt: skip
        partition = {"partition_index": index, "acknowledgement_batches": batches}
        rows.append({"topic_id": topic_id, "partitions": [partition]})
    return rows


def rows_of(answer: Message) -> dict[tuple[bytes, int], Message]:
    """The rows of an answer by partition; the whole answer has no error."""
    assert answer.error_code == 0, answer.error_message
    return {
        (topic.topic_id, row.partition_index): row
        for topic in answer.responses
        for row in topic.partitions
    }


def acquired(row: Message) -> list[tuple[int, int, int]]:
    """First and last offset and count of deliveries of what a row has leased."""
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in row.acquired_records]
