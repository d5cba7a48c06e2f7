"""What FIFO receives were answered."""

import pytest

from penstock.core.message import Message
from penstock.core.types import Offset, PartitionId, TopicId
from penstock.engine.delivery.requests import Delivery, Receipt
from penstock.sqs import receive_attempts
from penstock.sqs.receive_attempts import ATTEMPT_MS, ReceiveAttempts
from penstock.testing.clock import ManualClock

TOPIC = TopicId(b"t" * 16)


def delivery(offset: int = 0, value: bytes = b"x") -> Delivery:
    receipt = Receipt(PartitionId(1), "queue", Offset(offset), 1)
    return Delivery(Message(Offset(offset), 0, None, value), 0, receipt, 1, 0, 0)


def test_it_is_recalled_for_five_minutes() -> None:
    clock = ManualClock()
    attempts = ReceiveAttempts(clock)
    attempts.remember(TOPIC, "a", [delivery(1), delivery(2)])
    clock.advance(ATTEMPT_MS - 1)
    assert attempts.recall(TOPIC, "a") == (delivery(1), delivery(2))
    assert attempts.recall(TOPIC, "b") == ()
    assert attempts.recall(TopicId(b"u" * 16), "a") == ()
    clock.advance(1)
    assert attempts.recall(TOPIC, "a") == ()


def test_what_is_over_is_forgotten() -> None:
    clock = ManualClock()
    attempts = ReceiveAttempts(clock)
    attempts.remember(TOPIC, "a", [delivery()])
    clock.advance(ATTEMPT_MS)
    attempts.remember(TOPIC, "b", [delivery()])
    assert len(attempts) == 1


def test_the_last_answer_counts() -> None:
    attempts = ReceiveAttempts(ManualClock())
    attempts.remember(TOPIC, "a", [delivery(1)])
    attempts.remember(TOPIC, "a", [delivery(2)])
    assert attempts.recall(TOPIC, "a") == (delivery(2),)
    assert len(attempts) == 1


def test_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_attempts, "ATTEMPTS_BYTES_MAX", 5_000)
    attempts = ReceiveAttempts(ManualClock())
    for name in "abc":
        attempts.remember(TOPIC, name, [delivery(value=bytes(2_000))])
    assert attempts.recall(TOPIC, "a") == ()
    assert attempts.recall(TOPIC, "c") != ()


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive_attempts, "ATTEMPTS_MAX", 2)
    attempts = ReceiveAttempts(ManualClock())
    for name in "abc":
        attempts.remember(TOPIC, name, [delivery()])
    assert [bool(attempts.recall(TOPIC, name)) for name in "abc"] == [False, True, True]
