"""What `penstock doctor` finds on a machine and at a broker's HTTP port."""

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import __version__
from penstock.cli.doctor import machine as diagnosis
from penstock.cli.doctor.broker import check_http, check_version
from penstock.cli.doctor.machine import (
    Finding,
    check_clock,
    check_disk,
    check_machine,
    check_open_files,
    check_port,
    check_python,
    file_system,
    time_syncs,
)
from penstock.server.notation import Address
from tests.web_broker import WebBroker


def by_check(findings: Iterator[Finding]) -> dict[str, Finding]:
    return {one.check: one for one in findings}


def test_this_machine_can_run_a_broker(tmp_path: Path) -> None:
    found = by_check(check_machine(str(tmp_path / "not" / "there" / "yet"), {}))
    assert list(found) == ["python", "open files", "disk", "file system", "sync", "clock"]
    assert found["python"].verdict == "ok"
    assert "synced write takes" in found["sync"].found
    assert list(tmp_path.iterdir()) == [], "what was written to time the disk is gone"
    for one in found.values():
        assert bool(one.advice) == (one.verdict != "ok"), one


def test_a_disk_that_is_slow_or_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "SYNC_SLOW_MS", 0.0)
    monkeypatch.setattr(diagnosis, "FREE_FAIL_BYTES", 1 << 62)
    found = by_check(check_disk(str(tmp_path)))
    assert (found["sync"].verdict, found["disk"].verdict) == ("warn", "fail")
    monkeypatch.setattr(diagnosis, "FREE_FAIL_BYTES", 0)
    monkeypatch.setattr(diagnosis, "FREE_WARN_SHARE", 1.1)
    assert by_check(check_disk(str(tmp_path)))["disk"].verdict == "warn"


def test_file_systems_that_keep_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(diagnosis, "MOUNTS", str(mounts))
    for kind, verdict in (("tmpfs", "warn"), ("nfs4", "warn"), ("ext4", "ok")):
        mounts.write_text(f"a / rootfs rw\nb {tmp_path} {kind} rw\nc {tmp_path}-other xfs rw\n")
        assert file_system(str(tmp_path / "below")) == kind
        assert by_check(check_disk(str(tmp_path)))["file system"].verdict == verdict
    mounts.unlink()
    assert file_system(str(tmp_path)) == ""


def test_too_few_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (256, 65_536)}
    monkeypatch.setattr(resource, "getrlimit", lambda _which: limits["now"])
    assert "ulimit -n 65536" in check_open_files().advice
    limits["now"] = (256, 512)
    assert "LimitNOFILE" in check_open_files().advice
    limits["now"] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert check_open_files() == Finding("open files", "ok", "any number may be open")


def test_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        assert "is in use" in check_port("kafka", address).found
    assert "is free" in check_port("kafka", address).found
    assert check_port("http", Address("203.0.113.1", 8080)).verdict == "fail"


def test_syncs_are_timed(tmp_path: Path) -> None:
    assert len(time_syncs(str(tmp_path), 3)) == 3
    assert check_clock().verdict in ("ok", "warn")
    assert check_python().found.startswith("Python 3.")


def test_versions() -> None:
    assert check_version(__version__).verdict == "ok"
    assert check_version("0.0.1").verdict == "warn"


def test_a_broker_that_is_well_and_one_that_is_not_there(tmp_path: Path) -> None:
    import time

    with WebBroker(tmp_path) as broker:
        found = by_check(check_http(broker.http, now=time.time(), wanted=True))
        assert {name: one.verdict for name, one in found.items()} == {
            "http": "ok",
            "broker's clock": "ok",
            "cluster": "ok",
        }
        late = by_check(check_http(broker.http, now=time.time() + 60, wanted=True))
        assert late["broker's clock"].verdict == "warn"
        assert "behind ours" in late["broker's clock"].found
        gone = broker.http
    for wanted, verdict in ((True, "fail"), (False, "warn")):
        (nobody,) = check_http(gone, now=0.0, wanted=wanted)
        assert (nobody.verdict, nobody.check) == (verdict, "http")
        assert "penstock dev" in nobody.advice
