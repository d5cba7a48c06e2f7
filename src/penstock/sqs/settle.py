"""DeleteMessage and ChangeMessageVisibility, and their batches: what became of leased messages.

A batch is settled in one piece. What a receipt handle that is not the latest any more comes to:

    deleting      in a standard queue the message is deleted all the same, unless another receiver
                  has had it since: the sender of the request has done the work. A FIFO queue says
                  that the handle has expired
    visibility    in a standard queue a message that was not delivered since is in flight again; if
                  another receiver has it, or has had it, nothing changes, and that is no error.
                  In a FIFO queue the message is not in flight. One that is gone does not exist

A handle that is none, or another queue's, is refused.
"""

from collections.abc import Sequence

from penstock.core.errors import InvalidReceipt, PenstockError
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.verdicts import LATE, Outcome, Verdict
from penstock.engine.delivery.requests import Receipt
from penstock.engine.delivery.small_requests import Settled
from penstock.sqs.answers import BatchDone, BatchEntryDone, Refusal
from penstock.sqs.batches import check_entries, refuse_entry
from penstock.sqs.context import Call, Context, OnDone
from penstock.sqs.errors import (
    MessageNotInflight,
    MissingParameter,
    ReceiptHandleIsInvalid,
    SqsError,
    invalid_value,
)
from penstock.sqs.receive import VISIBILITY_SECONDS_MAX
from penstock.sqs.requests import (
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    DeleteMessage,
    DeleteMessageBatch,
)

JOINED_MAX = 1_000
"""The number of messages, of several clients, that one command settles."""
_HANDLE = "ReceiptHandle"
_EXPIRED = "The receipt handle has expired."
_VANISHED = "Message does not exist or is not available for visibility timeout change."


async def delete_message(context: Context, request: DeleteMessage, _: Call) -> None:
    topic, verdict = _one_deletion(context, request)
    (outcome,) = await context.delivery.settle(topic, (verdict,))
    error = _deletion_error(topic, outcome, request.receipt_handle)
    if error is not None:
        raise error


def begin_delete_message(
    context: Context, request: DeleteMessage, _: object, on_done: OnDone
) -> bool:
    """Delete a message, coalesced with other deletions; `on_done` is called when it is done. Return
    False if that is not possible."""
    topic, verdict = _one_deletion(context, request)

    def tell(outcomes: Sequence[Outcome] | PenstockError) -> None:
        if isinstance(outcomes, PenstockError):
            on_done(outcomes)
        else:
            on_done(_deletion_error(topic, outcomes[0], request.receipt_handle))

    context.small.settlements.add(topic, 0, (verdict,), tell, size=1, room=JOINED_MAX)
    return True


async def delete_message_batch(context: Context, request: DeleteMessageBatch, _: Call) -> BatchDone:
    """Delete several messages."""
    topic, batch = _several_deletions(context, request)
    if batch.verdicts:
        _close_deletions(topic, batch, await context.delivery.settle(topic, batch.verdicts))
    return batch.answer()


def begin_delete_message_batch(
    context: Context, request: DeleteMessageBatch, _: object, on_done: OnDone
) -> bool:
    """Delete several messages, coalesced with other deletions. Return False if that is not
    possible."""
    topic, batch = _several_deletions(context, request)
    if not batch.verdicts:
        return False

    def tell(outcomes: Sequence[Outcome] | PenstockError) -> None:
        if isinstance(outcomes, PenstockError):
            on_done(outcomes)
        else:
            _close_deletions(topic, batch, outcomes)
            on_done(batch.answer())

    verdicts = batch.verdicts
    context.small.settlements.add(topic, 0, verdicts, tell, size=len(verdicts), room=JOINED_MAX)
    return True


def _one_deletion(context: Context, request: DeleteMessage) -> tuple[Topic, Settled]:
    topic = context.queue(request.queue_url)
    receipt = read_handle(context, topic, request.receipt_handle)
    return topic, (receipt, _deleting(topic), 0, "")


def _several_deletions(context: Context, request: DeleteMessageBatch) -> tuple[Topic, "_Batch"]:
    topic = context.queue(request.queue_url)
    batch = _Batch()
    deleting = _deleting(topic)
    for name, entry in check_entries(request.entries, "DeleteMessageBatch"):
        try:
            receipt = read_handle(context, topic, entry.receipt_handle)
        except SqsError as error:
            batch.refuse(name, error)
        else:
            batch.add(name, entry.receipt_handle or "", (receipt, deleting, 0, ""))
    return topic, batch


