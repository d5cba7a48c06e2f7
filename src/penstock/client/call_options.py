"""The options of calls, as keyword arguments."""

from datetime import datetime
from typing import TypedDict

from penstock.client.guarantees import Guarantee
from penstock.client.producer.outgoing_message import Headers, Key
from penstock.client.reader.start_position import Start
from penstock.client.seconds import Seconds


class SendManyOptions(TypedDict, total=False):
    """The options of `Queue.send_many` and `Topic.send_many`, which hold for all messages of a
    call."""

    key: Key
    headers: Headers | None
    priority: int | None
    delay: Seconds | None
    deliver_at: datetime | None
    ttl: Seconds | None
    expire_at: datetime | None
    message_group: str | None
    partition: int | None
    timestamp: datetime | None
    timeout: Seconds | None


class SendOptions(SendManyOptions, total=False):
    """And what only a single message can have: see `Queue.send`."""

    dedup_id: str | None


class SubscribeOptions(TypedDict, total=False):
    """The options of a subscription: see `SubscriptionOptions`."""

    group: str | None
    start: Start
    auto_commit: bool
    commit_interval: Seconds
    guarantee: Guarantee
    prefetch: int
    prefetch_bytes: int | None
    fetch_wait: Seconds
    topics_interval: Seconds
    instance_id: str | None
    session_timeout: Seconds
    rebalance_timeout: Seconds
    heartbeat_interval: Seconds
    assignors: tuple[str, ...]
    client_id: str
