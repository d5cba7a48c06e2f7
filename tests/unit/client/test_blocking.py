"""The client without `await`: the whole way, from several threads, with Ctrl-C, and at the end."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock import Outgoing, blocking
from penstock.client.blocking import BlockingClient, BlockingMessage
from penstock.core.errors import ClientClosed, InvalidBody, InvalidUrl, UnknownTopic
from penstock.testing.clock import ManualClock

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client(clock: ManualClock) -> Iterator[BlockingClient]:
    with blocking.connect("memory:", clock=clock) as connected:
        yield connected


def test_what_is_sent_is_received_and_settled(client: BlockingClient, clock: ManualClock) -> None:
    sent = client.send("orders", {"id": 7}, key="k", headers={"trace": "abc"})
    (message,) = client.receive("orders", wait=60)
    assert message.body == {"id": 7}
    assert (message.id, message.key, message.deliveries) == (sent.id, b"k", 1)
    assert message.release(delay=10)
    assert client.receive("orders") == []
    clock.advance(seconds=11)
    (message,) = client.receive("orders")
    assert message.deliveries == 2
    assert message.extend(60)
    assert message.ack()
    assert not message.ack()
    assert client.queue("orders").stats().acked == 1


def test_many_are_sent_received_and_acked_at_once(client: BlockingClient) -> None:
    queue = client.queue("orders", codec=bytes)
    queue.create(partitions=2)
    assert len(queue.send_many(b"%d" % number for number in range(1_000))) == 1_000
    messages: list[BlockingMessage[bytes]] = []
    while len(messages) < 1_000:
        messages += queue.receive(1_000)
    assert queue.ack(messages) == 1_000
    assert queue.ack(messages[0]) == 0


def test_a_queue_is_iterated_with_for(client: BlockingClient) -> None:
    queue = client.queue("orders", codec=str)
    queue.create(partitions=1)
    queue.send_many(["a", "b", Outgoing("c", key="k"), "d", "e"])
    seen: list[str] = []
    with queue.consume(prefetch=10) as consumer:
        for message in consumer:
            seen.append(message.body)
            message.ack()
            if message.body == "c":
                break
    assert seen == ["a", "b", "c"]
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.acked) == (2, 0, 3)
    assert {message.deliveries for message in queue.receive(10)} == {1}


def test_a_consumer_closed_by_another_thread_ends_the_loop(client: BlockingClient) -> None:
    consumer = client.queue("orders").consume(create=True)
    with ThreadPoolExecutor(1) as threads:
        seen = threads.submit(list, consumer)
        consumer.close()
        assert seen.result(PATIENCE_SECONDS) == []


def test_a_log_is_read_and_subscribed_to(client: BlockingClient) -> None:
    topic = client.topic("events", codec=str)
    topic.create(partitions=1)
    topic.send_many([f"{number}" for number in range(1_200)])
    records = [record.body for record in topic.read()]
    assert records == [f"{number}" for number in range(1_200)]
    assert [record.body for record in client.read("events", start={0: 1_199}, codec=str)] == [
        "1199"
    ]
    assert topic.ends() == {0: 1_200}
    seen: list[str] = []
    with client.subscribe("events", group="billing", codec=str) as subscription:
        for record in subscription:
            seen.append(record.body)
            if len(seen) == 3:
                break
        assert subscription.commit()
        assert len(subscription.assignment) == 1
    with client.subscribe("events", group="billing", codec=str) as subscription:
        assert [record.body for record in subscription.fetch(2, wait=60)] == ["3", "4"]


def test_a_replay_that_is_left_early_ends(client: BlockingClient) -> None:
    topic = client.topic("events", codec=str)
    topic.create(partitions=1)
    topic.send_many(["x"] * 2_000)
    for _ in topic.read():
        break
    assert next(topic.read()).body == "x"


def test_many_threads_share_a_client(client: BlockingClient) -> None:
    queue = client.queue("orders", codec=str)
    queue.create(partitions=2)

    def work(worker: int) -> set[str]:
        for number in range(20):
            queue.send(f"{worker}:{number}")
        mine: set[str] = set()
        while messages := queue.receive(5):
            mine |= {message.body for message in messages}
            queue.ack(messages)
        return mine

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(8), timeout=PATIENCE_SECONDS))
    rest = {message.body for message in queue.receive(1_000)}
    everything = set.union(rest, *found)
    assert everything == {f"{worker}:{number}" for worker in range(8) for number in range(20)}
    assert sum(map(len, found)) + len(rest) == 160


def test_errors_come_through(client: BlockingClient) -> None:
    with pytest.raises(UnknownTopic):
        client.describe_queue("nowhere")
    with pytest.raises(InvalidBody):
        client.send("orders", object())
    with pytest.raises(InvalidUrl):
        blocking.connect("kafka://one")


def test_a_generator_of_bodies_runs_on_the_callers_thread(client: BlockingClient) -> None:
    threads: set[int] = set()

    def bodies() -> Iterator[bytes]:
        for number in range(3):
            threads.add(threading.get_ident())
            yield b"%d" % number

    assert len(client.send_many("orders", bodies())) == 3
    client.open_stage().send_many("orders", bodies())
    assert threads == {threading.get_ident()}


def test_a_closed_client_says_so_and_leaves_no_thread(client: BlockingClient) -> None:
    queue = client.queue("orders")
    queue.send("x")
    (message,) = queue.receive()
    consumer = queue.consume()
    client.close()
    client.close()
    consumer.close()
    for call in (queue.stats, message.ack, client.topics, lambda: client.queue("orders")):
        with pytest.raises(ClientClosed):
            call()
    assert not [one for one in threading.enumerate() if one.name == "penstock-client"]


def test_a_connection_that_fails_leaves_no_thread() -> None:
    with pytest.raises(Exception, match="cannot connect"):
        blocking.connect("penstock://127.0.0.1:1")
    assert not [one for one in threading.enumerate() if one.name == "penstock-client"]


def run_script(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, since it forks, is interrupted, or forgets to close."""
    begin = "import os, signal, sys, threading\nfrom penstock import blocking\n"
    return subprocess.run(
        [sys.executable, "-c", begin + textwrap.dedent(text), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )


def test_ctrl_c_ends_a_wait_for_messages() -> None:
    done = run_script("""
        with blocking.connect("memory:") as client:
            queue = client.queue("orders")
            queue.create()
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                for message in queue:
                    print("a message?")
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            queue.send("x")
            print(queue.receive()[0].body)
    """)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["interrupted", "x"], "")


