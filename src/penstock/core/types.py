"""The basic types: ids and counters that must not be mixed up.

An `Index` counts entries of a shard's replicated log from 1; an `Offset` counts messages of one
partition from 0. They are both integers and confusing them is the classic bug of this field, so the
type checker keeps them apart.
"""

from typing import NewType

NodeId = NewType("NodeId", int)
"""A broker process. From 1; never reused: a node with a wiped disk gets a new id."""

ShardId = NewType("ShardId", int)
"""One Raft group of a cluster, from 0."""

Term = NewType("Term", int)
"""A Raft term, from 1; 0 before the first election."""

Index = NewType("Index", int)
"""A position in a shard's replicated log, from 1; 0 before the first entry."""

PartitionId = NewType("PartitionId", int)
"""A partition of the cluster; given by the catalog, never reused. 32 bits, unsigned."""

TopicId = NewType("TopicId", bytes)
"""A topic in one of its lives: 16 bytes, drawn at creation. A name may return, an id not."""

Offset = NewType("Offset", int)
"""A message's place in its partition, from 0."""

ProducerId = NewType("ProducerId", int)
"""An idempotent producer; -1 for a producer that is not."""

CATALOG_SHARD = ShardId(0)
"""The shard of the catalog: topics, configurations, members. Every node has a replica."""

NO_NODE = NodeId(0)
NO_TERM = Term(0)
NO_INDEX = Index(0)
NO_PRODUCER = ProducerId(-1)
NO_TOPIC_ID = TopicId(bytes(16))

EARLIEST = Offset(-2)
"""In place of an offset, or of a time to find one by: the first message there is."""
LATEST = Offset(-1)
"""As a start position: after the last committed message."""
