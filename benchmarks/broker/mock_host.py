"""librdkafka's mock cluster as a process:  python -m benchmarks.broker.mock_host BROKERS READY_FILE

A mock cluster lives inside a client. This client does nothing else, so that whoever is measured
against it connects to it as to any broker. It keeps the last 5 MiB of each partition.
"""

import signal
import sys
from pathlib import Path

import msgspec
from confluent_kafka import Producer

_ANSWER_WITHIN_SECONDS = 20.0


def main(arguments: list[str]) -> int:
    """Until somebody ends it."""
    brokers, ready_file = int(arguments[0]), Path(arguments[1])
    host = Producer({"test.mock.num.brokers": brokers, "log_level": 2})
    found = host.list_topics(timeout=_ANSWER_WITHIN_SECONDS).brokers.values()
    addresses = ",".join(f"{broker.host}:{broker.port}" for broker in found)
    whole = ready_file.with_suffix(".new")
    whole.write_bytes(msgspec.json.encode(addresses))
    whole.replace(ready_file)
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
