"""The cluster key with real nodes: founding, joining, upgrading from 0.1, replacing the key."""

import asyncio
import contextlib
import os
import stat
from functools import partial
from pathlib import Path

import msgspec
import pytest

from penstock.core.errors import DamagedFile, DirectoryRefused, InvalidRequest, Unavailable
from penstock.core.types import CATALOG_SHARD, NodeId
from penstock.engine.cluster.keys.key_distribution import ROLLOUT_TICKS
from penstock.engine.cluster.keys.key_store import KEY_FILE, create_key_file
from penstock.engine.cluster.node import Node
from penstock.engine.cluster.node_file import load_node_file, store_node_file
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.peers.cluster_key import draw_key
from penstock.engine.peers.frames import FrameKind, encode_frame
from penstock.machines.catalog import Topic
from penstock.server.reserved_ports import ReservedPorts
from penstock.storage import RealDisk
from tests.unit.engine.linked import hello
from tests.unit.engine.nodes import LOG, Nodes, until

HOST = "127.0.0.1"


def settings(path: Path, node: int, port: int, cluster: dict[NodeId, str]) -> NodeSettings:
    return NodeSettings(
        data=str(path / f"node-{node}"),
        node_id=NodeId(node),
        cluster=cluster,
        peer_port=port,
        shards=1,
        tick_ms=20,
        log=LOG,
    )


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


def forget_key(path: Path, *numbers: int) -> None:
    """Make a directory what release 0.1 has left."""
    for number in numbers:
        directory = str(path / f"node-{number}")
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(directory, KEY_FILE))
        file = load_node_file(RealDisk(), directory)
        assert file is not None
        store_node_file(RealDisk(), directory, msgspec.structs.replace(file, keyed=False))


def keyed(path: Path, number: int) -> bool:
    file = load_node_file(RealDisk(), str(path / f"node-{number}"))
    return file is not None and file.keyed


def copy_at_rest(directory: Path, target: Path) -> None:
    """Copy a directory whose node is running: what a crash at this moment would leave.

    A file read before and one read after a write make a state that no crash leaves, so all are
    read until two readings in a row are equal.
    """
    last: dict[Path, bytes] = {}
    while True:
        with contextlib.suppress(FileNotFoundError):  # Replaced while it was listed.
            found = {each: each.read_bytes() for each in directory.rglob("*") if each.is_file()}
            if found == last:
                break
            last = found
    for file, content in last.items():
        copy = target / file.relative_to(directory)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)


async def pass_ticks(node: Node, count: int) -> None:
    """Let a node look after things so often."""
    end = node._ticks + count
    await until(lambda: node._ticks >= end)


async def produce_until(nodes: Nodes, topic: Topic, stop: asyncio.Event) -> int:
    """Produce one message after the other; how many were acknowledged."""
    count = 0
    while not stop.is_set():
        await nodes.produce(topic, 0, b"message %d" % count)
        count += 1
    return count


def test_a_node_alone_draws_a_key_and_listens_to_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        with contextlib.closing(ReservedPorts(2)) as ports:
            first, second = ports
            lone = settings(tmp_path, 1, first, {})
            node = await Node.open(lone)
            await node.register(kafka="k:1", http="")
            await until(lambda: node.health().ready)
            key = tmp_path / "node-1" / KEY_FILE
            assert stat.S_IMODE(key.stat().st_mode) == 0o600
            assert keyed(tmp_path, 1)
            assert not await listens(first)
            # A second node is to join: now the port is opened, and stays so after a restart.
            await node.cluster.add_node(NodeId(2), f"{HOST}:{second}")
            assert await listens(first)
            await node.close()
            node = await Node.open(lone)
            assert await listens(first)
            addresses = {NodeId(1): f"{HOST}:{first}", NodeId(2): f"{HOST}:{second}"}
            joining = settings(tmp_path, 2, second, addresses)
            with pytest.raises(DirectoryRefused, match="--cluster-key-file"):
                await Node.open(joining)
            other = await Node.open(msgspec.structs.replace(joining, cluster_key_file=str(key)))
            await other.register(kafka="k:2", http="")
            await until(lambda: other.health().ready)
            await until(lambda: node.engine.topics.alive() == {1, 2})
            await asyncio.gather(node.close(), other.close())

    asyncio.run(story())


