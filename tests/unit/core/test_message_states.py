"""States have one name each; the names of release 0.1 are understood."""

import pytest

from penstock.core.message_states import STATES, current_state, old_state, parse_states


def test_old_and_present_names_mean_the_same_state() -> None:
    assert parse_states(["visible", " in-flight"]) == {"ready", "leased"}
    assert parse_states(["in flight", "in_flight", "leased"]) == {"leased"}
    assert parse_states(STATES) == set(STATES)


@pytest.mark.parametrize("state", STATES)
def test_a_state_survives_the_way_over_an_old_peer(state: str) -> None:
    assert current_state(old_state(state)) == state


def test_release_0_1_has_other_names_for_two_states() -> None:
    assert [old_state(state) for state in STATES] == ["visible", "in flight", "delayed", "dead"]


def test_an_unknown_state_is_refused() -> None:
    with pytest.raises(ValueError, match="no state lost"):
        parse_states(["ready", "lost"])
