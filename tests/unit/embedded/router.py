"""A queue by its requests, for tests that stand below the client."""

from penstock.core.message import NewMessage
from penstock.embedded.channel import EmbeddedChannel
from penstock.wire.requests import (
    Answer,
    Count,
    Counted,
    CreateTopic,
    ReceiveRequest,
    ReceiveResponse,
    Request,
    Send,
    SentOnes,
    Settle,
    Settled,
    TopicInfo,
)

GROUP = "queue"
ACK = 1
MESSAGE_BYTES = 1 << 20


class Asker:
    """One queue of one partition."""

    def __init__(self, channel: EmbeddedChannel) -> None:
        self.channel = channel
        self.topic_id = b""
        self.name = ""

    async def ask(self, request: Request, timeout: float = 30) -> Answer:
        answer, _ = await self.channel.ask(None, request, timeout=timeout)
        return answer

    async def create(self, name: str = "work", **configs: str) -> None:
        made = {"queue.lease.ms": "30000", "queue.message.headers": "true"}
        made |= {key.replace("_", "."): value for key, value in configs.items()}
        info = await self.ask(CreateTopic(name, 1, made))
        assert isinstance(info, TopicInfo)
        self.name, self.topic_id = name, info.topic_id

    async def send(self, *bodies: bytes, headers: tuple[tuple[str, bytes], ...] = ()) -> SentOnes:
        messages = tuple(NewMessage(body, None, headers) for body in bodies)
        answer = await self.ask(Send(self.topic_id, 0, messages))
        assert isinstance(answer, SentOnes)
        return answer

    async def take(self, most: int = 10, *, wait_ms: int = 0) -> list[tuple[int, int]]:
        """Leased messages: (offset, epoch)."""
        answer = await self.ask(
            ReceiveRequest(self.topic_id, GROUP, most, MESSAGE_BYTES, wait_ms=wait_ms), timeout=90
        )
        assert isinstance(answer, ReceiveResponse)
        return [
            (offset, part.epoch)
            for part in answer.parts
            for first, end, _, _ in part.runs
            for offset in range(first, end)
        ]

    async def ack(self, leased: list[tuple[int, int]]) -> tuple[int, ...]:
        settlements = tuple((one, one + 1, epoch, ACK, -1, "") for one, epoch in leased)
        answer = await self.ask(Settle(self.topic_id, 0, GROUP, settlements))
        assert isinstance(answer, Settled)
        return answer.outcomes

    async def counts(self) -> dict[str, int]:
        """States that messages are in."""
        answer = await self.ask(Count(self.name, GROUP))
        assert isinstance(answer, Counted)
        return {name: count for name, count in answer.counts.items() if count > 0}
