"""Small requests of many clients, coalesced: sends, settlements and receives of a few messages.

One `CoalescingGate` is shared by the three kinds, since they wait for the same disk. A front-end
adds a request with a callback, and needs no task for it (see `coalescer`).
"""

from collections.abc import Awaitable, Callable, Sequence

from penstock.core.errors import PenstockError
from penstock.core.limits import MIB
from penstock.core.message import NewMessage
from penstock.core.receiver import worker_name
from penstock.core.topic import Topic
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.delivery.coalescer import Coalescer, CoalescingGate
from penstock.engine.delivery.requests import Delivery, ImmediateReceive, Receipt, Sent
from penstock.engine.delivery.service import DeliveryService

RECEIVE_BYTES_MAX = 2 * MIB
"""About how much several receivers get by one lease."""

Settled = tuple[Receipt, Verdict, int, str]
"""What became of a leased message: receipt, verdict, delay in milliseconds, reason."""


class SmallRequests:
    """Coalesces small requests; one for each front-end of a node."""

    def __init__(self, delivery: DeliveryService, protocol: str) -> None:
        self._delivery = delivery
        self._protocol = protocol
        gate = CoalescingGate()
        self.sends: Coalescer[NewMessage, Sent] = Coalescer(self._send, gate)
        self.settlements: Coalescer[Settled, Outcome] = Coalescer(self._settle, gate)
        self._receives: Coalescer[ImmediateReceive, list[Delivery]] = Coalescer(self._receive, gate)

    def begin_receive(
        self,
        topic: Topic,
        wanted: ImmediateReceive,
        on_done: Callable[[Sequence[Delivery] | PenstockError], None],
        message_bytes: int,
    ) -> bool:
        """Receive from the only partition of a queue together with other receivers, if messages
        seem to be ready; `on_done` may get none all the same. False: the request must be made by
        itself, with its wait. `message_bytes` is about the size of a message.

        Receivers share a lease if they want the same lease time and are connections of one
        program."""
        size = wanted.messages_max * message_bytes
        if size > RECEIVE_BYTES_MAX or not self._delivery.can_receive_now(topic, 0):
            return False

        def deal(dealt: Sequence[list[Delivery]] | PenstockError) -> None:
            on_done(dealt if isinstance(dealt, PenstockError) else dealt[0])

        self._receives.add(
            topic,
            0,
            (wanted,),
            deal,
            size=size,
            room=RECEIVE_BYTES_MAX,
            kind=(wanted.lease_ms, worker_name(wanted.receiver)),
        )
        return True

    def _send(
        self, topic: Topic, index: int, messages: Sequence[NewMessage]
    ) -> Awaitable[Sequence[Sent]]:
        return self._delivery.send(topic, messages, index=index, protocol=self._protocol)

    def _settle(
        self, topic: Topic, _: int, verdicts: Sequence[Settled]
    ) -> Awaitable[Sequence[Outcome]]:
        return self._delivery.settle(topic, verdicts)

    def _receive(
        self, topic: Topic, index: int, wanted: Sequence[ImmediateReceive]
    ) -> Awaitable[Sequence[list[Delivery]]]:
        return self._delivery.receive_together(topic, index, wanted)