def test_a_node_that_was_alone_listens_again_after_a_crash(tmp_path: Path) -> None:
    """No snapshot tells its catalog of the other node yet, and its log is not applied: without the
    other, which has to find it, it has no leader."""

    async def story() -> None:
        with contextlib.closing(ReservedPorts(2)) as ports:
            first, second = ports
            lone = settings(tmp_path, 1, first, {})
            node = await Node.open(lone)
            await node.register(kafka="k:1", http="")
            await until(lambda: node.health().ready)
            await node.cluster.add_node(NodeId(2), f"{HOST}:{second}")
            await asyncio.to_thread(copy_at_rest, Path(lone.data), tmp_path / "added")
            addresses = {NodeId(1): f"{HOST}:{first}", NodeId(2): f"{HOST}:{second}"}
            joining = settings(tmp_path, 2, second, addresses)
            key = str(tmp_path / "node-1" / KEY_FILE)
            other = await Node.open(msgspec.structs.replace(joining, cluster_key_file=key))
            await other.register(kafka="k:2", http="")
            await until(lambda: other.health().ready)
            shard = node.shards.get(CATALOG_SHARD)
            assert shard is not None
            await until(lambda: len(shard.replica.raft.membership.voters) == 2)
            await asyncio.to_thread(copy_at_rest, Path(lone.data), tmp_path / "joined")
            await asyncio.gather(node.close(), other.close())
            for copy in ("added", "joined"):
                node = await Node.open(msgspec.structs.replace(lone, data=str(tmp_path / copy)))
                await until(partial(getattr, node, "_listens"))
                assert await listens(first)
                await node.close()

    asyncio.run(story())


def test_a_port_that_is_taken_is_told_to_whoever_adds_a_node(tmp_path: Path) -> None:
    async def story() -> None:
        with contextlib.closing(ReservedPorts(1)) as ports:
            (port,) = ports
            node = await Node.open(settings(tmp_path, 1, port, {}))
            await until(lambda: node.health().ready)
            server = await asyncio.start_server(lambda _r, w: w.close(), HOST, port)
            with pytest.raises(InvalidRequest, match="cannot listen for other nodes"):
                await node.cluster.add_node(NodeId(2), f"{HOST}:1")
            assert list(node.engine.topics.catalog.nodes) == [1]
            server.close()
            await node.close()

    asyncio.run(story())