def _close_deletions(topic: Topic, batch: "_Batch", outcomes: Sequence[Outcome]) -> None:
    if not topic.settings.queue.fifo:
        batch.close_all()
        return
    for (name, handle), outcome in zip(batch.named, outcomes, strict=True):
        batch.close(name, _deletion_error(topic, outcome, handle))


def _deletion_error(topic: Topic, outcome: Outcome, handle: str | None) -> SqsError | None:
    if outcome is Outcome.STALE and topic.settings.queue.fifo:
        return _expired(handle)
    return None


async def change_message_visibility(
    context: Context, request: ChangeMessageVisibility, _: Call
) -> None:
    """Let a lease end sooner or later."""
    topic = context.queue(request.queue_url)
    handle = request.receipt_handle
    verdict = _visibility_verdict(context, topic, handle, request.visibility_timeout)
    (outcome,) = await context.delivery.settle(topic, (verdict,))
    error = _visibility_error(topic, outcome, handle)
    if error is not None:
        raise error


async def change_message_visibility_batch(
    context: Context, request: ChangeMessageVisibilityBatch, _: Call
) -> BatchDone:
    """Let several leases end sooner or later."""
    topic = context.queue(request.queue_url)
    batch = _Batch()
    for name, entry in check_entries(request.entries, "ChangeMessageVisibilityBatch"):
        handle = entry.receipt_handle
        try:
            verdict = _visibility_verdict(context, topic, handle, entry.visibility_timeout)
        except SqsError as error:
            batch.refuse(name, error)
        else:
            batch.add(name, handle or "", verdict)
    if batch.verdicts:
        outcomes = await context.delivery.settle(topic, batch.verdicts)
        for (name, handle), outcome in zip(batch.named, outcomes, strict=True):
            batch.close(name, _visibility_error(topic, outcome, handle))
    return batch.answer()


class _Batch:
    """Verdicts by the names of their entries, and what became of them."""

    __slots__ = ("_done", "_failed", "named", "verdicts")

    def __init__(self) -> None:
        self.named: list[tuple[str, str]] = []
        """Name and handle of each verdict."""
        self.verdicts: list[Settled] = []
        self._done: list[BatchEntryDone] = []
        self._failed: list[Refusal] = []

    def add(self, name: str, handle: str, verdict: Settled) -> None:
        self.named.append((name, handle))
        self.verdicts.append(verdict)

    def refuse(self, name: str, error: SqsError) -> None:
        self._failed.append(refuse_entry(name, error))

    def close(self, name: str, error: SqsError | None) -> None:
        if error is None:
            self._done.append(BatchEntryDone(id=name))
        else:
            self.refuse(name, error)

    def close_all(self) -> None:
        self._done += [BatchEntryDone(id=name) for name, _ in self.named]

    def answer(self) -> BatchDone:
        return BatchDone(successful=self._done, failed=self._failed)


def read_handle(context: Context, topic: Topic, handle: str | None) -> Receipt:
    """The lease that a receipt handle stands for; it must be one of this queue."""
    if not handle:
        raise MissingParameter(_HANDLE)
    try:
        receipt = context.delivery.read_receipt(handle)
    except InvalidReceipt as error:
        raise ReceiptHandleIsInvalid(handle) from error
    if receipt.partition not in topic.partitions or receipt.group != DEFAULT_WORK_GROUP:
        raise ReceiptHandleIsInvalid(handle)
    return receipt


def _expired(handle: str | None) -> SqsError:
    return invalid_value(handle, _HANDLE, _EXPIRED)


def _deleting(topic: Topic) -> Verdict:
    """A standard queue takes it that a message is done also after its lease has ended."""
    return Verdict.ACK if topic.settings.queue.fifo else Verdict.FINISH


def _visibility_verdict(
    context: Context, topic: Topic, handle: str | None, seconds: int | None
) -> Settled:
    if not handle:
        raise MissingParameter(_HANDLE)
    if seconds is None:
        raise MissingParameter("VisibilityTimeout")
    if not 0 <= seconds <= VISIBILITY_SECONDS_MAX:
        raise invalid_value(
            seconds,
            "VisibilityTimeout",
            f"VisibilityTimeout must be an integer between 0 and {VISIBILITY_SECONDS_MAX}.",
        )
    receipt = read_handle(context, topic, handle)
    if seconds == 0:
        return receipt, Verdict.RELEASE, 0, ""
    return receipt, Verdict.EXTEND, seconds * 1_000, LATE


def _visibility_error(topic: Topic, outcome: Outcome, handle: str | None) -> SqsError | None:
    if outcome is Outcome.STALE:
        return MessageNotInflight() if topic.settings.queue.fifo else None
    if outcome is Outcome.GONE:
        return invalid_value(handle, _HANDLE, _VANISHED)
    return None
