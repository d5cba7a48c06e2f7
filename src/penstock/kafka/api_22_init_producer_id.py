"""InitProducerId, key 22: an id for an idempotent producer.

Versions    0–6.
Behaviour   A fresh id with epoch 0, for every caller; a producer that wants a new epoch (version 3
            on) gets a new id as well, as in Kafka.
KIPs        98, 360, 482, 588.
Not served  Transactions: a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            the one code at which every client stops and says why. Two-phase commit (KIP-939).
"""

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def handle(request: Message, context: Context) -> Answer:
    """A producer id that was never used."""
    if request.transactional_id is not None:
        context.port_state.complaints.note(
            f"client {context.client_id} wants the transactional id {request.transactional_id};"
            " transactions are not served"
        )
        context.count_error(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return {
            "error_code": TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "producer_id": -1,
            "producer_epoch": -1,
        }
    return {"producer_id": await context.engine.topics.new_producer_id(), "producer_epoch": 0}
