"""ConsumerGroupHeartbeat, key 68: the group protocol of KIP-848 is refused in words.

Versions    0–1.
Behaviour   Always UNSUPPORTED_VERSION. librdkafka and the Java client raise that as a fatal error.
            If the key were not advertised, librdkafka would look for another coordinator for ever,
            without any error.
KIPs        848.
Not served  Everything: consumers use group.protocol=classic, the default of most clients.
"""

from typing import Final

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import UNSUPPORTED_VERSION
from penstock.kafka.row_errors import refused_with

_TEXT: Final = "group.protocol=consumer (KIP-848) is not served; set group.protocol=classic"


async def handle(request: Message, context: Context) -> Answer:  # noqa: ARG001
    """One error."""
    return {
        **refused_with(context, UNSUPPORTED_VERSION, _TEXT), "member_epoch": 0,
        "heartbeat_interval": 0,
    }  # fmt: skip
