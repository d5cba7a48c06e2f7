"""TagQueue, UntagQueue, ListQueueTags: words that people pin on queues. They mean nothing here."""

from collections.abc import Iterable, Mapping

import msgspec

from penstock.core.topic import Topic
from penstock.sqs.answers import QueueTags
from penstock.sqs.context import Call, Context
from penstock.sqs.errors import InvalidParameterValue, MissingParameter
from penstock.sqs.queue_document import QueueDocument, read_document
from penstock.sqs.requests import ListQueueTags, TagQueue, UntagQueue

TAGS_MAX = 50
KEY_CHARACTERS_MAX = 128
VALUE_CHARACTERS_MAX = 256


async def tag_queue(context: Context, request: TagQueue, _: Call) -> None:
    """Give a queue tags; one of the same key is replaced."""
    topic = context.queue(request.queue_url)
    tags = request.tags
    if not tags:
        raise MissingParameter("Tags")
    async with context.changing:
        document = add_tags(_document(context, topic), tags)
        check_tags(document.tags, topic.name)
        await _write(context, topic, document)


async def untag_queue(context: Context, request: UntagQueue, _: Call) -> None:
    """Take tags from a queue; those it does not have are no matter."""
    topic = context.queue(request.queue_url)
    keys = request.tag_keys or ()
    if not keys:
        raise _wrong_keys()
    _check_keys(keys)
    async with context.changing:
        document = _document(context, topic)
        gone = frozenset(keys)
        left = {key: value for key, value in document.tags.items() if key not in gone}
        await _write(context, topic, msgspec.structs.replace(document, tags=left))


async def list_queue_tags(context: Context, request: ListQueueTags, _: Call) -> QueueTags:
    """Return the tags of a queue."""
    topic = context.queue(request.queue_url)
    return QueueTags(tags=read_document(topic.settings.queue.sqs).tags)


def add_tags(document: QueueDocument, tags: Mapping[str, str]) -> QueueDocument:
    """Return the document with more tags."""
    return msgspec.structs.replace(document, tags={**document.tags, **tags})


def check_tags(tags: Mapping[str, str], queue: str) -> None:
    """Refuse tags that a queue cannot have."""
    if len(tags) > TAGS_MAX:
        raise InvalidParameterValue(f"Too many tags added for queue {queue}.")
    _check_keys(tags)
    if any(len(value) > VALUE_CHARACTERS_MAX for value in tags.values()):
        raise InvalidParameterValue(
            f"Tag values must be between 0 and {VALUE_CHARACTERS_MAX} characters in length."
        )


def _check_keys(keys: Iterable[str]) -> None:
    if not all(1 <= len(key) <= KEY_CHARACTERS_MAX for key in keys):
        raise _wrong_keys()


def _wrong_keys() -> InvalidParameterValue:
    return InvalidParameterValue(
        f"Tag keys must be between 1 and {KEY_CHARACTERS_MAX} characters in length."
    )


def _document(context: Context, topic: Topic) -> QueueDocument:
    """The current document: another request may have changed it while this one waited."""
    return read_document(context.engine.topics.topic(topic.name).settings.queue.sqs)


async def _write(context: Context, topic: Topic, document: QueueDocument) -> None:
    await context.engine.topics.configure_topic(topic.name, {"queue.sqs": document.write()})