def test_nodes_without_a_key_do_not_found_a_cluster(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = {NodeId(1): f"{HOST}:1", NodeId(2): f"{HOST}:2"}
        with pytest.raises(DirectoryRefused, match="penstock cluster key create"):
            await Node.open(settings(tmp_path, 1, 0, nodes))
        missing = msgspec.structs.replace(
            settings(tmp_path, 1, 0, nodes), cluster_key_file=str(tmp_path / "nothing")
        )
        with pytest.raises(InvalidRequest, match="nothing cannot be read"):
            await Node.open(missing)

    asyncio.run(story())


def test_a_key_that_is_lost_is_not_forgotten(tmp_path: Path) -> None:
    async def story() -> None:
        lone = settings(tmp_path, 1, 0, {})
        node = await Node.open(lone)
        await node.close()
        os.remove(tmp_path / "node-1" / KEY_FILE)
        with pytest.raises(DirectoryRefused, match="cluster-key is missing"):
            await Node.open(lone)
        (tmp_path / "node-1" / KEY_FILE).write_text(draw_key().hex())
        with pytest.raises(DamagedFile, match="does not match its checksum"):
            await Node.open(lone)

    asyncio.run(story())


def test_a_cluster_of_0_1_gets_a_key_while_it_works_and_keeps_it(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, (1, 2, 3))
        await nodes.start()
        await nodes.stop()
        forget_key(tmp_path, 1, 2, 3)
        nodes.has_key_file = False
        await nodes.start(1, 2)
        topic = await nodes[1].engine.topics.create_topic("t", 1, {})
        await pass_ticks(nodes[1], 5 * ROLLOUT_TICKS)
        assert not keyed(tmp_path, 1), "node 3 may still be one of 0.1"
        stop = asyncio.Event()
        nodes.lines.clear()
        producing = asyncio.create_task(produce_until(nodes, topic, stop))
        await nodes.start(3)
        await until(lambda: all(keyed(tmp_path, number) for number in (1, 2, 3)))
        await until(lambda: all(len(node._links.proven()) == 2 for node in nodes.running.values()))
        stop.set()
        assert await producing > 0
        keys = {(tmp_path / f"node-{number}" / KEY_FILE).read_bytes() for number in (1, 2, 3)}
        assert len(keys) == 1
        assert not [line for line in nodes.lines if "lost the link" in line]
        await nodes.stop()
        await nodes.start(1, 2)  # Without the third it is required as well.
        assert nodes[1].keys.status().required
        await nodes.stop()

    asyncio.run(story())


def test_key_files_make_a_cluster_of_0_1_require_them_and_never_travel(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, (1, 2, 3))
        await nodes.start()
        await nodes.stop()
        forget_key(tmp_path, 1, 2, 3)
        await nodes.start(1, 2)
        nodes.has_key_file = False
        await nodes.start(3)
        await pass_ticks(nodes[1], 5 * ROLLOUT_TICKS)
        assert not nodes[1].keys.status().required
        assert not nodes[3].keys.status().fingerprints
        await nodes.stop(3)
        nodes.has_key_file = True
        await nodes.start(3)
        await until(lambda: all(node.keys.status().required for node in nodes.running.values()))
        assert not (tmp_path / "node-3" / KEY_FILE).exists()
        await nodes.stop()

    asyncio.run(story())


def test_the_key_is_replaced_under_load(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, (1, 2, 3))
        await nodes.start()
        await nodes.stop()
        forget_key(tmp_path, 1, 2, 3)
        nodes.has_key_file = False
        await nodes.start()
        await until(lambda: all(node.keys.status().required for node in nodes.running.values()))
        topic = await nodes[1].engine.topics.create_topic("t", 1, {})
        stop = asyncio.Event()
        nodes.lines.clear()
        producing = asyncio.create_task(produce_until(nodes, topic, stop))
        before = nodes[1].keys.status().fingerprints
        for number in (1, 2, 3):
            status = await nodes[number].keys.rotate()
            (name,) = status.fingerprints
            assert name not in before
            before = status.fingerprints
            assert {node.keys.status().fingerprints for node in nodes.running.values()} == {before}
        await until(lambda: all(len(node._links.proven()) == 2 for node in nodes.running.values()))
        stop.set()
        assert await producing > 0
        assert not [line for line in nodes.lines if "lost the link" in line]
        # With a node that is down it is refused, and nothing has changed.
        await nodes.stop(3)
        await until(lambda: nodes[1].engine.topics.alive() == {1, 2})
        with pytest.raises(Unavailable, match="node 3 is not linked"):
            await nodes[1].keys.rotate()
        assert nodes[1].keys.status().fingerprints == before
        await nodes.start(3)  # With its own copy of the key.
        await nodes.stop()

    asyncio.run(story())


def test_keys_that_come_from_files_are_not_replaced_by_a_command(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, (1, 2))
        await nodes.start()
        before = nodes[1].keys.status()
        with pytest.raises(InvalidRequest, match="comes from the file"):
            await nodes[1].keys.rotate()
        assert nodes[1].keys.status() == nodes[2].keys.status() == before
        # But by files, one node after the other.
        file = tmp_path / "cluster.key"
        old, new = file.read_text().split()[-1], draw_key().hex()
        for content in (f"{new}\n{old}\n", f"{new}\n"):
            file.write_text(content)
            for number in (1, 2):
                await nodes.stop(number)
                await nodes.start(number)
                await until(lambda: all(n._links.proven() for n in nodes.running.values()))
        assert nodes[1].keys.status().fingerprints != before.fingerprints
        await nodes.stop()

    asyncio.run(story())


def test_a_node_with_another_key_never_comes_in(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, (1, 2))
        await nodes.start()
        wrong = str(tmp_path / "wrong.key")
        create_key_file(wrong)
        intruder = settings(tmp_path, 3, 0, {**nodes.addresses, NodeId(3): f"{HOST}:1"})
        intruder = msgspec.structs.replace(intruder, cluster_key_file=wrong)
        lines: list[str] = []
        opening = asyncio.create_task(Node.open(intruder, announce=lines.append))
        await until(
            lambda: len([line for line in lines if "is not proven to be node" in line]) >= 2
        )
        assert nodes[1].engine.topics.alive() == {1, 2}
        assert not [line for line in lines if "linked with" in line]
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await nodes.stop()

    asyncio.run(story())


def test_claimed_ids_do_not_stop_a_cluster(tmp_path: Path) -> None:
    """`kick`: a stranger claims the id of every node, again and again, while others produce."""

    async def claim(address: str, node: int, target: int, stop: asyncio.Event) -> int:
        host, _, port = address.rpartition(":")
        claims = 0
        while not stop.is_set():
            reader, writer = await asyncio.open_connection(host, int(port))
            said = hello(node, target=target, cluster="", life=1_000 + claims, attempt=1_000)
            writer.write(encode_frame(FrameKind.HELLO, said))
            with contextlib.suppress(ConnectionError):
                answer = await reader.read()
                assert b"incarnation" not in answer
            writer.close()
            claims += 1
        return claims

    async def story() -> None:
        nodes = Nodes(tmp_path, (1, 2, 3))
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("t", 1, {})
        stop = asyncio.Event()
        nodes.lines.clear()
        claiming = [
            asyncio.create_task(claim(address, claimed, target, stop))
            for target, address in nodes.addresses.items()
            for claimed in nodes.addresses
            if claimed != target
        ]
        for number in range(200):
            await nodes.produce(topic, 0, b"message %d" % number)
        stop.set()
        assert min(await asyncio.gather(*claiming)) > 0
        assert not [line for line in nodes.lines if "lost the link" in line]
        await nodes.stop()

    asyncio.run(story())
