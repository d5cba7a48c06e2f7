"""Messages as JSON, there and back."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.message import Message
from penstock.core.types import Offset
from penstock.engine.delivery.requests import BrowsedMessage
from penstock.web.queue_messages import OutgoingMessage, StoredMessage, browsed, new_message

data = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
names = st.sampled_from(["a", "b", "ü"])


@given(value=data, key=data, headers=st.lists(st.tuples(names, data), max_size=6))
def test_a_message_can_be_sent_as_it_was_shown(
    value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    message = Message(Offset(7), 1, key, value, tuple(headers))
    found = BrowsedMessage(message, 0, "ready", 0, -1, -1, "")
    shown = msgspec.json.decode(msgspec.json.encode(browsed(found)), type=StoredMessage)
    again = new_message(
        OutgoingMessage(body=shown.body, key=shown.key, headers=shown.headers), fifo=False
    )
    assert (again.value, again.key) == (value, key)
    # Headers of one name keep their order; that of different names means nothing.
    assert sorted(again.headers, key=lambda one: one[0]) == sorted(headers, key=lambda one: one[0])


def test_a_message_group_is_the_key_of_a_fifo_queue() -> None:
    outgoing = OutgoingMessage(body="x", message_group="g")
    assert new_message(outgoing, fifo=True).key == b"g"
    loose = new_message(outgoing, fifo=False)
    assert (loose.key, loose.headers) == (None, (("penstock-group", b"g"),))
    keyed = new_message(OutgoingMessage(body="x", key="k", message_group="g"), fifo=True)
    assert (keyed.key, keyed.headers) == (b"k", (("penstock-group", b"g"),))
