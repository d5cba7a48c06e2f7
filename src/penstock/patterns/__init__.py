"""Patterns: small tested modules for what programs do with queues and logs again and again.

    saga             several steps in several systems, all done or all undone
    outbox           a change and its announcement in one transaction
    request_reply    ask, and get the answer that belongs to the question
    fan_out          every subscriber gets every message
    batch_processor  one call for many messages
    priority_tiers   a queue for each class of work, served fairly
    event_sourcing   state as the sum of what happened
    projection       views of a log in a database

Each module opens with its theory. They need the client and nothing else of Penstock.
"""

from penstock.patterns.batch_processor import Batch, BatchProcessor
from penstock.patterns.event_projection import EventProjection
from penstock.patterns.event_store import Aggregate, AggregateStore, VersionConflict
from penstock.patterns.fan_out import FanOut, copy_to
from penstock.patterns.outbox import Outbox
from penstock.patterns.outbox_relay import OutboxRelay
from penstock.patterns.priority_tiers import PriorityTiers
from penstock.patterns.projection import Projection
from penstock.patterns.request_reply import Requester, RequestFailed, answer, respond
from penstock.patterns.saga import Saga, SagaState, SagaStatus, Step, StepCall, StepRefused
from penstock.patterns.saga_runner import SagaRunner, SagaToken, saga_queue_options

__all__ = [
    "Aggregate",
    "AggregateStore",
    "Batch",
    "BatchProcessor",
    "EventProjection",
    "FanOut",
    "Outbox",
    "OutboxRelay",
    "PriorityTiers",
    "Projection",
    "RequestFailed",
    "Requester",
    "Saga",
    "SagaRunner",
    "SagaState",
    "SagaStatus",
    "SagaToken",
    "Step",
    "StepCall",
    "StepRefused",
    "VersionConflict",
    "answer",
    "copy_to",
    "respond",
    "saga_queue_options",
]
