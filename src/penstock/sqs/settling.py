"""DeleteMessage and ChangeMessageVisibility, and their batches: what became of leased messages.

A batch is settled in one piece. What a receipt handle that is not the latest any more comes to:

    deleting      in a standard queue the message is deleted all the same, unless somebody else has
                  had it since: who deletes has done the work. A FIFO queue says that the handle
                  has expired
    visibility    the message is not in flight, or, if it is gone, does not exist

A handle that is none, or another queue's, is refused.
"""

from collections.abc import Sequence

from penstock.core.errors import InvalidReceipt
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.engine.queue_requests import Receipt
from penstock.machines.catalog import Topic
from penstock.machines.queue_commands import Outcome, Verdict
from penstock.sqs.answers import BatchDone, BatchEntryDone, Refusal
from penstock.sqs.batches import check_entries, refuse_entry
from penstock.sqs.context import Call, Context
from penstock.sqs.errors import (
    MessageNotInflight,
    MissingParameter,
    ReceiptHandleIsInvalid,
    SqsError,
    invalid_value,
)
from penstock.sqs.receiving import VISIBILITY_SECONDS_MAX
from penstock.sqs.requests import (
    ChangeMessageVisibility,
    ChangeMessageVisibilityBatch,
    DeleteMessage,
    DeleteMessageBatch,
)

_HANDLE = "ReceiptHandle"
_EXPIRED = "The receipt handle has expired."
_VANISHED = "Message does not exist or is not available for visibility timeout change."

Settled = tuple[Receipt, Verdict, int, str]


async def delete_message(context: Context, request: DeleteMessage, _: Call) -> None:
    """A message is done."""
    topic = context.queue(request.queue_url)
    handle = request.receipt_handle
    receipt = read_handle(context, topic, handle)
    (outcome,) = await context.queues.settle(topic, ((receipt, _deleting(topic), 0, ""),))
    if outcome is Outcome.STALE and topic.settings.queue.fifo:
        raise _expired(handle)


async def delete_message_batch(context: Context, request: DeleteMessageBatch, _: Call) -> BatchDone:
    """Several messages are done."""
    topic = context.queue(request.queue_url)
    batch = _Batch(context, topic)
    for name, entry in check_entries(request.entries, "DeleteMessageBatch"):
        try:
            receipt = read_handle(context, topic, entry.receipt_handle)
        except SqsError as error:
            batch.refuse(name, error)
        else:
            batch.add(name, entry.receipt_handle or "", (receipt, _deleting(topic), 0, ""))
    fifo = topic.settings.queue.fifo
    for name, handle, outcome in await batch.settle():
        batch.close(name, _expired(handle) if fifo and outcome is Outcome.STALE else None)
    return batch.answer()


async def change_message_visibility(
    context: Context, request: ChangeMessageVisibility, _: Call
) -> None:
    """Let a lease end sooner or later."""
    topic = context.queue(request.queue_url)
    handle = request.receipt_handle
    verdict = _visibility_verdict(context, topic, handle, request.visibility_timeout)
    (outcome,) = await context.queues.settle(topic, (verdict,))
    error = _visibility_error(outcome, handle)
    if error is not None:
        raise error


async def change_message_visibility_batch(
    context: Context, request: ChangeMessageVisibilityBatch, _: Call
) -> BatchDone:
    """Let several leases end sooner or later."""
    topic = context.queue(request.queue_url)
    batch = _Batch(context, topic)
    for name, entry in check_entries(request.entries, "ChangeMessageVisibilityBatch"):
        handle = entry.receipt_handle
        try:
            verdict = _visibility_verdict(context, topic, handle, entry.visibility_timeout)
        except SqsError as error:
            batch.refuse(name, error)
        else:
            batch.add(name, handle or "", verdict)
    for name, handle, outcome in await batch.settle():
        batch.close(name, _visibility_error(outcome, handle))
    return batch.answer()


class _Batch:
    """Verdicts by the names of their entries, and what became of them."""

    def __init__(self, context: Context, topic: Topic) -> None:
        self._context = context
        self._topic = topic
        self._named: list[tuple[str, str]] = []
        self._verdicts: list[Settled] = []
        self._done: list[BatchEntryDone] = []
        self._failed: list[Refusal] = []

    def add(self, name: str, handle: str, verdict: Settled) -> None:
        self._named.append((name, handle))
        self._verdicts.append(verdict)

    def refuse(self, name: str, error: SqsError) -> None:
        self._failed.append(refuse_entry(name, error))

    async def settle(self) -> Sequence[tuple[str, str, Outcome]]:
        """Name, handle and outcome of each."""
        if not self._verdicts:
            return ()
        outcomes = await self._context.queues.settle(self._topic, self._verdicts)
        pairs = zip(self._named, outcomes, strict=True)
        return [(name, handle, outcome) for (name, handle), outcome in pairs]

    def close(self, name: str, error: SqsError | None) -> None:
        if error is None:
            self._done.append(BatchEntryDone(id=name))
        else:
            self.refuse(name, error)

    def answer(self) -> BatchDone:
        return BatchDone(successful=self._done, failed=self._failed)


def read_handle(context: Context, topic: Topic, handle: str | None) -> Receipt:
    """The lease that a receipt handle stands for; it must be one of this queue."""
    if not handle:
        raise MissingParameter(_HANDLE)
    try:
        receipt = context.queues.read_receipt(handle)
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
    return receipt, Verdict.EXTEND, seconds * 1_000, ""


def _visibility_error(outcome: Outcome, handle: str | None) -> SqsError | None:
    if outcome is Outcome.STALE:
        return MessageNotInflight()
    if outcome is Outcome.GONE:
        return invalid_value(handle, _HANDLE, _VANISHED)
    return None
