"""The table of roles: what is in it holds together, what is not is refused."""

import pytest

from penstock.raft.roles import TRANSITIONS, Event, Role, after


def test_every_role_can_be_reached_from_follower() -> None:
    seen = {Role.FOLLOWER}
    while True:
        more = {target for (source, _), target in TRANSITIONS.items() if source in seen}
        if more <= seen:
            break
        seen |= more
    assert seen == set(Role)


@pytest.mark.parametrize("role", Role)
def test_a_higher_term_makes_anybody_a_follower(role: Role) -> None:
    assert after(role, Event.HIGHER_TERM) is Role.FOLLOWER


def test_only_a_candidate_becomes_leader() -> None:
    makers = [pair for pair, target in TRANSITIONS.items() if target is Role.LEADER]
    assert makers == [(Role.CANDIDATE, Event.WON)]


def test_what_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="a leader cannot get 'timed out'"):
        after(Role.LEADER, Event.TIMED_OUT)
