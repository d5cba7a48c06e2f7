"""`penstock bench`: its loads on an engine in memory, its reports, and that it leaves nothing."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import penstock
from penstock.cli import bench_loads
from penstock.cli.bench_loads import SAMPLES_MAX, Samples
from penstock.cli.main import run
from penstock.core.errors import Unavailable

Captured = pytest.CaptureFixture[str]
MEMORY = "memory:bench"


@asynccontextmanager
async def queue_of_a_client() -> AsyncIterator[penstock.Queue[bytes]]:
    async with penstock.connect(MEMORY) as client:
        await client.create_queue("jobs")
        yield client.queue("jobs", codec=bytes)


def ticking() -> Iterator[float]:
    """A clock on which each look takes a hundredth of a second."""
    return (number / 100 for number in itertools.count())


def test_producing_and_consuming_count_every_message() -> None:
    async def load() -> None:
        told: list[int] = []
        clock = ticking()
        async with queue_of_a_client() as queue:
            sent = await bench_loads.produce(
                [queue, queue],
                messages=25,
                batch=10,
                size_bytes=7,
                progress=told.append,
                now=clock.__next__,
            )
            assert (sent.messages, sorted(told)) == (25, [5, 10, 10])
            assert sent.seconds == pytest.approx(0.07), "two looks for each of three calls, and two"
            assert (await queue.stats()).sent == 25
            assert {len(one.raw) for one in await queue.peek(25)} == {7}
            told.clear()
            done = await bench_loads.consume(
                [queue], messages=25, batch=10, progress=told.append, now=clock.__next__
            )
            assert (done.messages, told) == (25, [10, 10, 5])
            assert done.calls.most == pytest.approx(0.01)
            assert (await queue.stats()).acked == 25

    asyncio.run(load())


def test_latencies_are_from_when_a_message_was_due() -> None:
    """All are due at once, and time passes only when it is looked at."""

    async def load() -> None:
        clock = ticking()
        async with queue_of_a_client() as queue:
            found = await bench_loads.latency(
                queue,
                queue,
                messages=20,
                rate=1e9,
                size_bytes=50,
                progress=lambda _: None,
                now=clock.__next__,
            )
            assert len(found.sent.values) == len(found.received.values) == 20
            assert 0.01 <= found.sent.quantile(0.5) <= found.sent.most <= found.seconds
            assert (await queue.stats()).acked == 20

    asyncio.run(load())


def test_a_failing_sender_ends_the_receiver() -> None:
    class Failing:
        async def send(self, _body: bytes) -> None:
            raise Unavailable("the broker has gone")

    async def load() -> None:
        async with queue_of_a_client() as queue:
            with pytest.raises(Unavailable, match="has gone"):
                await bench_loads.latency(
                    Failing(),  # type: ignore[arg-type]
                    queue,
                    messages=5,
                    rate=1e9,
                    size_bytes=50,
                    progress=lambda _: None,
                )
            assert len(asyncio.all_tasks() - {asyncio.current_task()}) < 50

    asyncio.run(load())


def test_samples_are_bounded_and_even() -> None:
    samples = Samples()
    count = 3 * SAMPLES_MAX
    for number in range(count):
        samples.add(float(number))
    assert len(samples.values) < SAMPLES_MAX
    assert samples.most == count - 1
    assert samples.quantile(0.5) == pytest.approx(count / 2, rel=0.01)
    assert samples.quantile(0.99) == pytest.approx(count * 0.99, rel=0.01)
    assert Samples().quantile(0.5) == 0


def told(capsys: Captured, *arguments: str) -> str:
    capsys.readouterr()
    assert run(["bench", *arguments, "--url", MEMORY]) == 0, capsys.readouterr().err
    output = capsys.readouterr()
    assert output.err == "", "no bar where there is no terminal"
    return output.out


def test_reports_for_people(capsys: Captured) -> None:
    lines = told(capsys, "produce", "--messages", "2000", "--batch", "500").splitlines()
    assert lines[0].startswith("2,000 messages sent in ")
    assert "messages/s, " in lines[1]
    assert lines[2].startswith("each call: p50 ")
    lines = told(capsys, "consume", "--messages", "1000", "--clients", "2").splitlines()
    assert lines[0].startswith("1,000 messages received and acknowledged in ")
    lines = told(capsys, "latency", "--messages", "20", "--rate", "100000").splitlines()
    assert lines[0] == "20 messages at 100,000/s"
    assert lines[1].startswith("send:            p50 ")
    assert lines[2].startswith("send to receive: p50 ")


def test_reports_for_programs(capsys: Captured) -> None:
    sent = msgspec.json.decode(told(capsys, "produce", "--messages", "100", "--json"))
    assert sent["messages"] == 100
    rate = sent["messages_per_second"]
    assert rate == pytest.approx(100 / sent["seconds"])
    assert sent["megabytes_per_second"] == pytest.approx(rate * 100 / 1e6)
    assert set(sent["call"]) == {"p50_ms", "p99_ms", "max_ms"}
    found = msgspec.json.decode(
        told(capsys, "latency", "--messages", "5", "--rate", "100000", "--json")
    )
    assert found["send"]["p50_ms"] <= found["send"]["max_ms"]
    assert found["receive"]["p99_ms"] > 0


def topics_of(url: str) -> list[str]:
    async def ask() -> list[str]:
        async with penstock.connect(url) as client:
            return [one.name for one in await client.topics()]

    return asyncio.run(ask())


@pytest.mark.slow
def test_nothing_is_left_behind(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file:{tmp_path / 'data'}"
    assert run(["bench", "produce", "--messages", "10", "--url", url]) == 0
    assert topics_of(url) == []

    async def fail(*_: object, **__: object) -> None:
        raise Unavailable("the broker has gone")

    monkeypatch.setattr(bench_loads, "produce", fail)
    assert run(["bench", "produce", "--messages", "10", "--url", url]) == 1
    assert "the broker has gone" in capsys.readouterr().err
    assert topics_of(url) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("produce", "--messages", "0"), "--messages must be from 1 to 1,000,000,000, not 0"),
        (("produce", "--batch", "1000000"), "--batch must be from 1 to 100,000"),
        (("consume", "--clients", "0"), "--clients must be from 1"),
        (("produce", "--size", "2MiB"), "--size must be from 1"),
        (("produce", "--size", "much"), "must be a size such as"),
        (("latency", "--rate", "0"), "--rate must be above 0"),
        (("latency", "--size", "4"), "--size must be at least 8"),
    ],
)
def test_what_is_refused(capsys: Captured, arguments: tuple[str, ...], complaint: str) -> None:
    assert run(["bench", *arguments, "--url", MEMORY]) == 2
    assert complaint in capsys.readouterr().err


def test_no_broker(capsys: Captured) -> None:
    assert run(["bench", "produce", "--url", "penstock://127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
