"""Senders that write down what became of every message."""

import asyncio
from random import Random
from typing import Any

from tests.cluster.history import Operation, Recorder, key_of
from tests.cluster.payloads import payload_of
from tests.cluster.queue_client import QueueClient, Refused, Unknown, url_of
from tests.cluster.queue_facts import QueueFacts
from tests.cluster.queue_plans import DEDUP_WINDOW_MS, Plan

BATCH_MAX = 10
_AGAIN_WITHIN_SECONDS = 2 * DEDUP_WINDOW_MS / 1_000
_PAUSE_SECONDS = 0.05


class Sender:
    """Sends to one queue, some messages one by one and some together."""

    def __init__(self, recorder: Recorder, client: QueueClient, plan: Plan, random: Random) -> None:
        self.acked = 0
        self._process = recorder.new_process("sender")
        self._recorder = recorder
        self._client = client
        self._plan = plan
        self._random = random
        self._count = 0
        self._ids = 0
        self._again: list[tuple[float, str, str]] = []
        """When, with which id, to which group something is sent again."""

    async def work(self, ending: asyncio.Event) -> None:
        """So many messages a second, until it is time to end."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not ending.is_set():
            due = max(due, loop.time() - 1.0)
            if due > loop.time():
                await asyncio.sleep(min(_PAUSE_SECONDS, due - loop.time()))
                continue
            count = self._random.choice((1, 1, 1, 4, BATCH_MAX))
            due += count / self._plan.per_second
            await self.send(count)
            await self._send_again(loop.time())

    async def send(self, count: int) -> None:
        """Some new messages, in one request."""
        await self._send([self._compose() for _ in range(count)])

    def _compose(self) -> QueueFacts:
        plan, random = self._plan, self._random
        self._ids += 1
        return QueueFacts(
            plan.name,
            group=f"g{random.randrange(plan.groups)}" if plan.groups else "",
            dedup=f"{self._process}-id-{self._ids}" if plan.promises.dedup_window_ms else "",
            delay_ms=1_000 * random.randint(*plan.delay_seconds),
            priority=random.randrange(plan.priorities) if plan.priorities else 0,
        )

    async def _send_again(self, now: float) -> None:
        """What was to be sent a second time, as by somebody who did not hear the answer."""
        due = [one for one in self._again if one[0] <= now]
        self._again = [one for one in self._again if one[0] > now]
        for _, dedup, group in due:
            await self._send([QueueFacts(self._plan.name, group=group, dedup=dedup)])

    async def _send(self, messages: list[QueueFacts]) -> None:
        values = []
        operations = []
        for facts in messages:
            self._count += 1
            value = f"{self._process}-{self._count}"
            key = key_of(facts.name, 0)
            values.append(value)
            operations.append(
                self._recorder.invoke(
                    self._process, "send", sends=[(key, None, value)], queue=facts
                )
            )
        try:
            identities = await self._ask(values, messages)
        except Refused as refusal:
            for operation, facts in zip(operations, messages, strict=True):
                operation.complete("fail", queue=facts, note=str(refusal))
            await asyncio.sleep(_PAUSE_SECONDS)
        except Unknown as unknown:
            for operation, facts in zip(operations, messages, strict=True):
                operation.complete("info", queue=facts, note=str(unknown))
                self._plan_again(facts, delay=0.0)
        else:
            for operation, value, facts in zip(operations, values, messages, strict=True):
                self._sent(operation, value, facts, identities[value])

    def _sent(self, operation: Operation, value: str, facts: QueueFacts, identity: str) -> None:
        self.acked += 1
        key = key_of(facts.name, 0)
        told = QueueFacts(facts.name, identity=identity)
        operation.complete("ok", sends=[(key, None, value)], queue=told)
        if self._random.random() < self._plan.again:
            self._plan_again(facts, delay=self._random.uniform(0, _AGAIN_WITHIN_SECONDS))

    def _plan_again(self, facts: QueueFacts, *, delay: float) -> None:
        if facts.dedup:
            now = asyncio.get_running_loop().time()
            self._again.append((now + delay, facts.dedup, facts.group))

    async def _ask(self, values: list[str], messages: list[QueueFacts]) -> dict[str, str]:
        """Send; what the answer calls each of them."""
        if self._plan.priorities:
            return await self._ask_http(values, messages)
        entries = [_entry(value, one) for value, one in zip(values, messages, strict=True)]
        url = url_of(self._plan.name)
        if len(entries) == 1:
            answer = await self._client.sqs("SendMessage", QueueUrl=url, **entries[0])
            return {values[0]: answer["MessageId"]}
        named = [{"Id": value, **one} for value, one in zip(values, entries, strict=True)]
        answer = await self._client.sqs("SendMessageBatch", QueueUrl=url, Entries=named)
        assert not answer.get("Failed"), f"part of a batch was refused: {answer['Failed']}"
        return {one["Id"]: one["MessageId"] for one in answer["Successful"]}

    async def _ask_http(self, values: list[str], messages: list[QueueFacts]) -> dict[str, str]:
        outgoing = [
            {"body": payload_of(value).decode(), "priority": one.priority}
            for value, one in zip(values, messages, strict=True)
        ]
        await self._client.http(
            "POST", f"/queues/{self._plan.name}/messages", {"messages": outgoing}
        )
        return dict.fromkeys(values, "")


def _entry(value: str, facts: QueueFacts) -> dict[str, Any]:
    entry: dict[str, Any] = {"MessageBody": payload_of(value).decode()}
    if facts.group:
        entry["MessageGroupId"] = facts.group
    if facts.dedup:
        entry["MessageDeduplicationId"] = facts.dedup
    if facts.delay_ms:
        entry["DelaySeconds"] = facts.delay_ms // 1_000
    return entry
