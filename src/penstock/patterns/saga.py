"""Sagas: several steps in several systems, all of them done or all of them undone.

There is no transaction across a payment provider, a warehouse and a mail server. A saga replaces it
by steps that each have a compensation: the step that takes it back. If a step fails for good, what
was done is undone in reverse order. It never stays "half": in the end a saga is completed, or
compensated, or it is stuck and says so, because a compensation failed again and again and a person
has to look (Garcia-Molina and Salem, 1987).

    saga = Saga("payment", data=Order, steps=[
        Step("reserve", reserve_stock, release_stock),
        Step("charge", charge_card, refund_card),
        Step("ship", ship),
    ])

This module is the definition and the state, pure; `penstock.patterns.saga_runner` runs it. Rules:

- The state of a saga is the sum of its events, and an event counts only if its number is the next
  one: of two workers that both believe to have the saga, the first to write wins, and all
  see the same winner, since all read the same log.
- An action may run more than once: the worker may die after it and before the event is written. So
  every call carries a `key`, `saga name/saga id/step`, the same at every attempt, to be handed on
  to the other system. Where that is a database, `with store.once(call)` does it
  (`penstock.client.processed_ids`).
- `StepRefused` says that a step did nothing and never will (the card is declined): what came before
  is compensated. Any other exception leaves open what happened: the step is tried again, and when
  that has failed often enough, it is compensated too. A compensation must therefore bear that there
  is nothing to undo.
- A saga that was started may still run after the definition was changed. Steps are known by their
  names: add and reorder with that in mind, and give what means something else another name.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from penstock.core.decoders import json_decoder
from penstock.core.errors import InvalidRequest

STEPS_MAX = 100
SAGA_ID_CHARACTERS_MAX = 200
ERROR_CHARACTERS_MAX = 1_000

D = TypeVar("D")


class StepRefused(Exception):
    """A step had no effect and never will; the steps before are to be compensated."""


class SagaStatus(StrEnum):
    """The state of a saga."""

    RUNNING = "running"
    COMPENSATING = "compensating"
    COMPLETED = "completed"
    COMPENSATED = "compensated"
    STUCK = "stuck"

    @property
    def is_final(self) -> bool:
        """True if nothing more happens without an operator."""
        return self in (SagaStatus.COMPLETED, SagaStatus.COMPENSATED, SagaStatus.STUCK)


class EventKind(StrEnum):
    STARTED = "started"
    DONE = "done"
    """A step was done; `result` is what it returned."""
    COMPLETED = "completed"
    """No step is left, though the last one was not known to be the last."""
    FAILED = "failed"
    """An attempt at a step, or at a compensation, failed; it will be tried again."""
    GAVE_UP = "gave up"
    """No more attempts: the steps in `undo` are to be compensated, in this order."""
    UNDONE = "undone"
    """A step was compensated."""
    STUCK = "stuck"
    """A compensation failed for good: a person has to look."""
    RESUMED = "resumed"
    """An operator resumed the saga."""


class SagaEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event in the log of a saga."""

    id: str
    number: int
    """From 1; the next event of the saga has the next number."""
    kind: EventKind
    step: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    result: object = None
    error: str = ""
    last: bool = False
    """With `done`: this was the last step."""
    undo: tuple[str, ...] = ()
    deliveries: int = 0
    """The number of deliveries of the saga's message when this was written."""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall(Generic[D]):
    """The argument of an action or a compensation."""

    saga_id: str
    step: str
    key: str
    """The idempotency key: the same at every attempt. A compensation has one of its own."""
    attempt: int
    """The number of the attempt, from 1."""
    data: D
    results: Mapping[str, object]
    """The results of the steps before, by name."""

    # A store of processed ids takes a call as it takes a message: `store.once(call)` makes a step
    # that writes to a database exactly once.

    @property
    def id(self) -> str:
        """The key of the step."""
        return self.key

    @property
    def queue(self) -> str:
        """The name of the step."""
        return self.step

    @property
    def group(self) -> str:
        """The same group for all sagas."""
        return "saga"

    @property
    def dedup_id(self) -> str | None:
        """None: the key is enough."""
        return None


Action = Callable[[StepCall[D]], Awaitable[object] | object]
"""Returns what JSON can say; later steps find it in `results`."""


