"""The requests of native clients about messages and queues, and their answers.

Every request is an array with its name first, so a field can be added at the end and no name or
order may ever change. A request that concerns one partition goes to the node that leads it; any
other goes to any node. `TopicInfo` tells who leads.

    Append   a record batch to a partition              → Appended     payload: the batch
    Send     messages one by one, where ids count       → SentOnes
    Take     lease messages of the partitions led here  → Taken        payload: stored batches
    Settle   say what became of leased messages         → Settled

A topic is named by its id wherever losing it to another one of the same name would do harm.
"""

import msgspec

from penstock.core.message import Message, NewMessage


class Request(msgspec.Struct, frozen=True, array_like=True, tag=str.lower, gc=False):
    """The base class of requests."""


class Answer(msgspec.Struct, frozen=True, array_like=True, tag=str.lower, gc=False):
    """The base class of answers."""


class Done(Answer, frozen=True, tag="done"):
    """The answer to a request that succeeded, with the number of messages where that is useful."""

    count: int = 0


# The cluster.


class AskCluster(Request, frozen=True, tag="cluster"):
    """Ask for the nodes of the cluster."""


class NodeInfo(msgspec.Struct, frozen=True, array_like=True):
    """A node and where clients reach it."""

    node: int
    address: str
    alive: bool
    http: str = ""
    """Where it serves HTTP; "" of a node of 0.1, which does not say."""
    read_only: bool = False
    """It holds a shard of `ClusterInfo.read_only_shards`; always False from a node of 0.1."""


class ClusterInfo(Answer, frozen=True, tag="cluster"):
    """All nodes, and the one that answers."""

    cluster_id: str
    node: int
    controller: int
    version: str
    nodes: tuple[NodeInfo, ...]
    read_only_shards: tuple[int, ...] = ()
    """Shards of the answering node that have lost their majority; empty from a node of 0.1."""


class AskProducer(Request, frozen=True, tag="producer"):
    """An id no producer ever had, so that a batch sent twice is stored once."""


class ProducerInfo(Answer, frozen=True, tag="producer"):
    """The id of a producer, which starts with epoch 0 and sequence 0."""

    producer_id: int


# Topics.


class AskTopic(Request, frozen=True, tag="topic"):
    """Requests the metadata of a topic. With `create`, a missing topic is created, as a queue or
    not."""

    name: str
    create: str = ""
    """"": do not make it; "queue" or "topic"."""


class TopicInfo(Answer, frozen=True, tag="topic"):
    """A topic, and the leaders of its partitions; 0 is none now."""

    name: str
    topic_id: bytes
    leaders: tuple[int, ...]
    is_queue: bool
    fifo: bool
    remembers_ids: bool
    """A message with an id that was seen lately is dropped."""
    reads_headers: bool
    """A message may say how it is to be handled: delay, priority and so on."""
    batch_bytes_max: int
    configs: dict[str, str]
    created_ms: int


class AskTopics(Request, frozen=True, tag="topics"):
    """Requests the names of all topics."""


class TopicRow(msgspec.Struct, frozen=True, array_like=True):
    name: str
    topic_id: bytes
    partitions: int
    is_queue: bool


class TopicRows(Answer, frozen=True, tag="topics"):
    """The answer to `AskTopics`: all topics."""

    rows: tuple[TopicRow, ...]


class CreateTopic(Request, frozen=True, tag="create_topic"):
    """Make a topic; answered with `TopicInfo`."""

    name: str
    partitions: int | None
    configs: dict[str, str]
    dead_letters: bool = False
    """Make the dead-letter queue that the configs name, too, if it is not there."""


class ConfigureTopic(Request, frozen=True, tag="configure_topic"):
    """Change configs; None takes one back to its default. Answered with `TopicInfo`."""

    name: str
    changes: dict[str, str | None]


class AddPartitions(Request, frozen=True, tag="add_partitions"):
    """Give a topic more partitions, `total` in all. Answered with `TopicInfo`."""

    name: str
    total: int


class DeleteTopic(Request, frozen=True, tag="delete_topic"):
    """Remove a topic with everything in it."""

    name: str


# Sending.


class Append(Request, frozen=True, tag="append"):
    """Append the payload, one record batch; answered when it is on disk on a majority."""

    topic_id: bytes
    index: int


class Appended(Answer, frozen=True, tag="append"):
    """The offset of the first message."""

    base_offset: int
    log_append_ms: int


class Send(Request, frozen=True, tag="send"):
    """Append messages that have ids: one that is known is not stored again."""

    topic_id: bytes
    index: int
    messages: tuple[NewMessage, ...]


