"""The state of a saga is the sum of its events, and the first event of a number counts."""

import msgspec
import pytest

from penstock.core.errors import InvalidRequest
from penstock.patterns.saga import (
    EventKind,
    Saga,
    SagaEvent,
    SagaState,
    SagaStatus,
    Step,
    StepCall,
    fold,
    next_step,
    steps_to_undo,
)


def nothing(call: StepCall[int]) -> None:
    pass


SAGA = Saga(
    "trip",
    data=int,
    steps=[Step("flight", nothing, nothing), Step("hotel", nothing), Step("car", nothing, nothing)],
)


def start() -> SagaState:
    event = SagaEvent(id="a", number=1, kind=EventKind.STARTED, data=msgspec.Raw(b"7"))
    state = fold(None, event)
    assert state is not None
    return state


def then(state: SagaState, kind: EventKind, **fields: object) -> SagaState:
    data = {"id": "a", "number": state.number + 1, "kind": kind, **fields}
    after = fold(state, msgspec.convert(data, SagaEvent))
    assert after is not None
    return after


def test_steps_are_done_in_their_order() -> None:
    state = start()
    for step in SAGA.steps:
        assert next_step(SAGA, state) is step
        last = step is SAGA.steps[-1]
        state = then(state, EventKind.DONE, step=step.name, result=step.name.upper(), last=last)
    assert state.status is SagaStatus.COMPLETED
    assert state.results == {"flight": "FLIGHT", "hotel": "HOTEL", "car": "CAR"}


def test_what_was_done_is_undone_in_reverse() -> None:
    state = start()
    for name in ("flight", "hotel"):
        state = then(state, EventKind.DONE, step=name)
    assert steps_to_undo(SAGA, state) == ("flight",), "a hotel has no compensation"
    assert steps_to_undo(SAGA, state, including="car") == ("car", "flight")
    state = then(state, EventKind.GAVE_UP, step="car", undo=("car", "flight"), error="no car")
    assert state.status is SagaStatus.COMPENSATING
    assert state.error == "no car"
    for name in ("car", "flight"):
        step = next_step(SAGA, state)
        assert step is not None
        assert step.name == name
        state = then(state, EventKind.UNDONE, step=name)
    assert state.status is SagaStatus.COMPENSATED
    assert state.undone == ("car", "flight")


def test_nothing_to_undo_is_undone_at_once() -> None:
    state = then(start(), EventKind.GAVE_UP, step="flight", undo=())
    assert state.status is SagaStatus.COMPENSATED


def test_attempts_are_counted_until_something_works() -> None:
    state = start()
    for _ in range(3):
        state = then(state, EventKind.FAILED, step="flight", error="no answer")
    assert (state.attempts, state.error) == (3, "no answer")
    assert then(state, EventKind.DONE, step="flight").attempts == 0


def test_the_first_event_of_a_number_counts() -> None:
    state = then(start(), EventKind.DONE, step="flight")
    late = SagaEvent(id="a", number=2, kind=EventKind.FAILED, step="flight", error="late")
    assert fold(state, late) == state
    again = SagaEvent(id="a", number=1, kind=EventKind.STARTED, data=msgspec.Raw(b"8"))
    assert fold(state, again) == state
    early = SagaEvent(id="a", number=9, kind=EventKind.DONE, step="car")
    assert fold(state, early) == state


def test_a_saga_begins_with_its_start() -> None:
    assert fold(None, SagaEvent(id="a", number=2, kind=EventKind.DONE)) is None
    assert start().data == b"7"


def test_stuck_and_resumed() -> None:
    state = then(start(), EventKind.GAVE_UP, step="hotel", undo=("flight",))
    state = then(state, EventKind.STUCK, step="flight", error="refused")
    assert state.status.is_final
    state = then(state, EventKind.RESUMED)
    assert state.status is SagaStatus.COMPENSATING
    assert state.undo == ("flight",)


def test_a_definition_may_have_become_shorter() -> None:
    state = start()
    for name in ("flight", "hotel", "car"):
        state = then(state, EventKind.DONE, step=name)
    assert next_step(SAGA, state) is None
    assert then(state, EventKind.COMPLETED).status is SagaStatus.COMPLETED


def test_a_step_that_is_gone_is_told_of() -> None:
    state = then(start(), EventKind.GAVE_UP, undo=("train",))
    with pytest.raises(InvalidRequest, match="train"):
        next_step(SAGA, state)


def test_bad_definitions() -> None:
    with pytest.raises(InvalidRequest, match="steps"):
        Saga("trip", data=int, steps=[])
    with pytest.raises(InvalidRequest, match="another name"):
        Saga("trip", data=int, steps=[Step("a", nothing), Step("a", nothing)])