@dataclass(frozen=True, slots=True)
class Step(Generic[D]):
    """A step and how to take it back; without a compensation there is nothing to take back."""

    name: str
    action: Action[D]
    compensation: Action[D] | None = None


class Saga(Generic[D]):
    """The definition: a name, steps in their order, and what a saga is about."""

    def __init__(self, name: str, *, data: type[D], steps: Sequence[Step[D]]) -> None:
        names = [step.name for step in steps]
        if not steps or len(steps) > STEPS_MAX or len(set(names)) != len(names):
            raise InvalidRequest(f"saga {name}: 1 to {STEPS_MAX} steps, each with another name")
        self.name = name
        self.data = data
        # Made here, once: msgspec must not meet a class for the first time in two threads at once.
        self.decoder: msgspec.json.Decoder[D] = json_decoder(data)
        self.steps = tuple(steps)

    def step(self, name: str) -> Step[D]:
        """The step of this name; a log may speak of one that is no longer there."""
        for step in self.steps:
            if step.name == name:
                return step
        raise InvalidRequest(f"saga {self.name} has no step {name}, but its log has one")


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaState:
    """A saga as its events tell it."""

    id: str
    number: int
    status: SagaStatus
    data: bytes
    """The data of the saga, as JSON."""
    results: Mapping[str, object] = field(default_factory=dict)
    undo: tuple[str, ...] = ()
    """The steps still to be compensated, in order."""
    attempts: int = 0
    """The number of failed attempts at the current step."""
    error: str = ""
    """The error of the last failed attempt."""
    deliveries: int = 0
    updated_ms: int = 0
    steps: tuple[str, ...] = ()
    """Steps done so far, in their order."""
    undone: tuple[str, ...] = ()


def fold(state: SagaState | None, event: SagaEvent) -> SagaState | None:
    """The state after an event; the same state if the event does not count."""
    if state is None:
        if event.kind is not EventKind.STARTED or event.number != 1:
            return None
        return SagaState(
            id=event.id,
            number=1,
            status=SagaStatus.RUNNING,
            data=bytes(event.data),
            updated_ms=event.at_ms,
        )
    if event.number != state.number + 1 or event.kind is EventKind.STARTED:
        return state
    moved = replace(state, number=event.number, deliveries=event.deliveries, updated_ms=event.at_ms)
    match event.kind:
        case EventKind.FAILED:
            return replace(moved, attempts=state.attempts + 1, error=event.error)
        case EventKind.DONE:
            return replace(
                moved,
                results={**state.results, event.step: event.result},
                steps=(*state.steps, event.step),
                attempts=0,
                status=SagaStatus.COMPLETED if event.last else SagaStatus.RUNNING,
            )
        case EventKind.COMPLETED:
            return replace(moved, status=SagaStatus.COMPLETED)
        case EventKind.GAVE_UP:
            status = SagaStatus.COMPENSATING if event.undo else SagaStatus.COMPENSATED
            return replace(moved, status=status, undo=event.undo, attempts=0, error=event.error)
        case EventKind.UNDONE:
            left = state.undo[1:]
            status = SagaStatus.COMPENSATING if left else SagaStatus.COMPENSATED
            undone = (*state.undone, event.step)
            return replace(moved, status=status, undo=left, undone=undone, attempts=0)
        case EventKind.STUCK:
            return replace(moved, status=SagaStatus.STUCK, error=event.error)
        case EventKind.RESUMED:
            status = SagaStatus.COMPENSATING if state.undo else SagaStatus.RUNNING
            return replace(moved, status=status, attempts=0)


def next_step(saga: Saga[D], state: SagaState) -> Step[D] | None:
    """The step to try next; None if the definition has become shorter and nothing is left."""
    assert not state.status.is_final, f"saga {state.id} is {state.status}"
    if state.status is SagaStatus.COMPENSATING:
        return saga.step(state.undo[0])
    return next((step for step in saga.steps if step.name not in state.results), None)


def steps_to_undo(
    saga: Saga[D], state: SagaState, *, including: str | None = None
) -> tuple[str, ...]:
    """The steps to compensate, last first; `including` is a step whose outcome is unknown."""
    done = [*state.steps, *([including] if including is not None else [])]
    return tuple(name for name in reversed(done) if saga.step(name).compensation is not None)
