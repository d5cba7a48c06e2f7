"""Clients of one process that name the same place share an engine; others are told who has it."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.client.connection.urls import File, Memory
from penstock.core.errors import DirectoryInUse, InvalidRequest
from penstock.embedded.channel import EmbeddedChannel
from penstock.embedded.engine import EmbeddedEngine
from penstock.embedded.open_engines import OpenEngines
from penstock.testing.clock import ManualClock
from tests.unit.embedded.router import Asker

HOLDER = """
import asyncio, sys
from penstock.embedded.engine import EmbeddedEngine

async def hold():
    engine = await EmbeddedEngine.open(sys.argv[1])
    print("open", flush=True)
    sys.stdin.readline()
    await engine.close()

asyncio.run(hold())
"""

FORKER = """
import asyncio, os, sys
from penstock.client.connection.urls import File
from penstock.core.errors import DirectoryInUse
from penstock.embedded.channel import EmbeddedChannel

async def connect():
    return await EmbeddedChannel.open(File(sys.argv[1]))

loop = asyncio.new_event_loop()
channel = loop.run_until_complete(connect())
child = os.fork()
if child == 0:
    try:
        asyncio.run(connect())
    except DirectoryInUse as error:
        print(os.getppid(), error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
loop.run_until_complete(channel.close())
"""


def test_a_name_is_shared_and_the_last_one_closes() -> None:
    async def story() -> None:
        engines = OpenEngines()
        first = await EmbeddedChannel.open(Memory("shared"), engines=engines)
        second = await EmbeddedChannel.open(Memory("shared"), engines=engines)
        assert first.engine is second.engine
        await Asker(first).create("seen")
        await first.close()
        await first.close()
        seen = Asker(second)
        seen.name = "seen"
        assert await seen.counts() == {}
        await second.close()
        third = await EmbeddedChannel.open(Memory("shared"), engines=engines)
        assert third.engine is not second.engine, "what was in memory is gone with the last client"
        await third.close()

    asyncio.run(story())


def test_names_are_apart_and_the_nameless_are_all_apart() -> None:
    async def story() -> None:
        engines = OpenEngines()
        places = [Memory("a"), Memory("b"), Memory(""), Memory("")]
        channels = [await EmbeddedChannel.open(place, engines=engines) for place in places]
        assert len({id(channel.engine) for channel in channels}) == 4
        for channel in channels:
            await channel.close()

    asyncio.run(story())


def test_a_directory_is_one_however_it_is_written(tmp_path: Path) -> None:
    async def story() -> None:
        engines = OpenEngines()
        (tmp_path / "link").symlink_to(tmp_path / "data")
        first = await EmbeddedChannel.open(File(str(tmp_path / "data")), engines=engines)
        second = await EmbeddedChannel.open(
            File(f"{tmp_path}/link/../data/"), engines=engines
        )  # fmt: skip
        assert first.engine is second.engine
        await first.close()
        await second.close()

    asyncio.run(story())


def test_many_may_open_it_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        engines = OpenEngines()
        channels = await asyncio.gather(
            *(EmbeddedChannel.open(File(str(tmp_path)), engines=engines) for _ in range(5))
        )
        assert len({id(channel.engine) for channel in channels}) == 1
        # One more comes while the last one of them is closing.
        closing = asyncio.gather(*(channel.close() for channel in channels))
        await asyncio.sleep(0)
        late = await EmbeddedChannel.open(File(str(tmp_path)), engines=engines)
        await closing
        await Asker(late).create()
        await late.close()

    asyncio.run(story())


def test_whoever_gives_up_opening_leaves_nothing_open(tmp_path: Path) -> None:
    async def story() -> None:
        engines = OpenEngines()
        opening = asyncio.create_task(
            EmbeddedChannel.open(File(str(tmp_path)), engines=engines)
        )  # fmt: skip
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        engine = await EmbeddedEngine.open(str(tmp_path))
        await engine.close()

    asyncio.run(story())


def test_one_that_cannot_be_opened_is_not_remembered(tmp_path: Path) -> None:
    async def story() -> None:
        engines = OpenEngines()
        (tmp_path / "node").write_bytes(b"something else")
        with pytest.raises(Exception, match="node"):
            await EmbeddedChannel.open(File(str(tmp_path)), engines=engines)
        (tmp_path / "node").unlink()
        channel = await EmbeddedChannel.open(File(str(tmp_path)), engines=engines)
        await channel.close()

    asyncio.run(story())


def test_another_loop_of_this_process_is_refused() -> None:
    engines = OpenEngines()
    opened, done = threading.Event(), threading.Event()

    async def hold() -> None:
        channel = await EmbeddedChannel.open(Memory("held"), engines=engines)
        opened.set()
        await asyncio.to_thread(done.wait)
        await channel.close()

    thread = threading.Thread(target=asyncio.run, args=(hold(),), name="the-holder")
    thread.start()
    opened.wait()
    with pytest.raises(DirectoryInUse, match=r"memory:held is open .* \(thread the-holder\)"):
        asyncio.run(EmbeddedChannel.open(Memory("held"), engines=engines))
    done.set()
    thread.join()


def test_a_loop_that_ended_without_closing_gives_its_directory_up(tmp_path: Path) -> None:
    engines = OpenEngines()

    async def forgetful() -> None:
        channel = await EmbeddedChannel.open(File(str(tmp_path)), engines=engines)
        queue = Asker(channel)
        await queue.create()
        await queue.send(b"acknowledged")

    async def careful() -> None:
        channel = await EmbeddedChannel.open(File(str(tmp_path)), engines=engines)
        queue = Asker(channel)
        queue.name = "work"
        assert (await queue.counts())["ready"] == 1
        await channel.close()

    asyncio.run(forgetful())
    asyncio.run(careful())


def test_what_ended_loops_left_open_can_be_let_go_of() -> None:
    engines = OpenEngines()

    async def forgetful() -> None:
        await EmbeddedChannel.open(Memory("forgotten"), engines=engines)

    async def present() -> None:
        channel = await EmbeddedChannel.open(Memory("present"), engines=engines)
        engines.let_go_of_ended()
        await Asker(channel).create()
        await channel.close()

    before = threading.active_count()
    asyncio.run(forgetful())
    assert threading.active_count() > before
    asyncio.run(present())
    assert threading.active_count() == before


def test_another_process_is_named(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(DirectoryInUse, match=f"is in use by process {holder.pid}"):
            asyncio.run(EmbeddedChannel.open(File(str(tmp_path)), engines=OpenEngines()))
        holder.communicate("\n")
    assert holder.returncode == 0


def test_this_process_is_named_too(tmp_path: Path) -> None:
    async def story() -> None:
        engine = await EmbeddedEngine.open(str(tmp_path))
        with pytest.raises(DirectoryInUse, match="in use by this very process"):
            await EmbeddedChannel.open(File(str(tmp_path)), engines=OpenEngines())
        await engine.close()

    asyncio.run(story())


def test_what_a_parent_had_open_is_the_parents(tmp_path: Path) -> None:
    forked = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKER, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    parent, _, refusal = forked.stdout.partition(" ")
    assert f"is in use by process {parent}" in refusal


def test_one_engine_has_one_clock() -> None:
    async def story() -> None:
        engines = OpenEngines()
        clock = ManualClock()
        first = await EmbeddedChannel.open(Memory("timed"), clock=clock, engines=engines)
        second = await EmbeddedChannel.open(Memory("timed"), engines=engines)
        third = await EmbeddedChannel.open(Memory("timed"), clock=clock, engines=engines)
        with pytest.raises(InvalidRequest, match="with another clock"):
            await EmbeddedChannel.open(Memory("timed"), clock=ManualClock(), engines=engines)
        for channel in (first, second, third):
            await channel.close()

    asyncio.run(story())
