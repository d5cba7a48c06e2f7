"""`kafka.share_sessions`: who has one, and in which order requests are carried out."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.core.limits import SHARE_SESSION_PARTITIONS_MAX, SHARE_SESSIONS_MAX
from penstock.core.types import TopicId
from penstock.engine.engine import Engine
from penstock.engine.groups.share_groups import ShareGroups
from penstock.kafka.connection import Connection
from penstock.kafka.share_sessions import LEAVE_MS, SessionRefused, ShareSessions
from penstock.machines import Catalog
from penstock.testing.clock import ManualClock
from tests.unit.kafka.wire import Run

TOPIC = TopicId(b"t" * 16)
ONE, TWO = cast(Connection, object()), cast(Connection, object())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> ShareSessions:
    catalog = Catalog()
    groups = ShareGroups(clock, lambda: catalog, lambda _group: pytest.fail("unasked"))
    engine = SimpleNamespace(
        groups=SimpleNamespace(share=groups), topics=SimpleNamespace(catalog=catalog)
    )
    return ShareSessions(cast(Engine, engine), clock)


def code(sessions: ShareSessions, member: str, epoch: int, connection: Connection = ONE) -> int:
    try:
        sessions.begin("g", member, epoch, connection)
    except SessionRefused as refused:
        return refused.code
    return 0


def test_numbers_begin_anew_at_their_end(sessions: ShareSessions) -> None:
    session = sessions.begin("g", "m", 0, ONE)
    session.epoch = (1 << 31) - 1
    assert code(sessions, "m", (1 << 31) - 1) == 0
    assert session.epoch == 1
    assert code(sessions, "m", 1) == 0


def test_there_are_only_so_many(sessions: ShareSessions) -> None:
    for number in range(SHARE_SESSIONS_MAX):
        assert code(sessions, f"m{number}", 0) == 0
    assert code(sessions, "one more", 0) == 133
    assert code(sessions, "m7", 0, TWO) == 0, "it takes the place of its own"
    sessions.connection_lost(ONE)
    assert len(sessions) == 1
    assert code(sessions, "one more", 0) == 0


def test_a_session_reads_only_so_much(sessions: ShareSessions) -> None:
    session = sessions.begin("g", "m", 0, ONE)
    session.read((TOPIC, index) for index in range(SHARE_SESSION_PARTITIONS_MAX))
    with pytest.raises(SessionRefused, match="at most"):
        session.read([(TOPIC, SHARE_SESSION_PARTITIONS_MAX)])
    assert len(session.partitions) == SHARE_SESSION_PARTITIONS_MAX


def test_the_next_partition_is_first(sessions: ShareSessions) -> None:
    session = sessions.begin("g", "m", 0, ONE)
    session.read((TOPIC, index) for index in range(4))
    session.rotate((TOPIC, 1))
    assert [index for _, index in session.partitions] == [2, 3, 0, 1]
    session.forget([(TOPIC, 3)])
    session.rotate((TOPIC, 3))
    assert [index for _, index in session.partitions] == [2, 0, 1]


def test_whoever_leaves_has_time_to_say_what_it_has_done(
    sessions: ShareSessions, clock: ManualClock
) -> None:
    session = sessions.begin("g", "m", 0, ONE)
    hurried: list[bool] = []
    session.end_wait = lambda: hurried.append(True)
    sessions.member_gone("g", "other")
    sessions.sweep(clock.monotonic_ms() + LEAVE_MS)
    sessions.member_gone("g", "m")
    sessions.sweep(clock.monotonic_ms() + LEAVE_MS - 1)
    assert code(sessions, "m", 1) == 0
    hurried.clear()
    sessions.sweep(clock.monotonic_ms() + LEAVE_MS)
    assert (hurried, len(sessions)) == ([True], 0)
    assert session.is_closed
    assert code(sessions, "m", 2) == 122


def test_requests_are_carried_out_one_after_the_other(sessions: ShareSessions, run: Run) -> None:
    session = sessions.begin("g", "m", 0, ONE)
    told: list[str] = []
    free = asyncio.Event()

    async def first() -> None:
        async with session.taking_turns():
            told.append("first begins")
            told.append(f"pressed {session.is_pressed}")
            await free.wait()
            told.append(f"pressed {session.is_pressed}")

    async def second() -> None:
        async with session.taking_turns():
            told.append("second")

    async def story() -> None:
        tasks = [asyncio.create_task(first()), asyncio.create_task(second())]
        for _ in range(3):
            await asyncio.sleep(0)
        assert told == ["first begins", "pressed False"]
        free.set()
        await asyncio.gather(*tasks)
        assert told[2:] == ["pressed True", "second"]

    run(story())