class SentOnes(Answer, frozen=True, tag="send"):
    """For each message: where it is, and whether it was there before."""

    places: tuple[tuple[int, bool], ...]


# Receiving.


class ReceiveRequest(Request, frozen=True, tag="take"):
    """Leases up to `messages_max` messages of partitions that the node leads, and waits for
    some."""

    topic_id: bytes
    group: str
    messages_max: int
    bytes_max: int
    lease_ms: int = -1
    wait_ms: int = 0
    receiver: str = ""
    """The name of the program, for traces of messages."""
    led: int = 0
    """The mark of the partitions that this node leads, as far as the client knows; see
    `led_mark`."""


class ReceivedPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The messages leased of one partition; its batches are the next `bytes` of the payload. They
    may contain messages outside of the runs, which are not leased."""

    index: int
    epoch: int
    until_ms: int
    runs: tuple[tuple[int, int, int, int], ...]
    """(first, end, deliveries, first received)"""
    bytes: int


class ReceiveResponse(Answer, frozen=True, tag="take"):
    """The leased messages; none if none arrived in time."""

    parts: tuple[ReceivedPart, ...]
    now_ms: int = 0
    """The node's time: when a lease ends is to be seen relative to it."""
    moved: bool = False
    """The client does not know which partitions this node leads: it should ask who leads."""


class Settle(Request, frozen=True, tag="settle"):
    """Verdicts on leased messages of one partition: (first, end, epoch, verdict, delay, reason)."""

    topic_id: bytes
    index: int
    group: str
    settlements: tuple[tuple[int, int, int, int, int, str], ...]


class Settled(Answer, frozen=True, tag="settle"):
    """For each: 0 it counted, 1 another receiver has the message, 2 it is gone."""

    outcomes: tuple[int, ...]


# Looking after queues.


class Browse(Request, frozen=True, tag="browse"):
    """Look at messages of one partition without touching them."""

    name: str
    group: str
    index: int
    start: int
    states: tuple[str, ...]
    messages_max: int


class BrowsedOne(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message and its state."""

    message: Message
    state: str
    deliveries: int
    first_received_ms: int
    until_ms: int
    reason: str


class Browsed(Answer, frozen=True, tag="browse"):
    """The messages in the order of offsets."""

    rows: tuple[BrowsedOne, ...]


class Count(Request, frozen=True, tag="count"):
    """Requests the number of messages of a work group in each state."""

    name: str
    group: str


class Counted(Answer, frozen=True, tag="count"):
    """Names of states and numbers; `oldest_ms` is a time, or -1."""

    counts: dict[str, int]
    now_ms: int


class AskWorkGroups(Request, frozen=True, tag="work_groups"):
    """The names of a queue's work groups."""

    name: str


class WorkGroups(Answer, frozen=True, tag="work_groups"):
    """The names of the work groups of a queue."""

    names: tuple[str, ...]


class AskWorkSettings(Request, frozen=True, tag="work_settings"):
    """Requests the effective settings of a work group of a queue."""

    name: str
    group: str


class ConfigureWork(Request, frozen=True, tag="configure_work"):
    """Change settings of a work group of a queue; None lets it inherit one again. Answered with
    `WorkSettingRows`."""

    name: str
    group: str
    changes: dict[str, str | None]


class WorkSettingRows(Answer, frozen=True, tag="work_settings"):
    """For each setting its name, its value and where that comes from: own, group, queue or
    default."""

    rows: tuple[tuple[str, str, str], ...]


class Purge(Request, frozen=True, tag="purge"):
    """Drop everything a work group has left to do."""

    name: str
    group: str


class Redrive(Request, frozen=True, tag="redrive"):
    """Redelivers dead messages: those that stayed in the queue in place, those of a dead-letter
    queue by moving them back to their queue, or to `to`. The move runs in the cluster."""

    name: str
    to: str = ""
    rate: int = 0
    dry_run: bool = False
    places: tuple[tuple[int, int], ...] = ()
    """Only these: a partition's index and an offset each. None: all."""
    group: str = ""
    """The work group in which those died that stayed; the default one if empty."""


class Redriven(Answer, frozen=True, tag="redrive"):
    """The number of messages, and the id of the move if one was started."""

    count: int
    move_id: str = ""


class AskMove(Request, frozen=True, tag="move"):
    """Requests the progress of a move."""

    name: str
    move_id: str


class MoveInfo(Answer, frozen=True, tag="move"):
    """The state and the progress of a move."""

    state: str
    moved: int
    total: int
    failure: str = ""
