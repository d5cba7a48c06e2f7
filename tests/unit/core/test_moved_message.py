"""What a message becomes when it is moved: what it says stays, what it asked for does not."""

from penstock.core.message import Message
from penstock.core.message_id import message_id
from penstock.core.moved_message import Death, dead_letter, died_in, origin, redriven
from penstock.core.types import Offset, TopicId

ORDERS = TopicId(b"orders".ljust(16, b"."))
MESSAGE = Message(
    Offset(41),
    1_700,
    b"key",
    b"value",
    (
        ("trace", b"abc"),
        ("penstock-priority", b"9"),
        ("penstock-group", b"g"),
        ("penstock-delay-ms", b"10"),
        ("penstock-deliver-at-ms", b"10"),
        ("penstock-ttl-ms", b"10"),
        ("penstock-expire-at-ms", b"10"),
        ("penstock-dedup-id", b"once"),
        ("penstock-origin", b"elsewhere"),
        ("none", None),
    ),
)
DEATH = Death(
    topic="orders",
    topic_id=ORDERS,
    index=3,
    group="billing",
    deliveries=5,
    first_received_ms=2_000,
    died_ms=9_000,
    reason="käse",
)
KEPT = (("trace", b"abc"), ("penstock-priority", b"9"), ("penstock-group", b"g"), ("none", None))


def test_a_dead_letter_says_how_it_died_and_who_it_was() -> None:
    letter = dead_letter(MESSAGE, DEATH)
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"key", b"value", 1_700)
    assert letter.headers[:4] == KEPT
    assert dict(letter.headers[4:]) == {
        "penstock-origin": f"{ORDERS.hex()}:3:41:billing:9000".encode(),
        "penstock-dead-topic": b"orders",
        "penstock-dead-partition": b"3",
        "penstock-dead-offset": b"41",
        "penstock-dead-group": b"billing",
        "penstock-dead-reason": "käse".encode(),
        "penstock-dead-deliveries": b"5",
        "penstock-dead-first-received-ms": b"2000",
        "penstock-dead-ms": b"9000",
        "penstock-message-id": message_id(ORDERS, 3, Offset(41)).encode(),
        "penstock-sent-ms": b"1700",
    }


def test_a_letter_of_a_fifo_queue_has_its_id_for_deduplication_and_a_new_time() -> None:
    letter = dead_letter(MESSAGE, DEATH, fifo=True)
    said = dict(letter.headers)
    known_as = message_id(ORDERS, 3, Offset(41)).encode()
    assert said["penstock-dedup-id"] == said["penstock-message-id"] == known_as
    assert (letter.timestamp_ms, said["penstock-sent-ms"]) == (-1, b"1700")
    stored = Message(Offset(0), 9_000, letter.key, letter.value, letter.headers)
    back = dict(redriven(stored, "from the letters", "it").headers)
    assert back["penstock-dedup-id"] == b"it"


def test_a_letter_that_dies_again_keeps_its_id_and_tells_of_its_last_death() -> None:
    first = dead_letter(MESSAGE, DEATH)
    stored = Message(Offset(0), 1_700, first.key, first.value, first.headers)
    again = Death(
        topic="orders_dlq",
        topic_id=TopicId(bytes(15) + b"1"),
        index=0,
        group="queue",
        deliveries=2,
        first_received_ms=1,
        died_ms=2,
        reason="again",
    )
    second = dead_letter(stored, again)
    names = [name for name, _ in second.headers]
    assert len(names) == len(set(names)), "no header is there twice"
    said = dict(second.headers)
    assert said["penstock-dead-topic"] == b"orders_dlq"
    assert said["penstock-message-id"] == message_id(ORDERS, 3, Offset(41)).encode()
    assert said["penstock-sent-ms"] == b"1700"


def test_a_redriven_letter_is_a_new_message() -> None:
    letter = dead_letter(MESSAGE, DEATH)
    stored = Message(Offset(0), 1_700, letter.key, letter.value, letter.headers)
    back = redriven(stored, "from the letters", "it")
    assert (back.key, back.value, back.timestamp_ms) == (b"key", b"value", -1)
    said = (("penstock-origin", b"from the letters"), ("penstock-former-id", b"it"))
    assert back.headers == (*KEPT, *said)
    again = redriven(Message(Offset(0), 1_700, None, None, back.headers), "from there", "now")
    assert dict(again.headers)["penstock-former-id"] == b"it", "the first one counts"


def test_a_letter_knows_where_it_died() -> None:
    letter = dead_letter(MESSAGE, DEATH)
    assert died_in(Message(Offset(0), 0, None, None, letter.headers)) == ("orders", 3)
    assert died_in(MESSAGE) is None
    odd = (("penstock-dead-topic", b"a\xff"), ("penstock-dead-partition", b"-1"))
    assert died_in(Message(Offset(0), 0, None, None, odd)) == ("a\ufffd", -1)


def test_each_life_has_an_origin_of_its_own() -> None:
    lives = {origin(ORDERS, 1, Offset(2), "g", life) for life in (1, 2)}
    assert lives == {f"{ORDERS.hex()}:1:2:g:1", f"{ORDERS.hex()}:1:2:g:2"}
