"""The box that `penstock dev` and `penstock cluster dev` print: where it is, and lines to paste.

The lines are real ones: what is printed has been run.
"""

import sys
from collections.abc import Sequence

SNIPPETS = """\
# kafka-python
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers="{kafka}")
producer.send("greetings", b"hello").get(timeout=10)

# confluent-kafka
from confluent_kafka import Consumer
consumer = Consumer({{"bootstrap.servers": "{kafka}", "group.id": "readers",
                     "auto.offset.reset": "earliest"}})
consumer.subscribe(["greetings"])
print(consumer.poll(10).value())

# kcat
echo hello | kcat -b {kafka} -t greetings -P
kcat -b {kafka} -t greetings -C -e"""


def print_box(
    title: str, rows: Sequence[tuple[str, str]], *, kafka: str, remarks: Sequence[str] = ()
) -> None:
    """Print it to stdout; with colour only on a terminal."""
    for line in box_lines(title, rows, kafka=kafka, remarks=remarks):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def box_lines(
    title: str, rows: Sequence[tuple[str, str]], *, kafka: str, remarks: Sequence[str] = ()
) -> list[str]:
    """The lines of the box, and below it what is to be pasted: a border would be copied too."""
    width = max(len(name) for name, _ in rows)
    inside = [f"{name:<{width}}  {value}" for name, value in rows]
    if remarks:
        inside += ["", *remarks]
    inside += ["", "Ctrl-C stops it."]
    columns = max(len(title) + 2, *map(len, inside))
    return [
        f"╭─ {title} {'─' * (columns - len(title) - 1)}╮",
        *(f"│ {line:<{columns}} │" for line in inside),
        f"╰{'─' * (columns + 2)}╯",
        "",
        *SNIPPETS.format(kafka=kafka).splitlines(),
        "",
    ]
