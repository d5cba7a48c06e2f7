"""The settings of a queue as sends and receives need them, computed once and kept until the queue
changes.

Most requests to a busy queue are plain: a send has only a body, a receive only a number of
messages. A plain request is checked against a few fields of this profile and nothing else.
"""

from typing import Final

from penstock.core.limits import KIB
from penstock.core.queue_rules import Deduplication
from penstock.core.topic import Topic
from penstock.sqs.queue_document import read_document

JOINED_BYTES_MAX: Final = 64 * KIB
"""The size of messages of several senders that are appended as one batch, so that all are stored or
none."""
MESSAGE_BYTES_FIRST: Final = 4 * KIB
OVERHEAD_BYTES: Final = 100
"""Of a message, or of a header, in a batch: at most."""


class QueueProfile:
    __slots__ = (
        "body_bytes_max", "joins", "message_bytes", "one_place", "plain", "room", "shares", "topic",
    )  # fmt: skip

    def __init__(self, topic: Topic) -> None:
        settings = topic.settings
        queue = settings.queue
        self.topic = topic
        self.room = min(JOINED_BYTES_MAX, settings.message_bytes_max - OVERHEAD_BYTES)
        """The size of messages of several senders that can be appended together."""
        self.joins = not queue.refuses_when_full and not settings.compacts
        """Whether they may: not if it depends on what was let in before."""
        self.one_place = len(topic.partitions) == 1
        rules = queue.queue_rules
        self.shares = self.one_place and not rules.fifo
        """Whether several receivers may have one lease. Not where messages of a group are delivered
        one after the other: a second receiver would get those behind the first one's."""
        self.message_bytes = MESSAGE_BYTES_FIRST
        """About what a message takes, by those that were received last."""
        self.plain = not rules.fifo and rules.deduplication is Deduplication.OFF
        """Of a message that is nothing but a body, only the length must be looked at."""
        self.body_bytes_max = read_document(queue.sqs).message_bytes_max
