"""`benchmarks.aims`: which hold."""

from benchmarks.aims import aims_of, finding
from benchmarks.report import Measured


def queue_row(system: str, durability: str, ratio: float) -> Measured:
    return {
        "system": system,
        "durability": durability,
        "way": "send",
        "message_bytes": 100,
        "penstock_ratio": ratio,
    }


def test_only_what_syncs_is_compared() -> None:
    rows = [
        queue_row("Redis Streams, fsync always", "synced 1/1", 1.4),
        queue_row("Redis Streams, every second", "cached 1/1", 0.9),
        queue_row("RabbitMQ quorum queue", "synced 1/1", 3.0),
    ]
    aims = aims_of({"native-throughput": rows})
    found = {aim.what: aim.holds for aim in aims}
    assert found == {
        "queues, send 100 B, of Redis Streams, fsync always": False,
        "queues, send 100 B, of RabbitMQ quorum queue": True,
    }


def test_of_latency_and_memory_less_is_better() -> None:
    latency: list[Measured] = [
        {"system": "Penstock, 1 node", "durability": "synced 1/1", "p50_ms": 1, "p99_ms": 3},
        {"system": "Redis Streams", "durability": "synced 1/1", "p50_ms": 1, "p99_ms": 1},
    ]
    memory: list[Measured] = [
        {"system": "Penstock, 1 node", "memory_bytes": 100},
        {"system": "Kafka 4, 1 node", "memory_bytes": 500},
    ]
    aims = aims_of({"native-latency": latency, "broker-memory": memory})
    assert [(aim.measured, aim.holds) for aim in aims] == [(0.2, True), (1.0, True), (3.0, False)]


def test_scaling_is_judged_at_its_size_and_without_keys() -> None:
    rows: list[Measured] = [
        {"partitions": size, "way": way, "ratio_to_first": ratio}
        for size, way, ratio in (
            (1, "produce", 1.0),
            (1_000, "produce", 0.75),
            (1_000, "produce with keys", 0.1),
            (10_000, "produce", 0.2),
        )
    ]
    (aim,) = aims_of({"scaling-partitions": rows})
    assert aim.holds
    table = finding({"scaling-partitions": rows})
    assert table is not None
    assert table.title == "Aims: 1 of 1 hold"
    assert finding({}) is None
