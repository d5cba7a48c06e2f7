"""SQS at length: a broker that is killed many times, many message groups, bodies that never end."""

import socket
from pathlib import Path
from random import Random

import pytest

from tests.interop.query import read
from tests.interop.served import serving
from tests.interop.sqs_groups import work_off_groups
from tests.interop.sqs_traffic import run_under_kills

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

KILLS = 15
GROUPS = 10_000
SLOW_SECONDS_MAX = 60


@pytest.mark.parametrize("seed", range(3))
def test_what_was_answered_outlives_many_kills(tmp_path: Path, seed: int) -> None:
    with serving(tmp_path) as served:
        ledger = run_under_kills(served, KILLS, Random(seed))
    print(f"{len(ledger.sent)} sent, {len(ledger.deleted)} deleted, {KILLS} kills")
    assert len(ledger.deleted) > 1_000
    assert not ledger.problems()


def test_ten_thousand_groups(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        work_off_groups(served, GROUPS, 2)


def test_a_body_that_does_not_come_is_told_so(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        host, _, port = served.http.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=SLOW_SECONDS_MAX) as slow:
            slow.sendall(
                b"POST / HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/x-www-form-urlencoded\r\n"
                b"Content-Length: 1000\r\n\r\nAction="
            )
            said = slow.recv(65_536)
            assert said.startswith(b"HTTP/1.1 408 ")
            document = read(408, said.partition(b"\r\n\r\n")[2])
            assert document.text("Code") == "RequestTimeout"
            assert slow.recv(1) == b""
