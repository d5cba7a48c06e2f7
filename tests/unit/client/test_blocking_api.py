"""The blocking classes are the twins of the async ones: same names, same parameters, same types."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator

import pytest

from penstock.client.blocking import (
    BlockingClient,
    BlockingConsumer,
    BlockingMessage,
    BlockingQueue,
    BlockingRedriven,
    BlockingStage,
    BlockingSubscription,
    BlockingTopic,
)
from penstock.client.client import Client
from penstock.client.consumer import Consumer
from penstock.client.message import Message
from penstock.client.queue import Queue, Redriven
from penstock.client.stage import Stage
from penstock.client.subscription import Subscription
from penstock.client.topic import Topic

TWINS: dict[type, type] = {
    Client: BlockingClient,
    Queue: BlockingQueue,
    Topic: BlockingTopic,
    Message: BlockingMessage,
    Consumer: BlockingConsumer,
    Subscription: BlockingSubscription,
    Redriven: BlockingRedriven,
    Stage: BlockingStage,
}
DUNDERS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__repr__": "__repr__",
}
ONLY_ASYNC = {
    (Message, "lease"),  # What messages share that were leased together: the client's own business.
    (Client, "raw_log"),  # For programs that decode batches themselves; they bring a loop along.
}


def made_in_init(kind: type) -> set[str]:
    """Attributes that a class gives itself when it is made."""
    source = textwrap.dedent(inspect.getsource(inspect.getattr_static(kind, "__init__")))
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def public_names(kind: type) -> set[str]:
    """What a class offers, in the words of the blocking one."""
    own = {name for base in kind.__mro__[:-1] for name in vars(base)}
    own |= made_in_init(kind)
    offered = {name for name in own if not name.startswith("_")}
    return offered | {DUNDERS[name] for name in own if name in DUNDERS}


def blocking_names(kind: type) -> set[str]:
    own = {name for base in kind.__mro__[:-1] for name in vars(base)}
    return {name for name in own if not name.startswith("_") or name in DUNDERS.values()}


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_names_are_the_same(kind: type) -> None:
    wanted = public_names(kind) - {name for owner, name in ONLY_ASYNC if owner is kind}
    offered = blocking_names(TWINS[kind])
    if "__repr__" in offered:
        wanted.add("__repr__")
    assert offered == wanted


def methods(kind: type) -> Iterator[tuple[str, str]]:
    for name in sorted(public_names(kind)):
        if (kind, name) in ONLY_ASYNC:
            continue
        asynchronous = next((key for key, value in DUNDERS.items() if value == name), name)
        if inspect.isfunction(inspect.getattr_static(kind, asynchronous, None)):
            yield asynchronous, name


def spelled(annotation: object) -> str:
    """An annotation in the words of the blocking classes."""
    text = inspect.formatannotation(annotation).replace("~", "").replace("'", "")
    text = re.sub(r"(\w+\.)+(?=\w)", "", text)
    for kind, twin in TWINS.items():
        text = re.sub(rf"\b(?:Blocking)?{kind.__name__}\b", twin.__name__, text)
    text = text.replace("AsyncIterator", "Iterator").replace("AsyncGenerator", "Iterator")
    return re.sub(r"Coroutine\[Any, Any, (.*)\]", r"\1", text)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_parameters_are_the_same(kind: type) -> None:
    for asynchronous, name in methods(kind):
        theirs = inspect.signature(getattr(kind, asynchronous))
        ours = inspect.signature(getattr(TWINS[kind], name))
        assert list(ours.parameters) == list(theirs.parameters), f"{kind.__name__}.{name}"
        for parameter in theirs.parameters.values():
            twin = ours.parameters[parameter.name]
            where = f"{kind.__name__}.{name}({parameter.name})"
            assert twin.kind == parameter.kind, where
            assert twin.default == parameter.default, where
            assert spelled(twin.annotation) == spelled(parameter.annotation), where
        assert spelled(ours.return_annotation) == spelled(theirs.return_annotation), (
            f"{kind.__name__}.{name}"
        )


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_nothing_of_the_blocking_ones_is_async(kind: type) -> None:
    twin = TWINS[kind]
    for name in blocking_names(twin):
        found = inspect.getattr_static(twin, name)
        assert not inspect.iscoroutinefunction(found), f"{twin.__name__}.{name}"
        assert not inspect.isasyncgenfunction(found), f"{twin.__name__}.{name}"


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_both_say_the_same_about_themselves(kind: type) -> None:
    for asynchronous, name in methods(kind):
        theirs, ours = getattr(kind, asynchronous), getattr(TWINS[kind], name)
        if not name.startswith("_"):
            assert ours.__doc__, f"{TWINS[kind].__name__}.{name} says nothing"
            assert theirs.__doc__, f"{kind.__name__}.{name} says nothing"
