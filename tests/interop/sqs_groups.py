"""A FIFO queue of many message groups, sent and worked off."""

from collections import Counter

from tests.interop.served import Served, counts


def work_off_groups(served: Served, groups: int, each: int) -> None:
    """Every group in order, one message of it at a time, though there are many groups."""
    client = served.client()
    made = client.create_queue(QueueName=f"groups-{groups}.fifo", Attributes={"FifoQueue": "true"})
    url = made["QueueUrl"]

    def send(first: int) -> None:
        entries = [
            {
                "Id": str(number),
                "MessageBody": str((first + number) // groups),
                "MessageGroupId": f"group-{(first + number) % groups}",
                "MessageDeduplicationId": str(first + number),
            }
            for number in range(10)
        ]
        assert "Failed" not in client.send_message_batch(QueueUrl=url, Entries=entries)

    for first in range(0, groups * each, 10):
        send(first)
    seen: Counter[str] = Counter()
    wanted = {"QueueUrl": url, "MaxNumberOfMessages": 10, "AttributeNames": ["MessageGroupId"]}
    while messages := client.receive_message(**wanted).get("Messages", []):
        for message in messages:
            group = message["Attributes"]["MessageGroupId"]
            assert message["Body"] == str(seen[group]), f"{group} after {seen[group]}"
            seen[group] += 1
        entries = [
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
            for number, message in enumerate(messages)
        ]
        assert "Failed" not in client.delete_message_batch(QueueUrl=url, Entries=entries)
    assert set(seen.values()) == {each}
    assert len(seen) == groups
    assert counts(client, url) == (0, 0, 0)
