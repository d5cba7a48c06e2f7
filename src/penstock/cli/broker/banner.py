"""The box that `penstock dev` and `penstock cluster dev` print: where it is, and lines to paste.

The lines are real ones: what is printed has been run.
"""

import sys
from collections.abc import Sequence

SNIPPETS = """\
# Python; with asyncio it is penstock.connect, and await
from penstock import blocking
client = blocking.connect("penstock://{kafka}")
client.send("orders", {{"order": 7}})
for message in client.receive("orders", wait=5):
    print(message.body)
    message.ack()

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

# the command line
echo hello | penstock produce greetings --create topic --url penstock://{kafka}
penstock consume greetings --exit --url penstock://{kafka}"""

SQS_SNIPPETS = """\
# AWS SDKs and the aws command: any key and any region will do
export AWS_ENDPOINT_URL_SQS={sqs}
export AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any

# boto3
import boto3
sqs = boto3.client("sqs")
queue = sqs.create_queue(QueueName="jobs")["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageBody="hello")
print(sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"])"""


def print_box(
    title: str,
    rows: Sequence[tuple[str, str]],
    *,
    kafka: str,
    sqs: str = "",
    remarks: Sequence[str] = (),
) -> None:
    """Print it to stdout; with colour only on a terminal."""
    for line in box_lines(title, rows, kafka=kafka, sqs=sqs, remarks=remarks):
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


def box_lines(
    title: str,
    rows: Sequence[tuple[str, str]],
    *,
    kafka: str,
    sqs: str = "",
    remarks: Sequence[str] = (),
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
        *([*SQS_SNIPPETS.format(sqs=sqs).splitlines(), ""] if sqs else []),
    ]
