"""The loop behind a blocking client: results, errors, Ctrl-C, threads, forks, and the end."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client.blocking.loop_thread import LoopThread
from penstock.core.errors import ClientClosed, InvalidRequest, UnknownTopic

PATIENCE_SECONDS = 60.0


async def nothing() -> None:
    """The last thing a client does."""


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close(nothing)


def test_a_call_returns_what_its_coroutine_returns(thread: LoopThread) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert thread.run(answer()) == 42
    assert thread.call(threading.current_thread).name == "penstock-client"


def test_a_call_raises_what_its_coroutine_raises(thread: LoopThread) -> None:
    async def fail() -> None:
        raise UnknownTopic("there is none")

    with pytest.raises(UnknownTopic, match="there is none"):
        thread.run(fail())


def test_many_threads_have_calls_under_way_together(thread: LoopThread) -> None:
    async def make_barrier() -> asyncio.Barrier:
        return asyncio.Barrier(8)

    barrier = thread.run(make_barrier())

    async def meet() -> int:
        return await barrier.wait()

    with ThreadPoolExecutor(8) as threads:
        met = list(threads.map(lambda _: thread.run(meet()), range(8), timeout=PATIENCE_SECONDS))
    assert sorted(met) == list(range(8))


def test_closing_twice_is_closing_once_and_later_calls_are_told(thread: LoopThread) -> None:
    closings: list[str] = []

    async def last() -> None:
        closings.append("closed")

    thread.close(last)
    thread.close(last)
    assert closings == ["closed"]
    assert thread.is_closed()
    assert not any(one.name == "penstock-client" for one in threading.enumerate())
    with pytest.raises(ClientClosed, match="connect anew"):
        thread.run(nothing())


def test_a_call_under_way_when_it_is_closed_is_told(thread: LoopThread) -> None:
    under_way = threading.Event()

    async def wait_for_ever() -> None:
        under_way.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(thread.run, wait_for_ever())
        assert under_way.wait(PATIENCE_SECONDS)
        thread.close(nothing)
        with pytest.raises(ClientClosed, match="while this call was under way"):
            call.result(PATIENCE_SECONDS)


def test_it_ends_even_if_the_last_thing_fails() -> None:
    thread = LoopThread()

    async def fail() -> None:
        raise UnknownTopic("no")

    with pytest.raises(UnknownTopic):
        thread.close(fail)
    assert thread.is_closed()


def test_calls_never_hang_however_they_meet_the_closing() -> None:
    for _ in range(20):
        thread = LoopThread()

        def hammer(thread: LoopThread = thread) -> str:
            while True:
                try:
                    thread.run(nothing())
                except ClientClosed:
                    return "told"

        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(hammer) for _ in range(4)]
            thread.close(nothing)
            assert [call.result(PATIENCE_SECONDS) for call in calls] == ["told"] * 4


def test_a_blocking_call_on_the_loop_itself_is_refused(thread: LoopThread) -> None:
    async def call_again() -> None:
        thread.run(nothing())

    with pytest.raises(InvalidRequest, match="wait for itself"):
        thread.run(call_again())


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, since it forks, is interrupted, or forgets to close."""
    begin = """
        import asyncio, os, signal, sys, threading
        from penstock.client.blocking.loop_thread import LoopThread, close_at_exit
        from penstock.core.errors import ClientClosed

        async def nothing() -> None: pass
    """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.slow
def test_ctrl_c_ends_the_wait_and_cancels_the_call() -> None:
    done = run_script("""
        async def wait() -> None:
            threading.Timer(0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                print("cancelled", flush=True)
                raise

        thread = LoopThread()
        try:
            thread.run(wait())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        thread.run(nothing())
        thread.close(nothing)
        print("closed")
    """)
    assert (done.returncode, done.stdout.split()) == (0, ["cancelled", "interrupted", "closed"])
    assert done.stderr == ""


@pytest.mark.slow
def test_a_child_is_told_to_connect_anew_and_the_parent_goes_on() -> None:
    done = run_script("""
        thread = LoopThread()
        close_at_exit(lambda: thread.close(nothing))
        child = os.fork()
        if child == 0:
            try:
                thread.run(nothing())
            except ClientClosed as told:
                print("child:", told, flush=True)
            sys.exit(0)
        os.waitpid(child, 0)
        thread.run(nothing())
        print("parent: fine")
    """)
    child, parent = done.stdout.splitlines()
    assert child == (
        "child: This client was connected before the process was forked, and belongs to the"
        " parent: connect anew in the child."
    )
    assert (done.returncode, parent) == (0, "parent: fine")


@pytest.mark.slow
def test_what_is_left_open_is_closed_at_exit() -> None:
    done = run_script("""
        async def last() -> None:
            await asyncio.sleep(0)
            print("given back", flush=True)

        thread = LoopThread()
        close_at_exit(lambda: thread.close(last))
        print("end of the program", flush=True)
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["end of the program", "given back"]