def test_a_program_that_forgets_to_close_ends_and_loses_nothing(tmp_path: Path) -> None:
    done = run_script(
        """
        client = blocking.connect(f"file:{sys.argv[1]}")
        queue = client.queue("orders", codec=str)
        queue.create(partitions=1)
        queue.send_many(["a", "b", "c"])
        consumer = iter(queue)
        next(consumer).ack()
        print("end", flush=True)
        """,
        str(tmp_path / "data"),
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["end"], "")
    with blocking.connect(f"file:{tmp_path / 'data'}") as client:
        messages = client.queue("orders", codec=str).receive(10)
        assert [message.body for message in messages] == ["b", "c"]
        assert {message.deliveries for message in messages} == {1}


def test_a_forked_child_is_told_to_connect_anew() -> None:
    done = run_script("""
        client = blocking.connect("memory:")
        child = os.fork()
        if child == 0:
            try:
                client.topics()
            except Exception as told:
                print(type(told).__name__, flush=True)
            with blocking.connect("memory:") as own:
                own.send("orders", "x")
                print(own.receive("orders")[0].body, flush=True)
            sys.exit(0)
        os.waitpid(child, 0)
        client.send("orders", "y")
        print(client.receive("orders")[0].body)
        client.close()
    """)
    assert (done.returncode, done.stdout.split(), done.stderr) == (
        0,
        ["ClientClosed", "x", "y"],
        "",
    )
