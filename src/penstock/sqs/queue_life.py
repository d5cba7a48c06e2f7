"""CreateQueue, DeleteQueue, PurgeQueue, GetQueueUrl, ListQueues, ListDeadLetterSourceQueues.

A queue is a topic. One made here has one partition (a setting; a FIFO queue that compares messages
across groups has one in any case), keeps no message that was deleted, and reads what messages say
about themselves. A topic made elsewhere is a queue when it is named, but is listed only if
something is configured on it that only queues have.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Mapping

from penstock.core.errors import TopicExists
from penstock.core.topic import Topic
from penstock.sqs.answers import DeadLetterSourcesListed, QueueLocated, QueuesListed
from penstock.sqs.attributes import (
    CONTENT_BASED,
    FIFO,
    NEW_QUEUE,
    SCOPE,
    check_queue_attributes,
    different_attribute,
    queue_configs,
)
from penstock.sqs.context import Call, Context
from penstock.sqs.errors import (
    InvalidParameterValue,
    PurgeQueueInProgress,
    QueueDeletedRecently,
    QueueDoesNotExist,
    QueueNameExists,
    invalid_value,
)
from penstock.sqs.names import check_new_name, queue_url
from penstock.sqs.queue_document import read_document
from penstock.sqs.redrive import ALLOW, REDRIVE, check_target, read_redrive
from penstock.sqs.requests import (
    CreateQueue,
    DeleteQueue,
    GetQueueUrl,
    ListDeadLetterSourceQueues,
    ListQueues,
    PurgeQueue,
)
from penstock.sqs.tags import add_tags, check_tags

PAGE_MAX = 1_000


async def create_queue(context: Context, request: CreateQueue, call: Call) -> QueueLocated:
    """Make a queue, or find it made just so."""
    name = request.queue_name or ""
    attributes = dict(request.attributes or {})
    fifo = attributes.get(FIFO, "").lower() == "true"
    check_new_name(name, fifo=fifo)
    check_tags(request.tags or {}, name)
    checked = check_queue_attributes(attributes, fifo=fifo)
    found = QueueLocated(queue_url=queue_url(call.base_url, name))
    existing = context.engine.topics.catalog.topic(name)
    if existing is not None:
        _check_same(checked, existing, call)
        return found
    if context.deleted.is_on(name):
        raise QueueDeletedRecently(
            f"You must wait {context.deleted.seconds} seconds after deleting a queue before you"
            " can create another with the same name."
        )
    check_redrive(context, name, checked, fifo=fifo)
    try:
        await context.engine.topics.create_topic(
            name, _partitions(context, checked), _new_configs(context, checked, request.tags)
        )
    except TopicExists:  # Another request was faster.
        _check_same(checked, context.engine.topics.topic(name), call)
    return found


def _new_configs(
    context: Context, checked: Mapping[str, str], tags: Mapping[str, str] | None
) -> dict[str, str]:
    wanted = dict(checked)
    if FIFO in wanted:
        wanted.setdefault(CONTENT_BASED, "false")
    now_s = context.engine.topics.clock.wall_ms() // 1_000
    configs: dict[str, str | None] = {**NEW_QUEUE, **queue_configs(wanted, None, now_s=now_s)}
    if tags:
        configs["queue.sqs"] = add_tags(read_document(configs["queue.sqs"] or ""), tags).write()
    return {name: value for name, value in configs.items() if value is not None}


def _partitions(context: Context, checked: Mapping[str, str]) -> int:
    alone = FIFO in checked and checked.get(SCOPE) != "messageGroup"
    return 1 if alone else context.settings.queue_partitions


def _check_same(checked: Mapping[str, str], existing: Topic, call: Call) -> None:
    different = different_attribute(checked, existing, call.region)
    if different is not None:
        raise QueueNameExists(
            "A queue already exists with the same name and a different value for attribute"
            f" {different}"
        )


def check_redrive(context: Context, source: str, checked: Mapping[str, str], *, fifo: bool) -> None:
    """Refuse a dead-letter queue that a queue cannot have."""
    text = checked.get(REDRIVE)
    if not text:
        return
    name = read_redrive(text).target
    if name == source:
        raise invalid_value(
            text, REDRIVE, "A queue cannot be its own dead-letter queue; name another queue."
        )
    target = context.engine.topics.catalog.topic(name)
    queue = target.settings.queue if target is not None else None
    check_target(
        text,
        source,
        target_fifo=None if queue is None else queue.fifo,
        fifo=fifo,
        allow=None if queue is None else read_document(queue.sqs).attributes.get(ALLOW),
    )


async def delete_queue(context: Context, request: DeleteQueue, _: Call) -> None:
    """Remove a queue with all its messages."""
    topic = context.queue(request.queue_url)
    await context.engine.topics.delete_topic(topic.name, topic.topic_id)
    context.deleted.begin(topic.name)


async def purge_queue(context: Context, request: PurgeQueue, _: Call) -> None:
    """Forget all messages of a queue."""
    topic = context.queue(request.queue_url)
    if context.purged.is_on(topic.topic_id):
        raise PurgeQueueInProgress(
            f"Only one PurgeQueue operation on {topic.name} is allowed every"
            f" {context.purged.seconds} seconds."
        )
    await context.delivery.purge(topic)
    context.purged.begin(topic.topic_id)


async def get_queue_url(context: Context, request: GetQueueUrl, call: Call) -> QueueLocated:
    """Return the URL of a queue. All accounts are one."""
    name = request.queue_name
    if not name:
        raise InvalidParameterValue(
            "Value for parameter QueueName is invalid. Reason: Must specify a queue name."
        )
    if context.engine.topics.catalog.topic(name) is None:
        raise QueueDoesNotExist
    return QueueLocated(queue_url=queue_url(call.base_url, name))


# Listing.


async def list_queues(context: Context, request: ListQueues, call: Call) -> QueuesListed:
    """List the queues by name."""
    prefix = request.queue_name_prefix or ""
    names = (
        name
        for name, topic in context.engine.topics.catalog.topics.items()
        if name.startswith(prefix) and topic.settings.queue.is_queue
    )
    page, token = _page(names, request.max_results, request.next_token)
    return QueuesListed(
        queue_urls=[queue_url(call.base_url, name) for name in page], next_token=token
    )


async def list_dead_letter_source_queues(
    context: Context, request: ListDeadLetterSourceQueues, call: Call
) -> DeadLetterSourcesListed:
    """List the queues that use this dead-letter queue."""
    names = dead_letter_sources(context, context.queue(request.queue_url).name)
    page, token = _page(names, request.max_results, request.next_token)
    return DeadLetterSourcesListed(
        queue_urls=[queue_url(call.base_url, name) for name in page], next_token=token
    )


def dead_letter_sources(context: Context, target: str) -> list[str]:
    """Names of queues that send their dead letters to this one."""
    return [
        name
        for name, topic in context.engine.topics.catalog.topics.items()
        if topic.settings.queue.dead_letter_topic == target
    ]


def _page(
    names: Iterable[str], most: int | None, token: str | None
) -> tuple[list[str], str | None]:
    """A page of names, and what leads to the next one. As on Amazon, a request without a limit
    gets the first thousand, and no sign that there are more."""
    if most is not None and not 1 <= most <= PAGE_MAX:
        raise InvalidParameterValue(
            "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer"
            f" between 1 and {PAGE_MAX}."
        )
    after = _read_token(token) if token else ""
    rest = sorted(name for name in names if name > after)
    page = rest[: most or PAGE_MAX]
    more = most is not None and len(rest) > most
    return page, _write_token(page[-1]) if more else None


def _write_token(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode()


def _read_token(token: str) -> str:
    """The name that the page before ended with."""
    try:
        return urlsafe_b64decode(token.encode("ascii")).decode()
    except (NotBase64, UnicodeError, ValueError) as error:
        raise InvalidParameterValue("Invalid or expired next token.") from error
