"""ListOffsets: both ends, times, and the latest message."""

import pytest

from penstock.core.batch_times import first_message_from
from penstock.kafka import api_02_list_offsets
from penstock.kafka.codec import Message
from tests.batches import build_batch
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.test_api_00_produce import request as produce_request

ALL = range(1, 12)


def look(ask: Asker, version: int, topic: str, time_ms: int, **more: object) -> Message:
    row = {"partition_index": 0, "timestamp": time_ms, **more}
    fields = {"replica_id": -1, "topics": [{"name": topic, "partitions": [row]}]}
    (found,) = ask(2, version, fields).topics[0].partitions
    assert isinstance(found, Message)
    return found


def filled(ask: Asker, name: str, *times: int, compression: int = 0) -> None:
    ask.create_topic(name)
    for time_ms in times:
        batch = bytes(build_batch(3, timestamp=time_ms, compression=compression))
        (answer,) = ask(0, 9, produce_request(name, batch)).responses
        assert answer.partition_responses[0].error_code == 0


@pytest.mark.parametrize("version", ALL)
def test_both_ends(ask: Asker, version: int) -> None:
    name = f"list-{version}"
    filled(ask, name, 1_000, 2_000)
    latest = look(ask, version, name, -1)
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 6, -1)
    assert (latest.leader_epoch >= 1) == (version >= 4)
    assert look(ask, version, name, -2).offset == 0
    assert look(ask, version, name, -2).leader_epoch == latest.leader_epoch


@pytest.mark.parametrize("version", ALL)
def test_special_times_have_versions(ask: Asker, version: int) -> None:
    name = f"list-special-{version}"
    filled(ask, name, 1_000, 2_000)
    for time_ms, known_from, offset in ((-3, 7, 5), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)):
        row = look(ask, version, name, time_ms)
        expected = (0, offset) if version >= known_from else (35, -1)
        assert (row.error_code, row.offset) == expected
    for unknown in (-7, -(1 << 63)):
        assert look(ask, version, name, unknown).error_code == 35


def test_epochs_of_what_is_found(ask: Asker) -> None:
    filled(ask, "list-epochs", 1_000, 2_000)
    term = look(ask, 8, "list-epochs", -1).leader_epoch
    assert [look(ask, 8, "list-epochs", one).leader_epoch for one in (-4, -3, -2, 1_001)] == [
        term
    ] * 4
    assert look(ask, 8, "list-epochs", 9_000).leader_epoch == -1


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_the_first_message_from_a_time_on(ask: Asker, compression: int) -> None:
    name = f"list-times-{compression}"
    filled(ask, name, 1_000, 2_000, 1_500, 3_000, compression=compression)
    for time_ms, offset, found_ms in (
        (0, 0, 1_000),
        (1_001, 1, 1_001),
        (1_003, 3, 2_000),
        (2_001, 4, 2_001),
        (2_003, 9, 3_000),
        (3_002, 11, 3_002),
        (3_003, -1, -1),
    ):
        row = look(ask, 7, name, time_ms)
        assert (row.offset, row.timestamp) == (offset, found_ms), time_ms


def test_the_latest_message(ask: Asker) -> None:
    filled(ask, "list-latest")
    row = look(ask, 7, "list-latest", -3)
    assert (row.offset, row.timestamp) == (-1, -1)
    filled(ask, "list-latest-2", 1_000, 5_000, 2_000)
    row = look(ask, 7, "list-latest-2", -3)
    assert (row.offset, row.timestamp) == (5, 5_002)


def test_a_partition_is_looked_at_once(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(ask, "list-often", 1_000, 2_000, compression=4)
    opened: list[int] = []

    def count(batches: bytes, time_ms: int, log_start: int) -> tuple[int, int] | None:
        opened.append(time_ms)
        return first_message_from(batches, time_ms, log_start)

    monkeypatch.setattr(api_02_list_offsets, "first_message_from", count)
    row = {"partition_index": 0, "timestamp": 1_001}
    rows = [row] * 20_000 + [{"partition_index": 0, "timestamp": 1_002}]
    fields = {"replica_id": -1, "topics": [{"name": "list-often", "partitions": rows}] * 2}
    for topic in ask(2, 7, fields).topics:
        found = [(one.error_code, one.offset) for one in topic.partitions]
        assert found == [(0, 1)] * 20_000 + [(42, -1)]
    assert opened == [1_001]


def test_what_is_not_there(ask: Asker) -> None:
    assert look(ask, 7, "list-nowhere", -1).error_code == 3
    filled(ask, "list-epoch", 1_000)
    assert look(ask, 7, "list-epoch", -1, partition_index=5).error_code == 3
    epoch = look(ask, 7, "list-epoch", -1).leader_epoch
    assert look(ask, 7, "list-epoch", -1, current_leader_epoch=epoch).error_code == 0
    assert look(ask, 7, "list-epoch", -1, current_leader_epoch=epoch + 1).error_code == 75
    assert look(ask, 7, "list-epoch", -1, current_leader_epoch=epoch - 1).error_code == 74


def test_the_start_moves_with_what_is_deleted(ask: Asker) -> None:
    filled(ask, "list-trim", 1_000, 2_000)
    ask(
        21,
        0,
        {"topics": [{"name": "list-trim", "partitions": [{"partition_index": 0, "offset": 4}]}]},
    )
    assert look(ask, 7, "list-trim", -2).offset == 4
    assert look(ask, 7, "list-trim", 0).offset == 4
    row = look(ask, 7, "list-trim", 0)
    assert (row.offset, row.timestamp) == (4, 2_001), "the first that is not deleted"
    rows = [{"partition_index": 0, "offset": 6}]
    ask(21, 0, {"topics": [{"name": "list-trim", "partitions": rows}]})
    for time_ms in (0, -3):
        row = look(ask, 7, "list-trim", time_ms)
        assert (row.offset, row.timestamp, row.leader_epoch) == (-1, -1, -1)
