"""First programs to paste, with the address of the broker in them: `penstock cheat python`, …

Each has a queue or topic of its own, so that none receives what another one sent, nor what the
programs of the README did. A test runs all of them.
"""

PYTHON = """\
# a file, or line by line into python; with asyncio it is penstock.connect, and await
from penstock import blocking

client = blocking.connect("{url}")
client.send("try-python", {{"order": 7}})
for message in client.receive("try-python", wait=5):
    print(message.body)
    message.ack()

client.close()
"""

KAFKA = """\
# any Kafka client; this one is installed by: pip install confluent-kafka
from confluent_kafka import Consumer, Producer

producer = Producer({{"bootstrap.servers": "{kafka}"}})
producer.produce("try-kafka", b"hello")
producer.flush(10)
consumer = Consumer({{"bootstrap.servers": "{kafka}", "group.id": "try-kafka",
                     "auto.offset.reset": "earliest"}})
consumer.subscribe(["try-kafka"])
print(consumer.poll(20).value())
consumer.close()
"""

SQS = """\
# any AWS SDK; this one is installed by: pip install boto3. Any key and any region will do
import boto3

sqs = boto3.client("sqs", endpoint_url="{sqs}", region_name="us-east-1",
                   aws_access_key_id="any", aws_secret_access_key="any")
queue = sqs.create_queue(QueueName="try-sqs")["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageBody="hello")
for message in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]:
    print(message["Body"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

# programs that exist already, and the aws command, need no change but their environment:
# export AWS_ENDPOINT_URL_SQS={sqs} AWS_REGION=us-east-1
# export AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
"""

COMMANDS = """\
export PENSTOCK_URL={url}
penstock queue create try-cli --deliveries-max 3 --dead-letter-topic try-cli-dlq --exist-ok
echo hello | penstock produce try-cli
penstock consume try-cli -n 1 --ack
penstock queue list
"""

SNIPPETS = {"python": PYTHON, "kafka": KAFKA, "sqs": SQS, "cli": COMMANDS}


def snippet(name: str, *, url: str, http: str) -> str:
    """Return a snippet for a broker at these addresses."""
    return SNIPPETS[name].format(
        url=url, kafka=url.removeprefix("penstock://"), sqs=f"http://{http}"
    )
