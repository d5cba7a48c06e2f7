"""DescribeAcls, key 29: there are no access rules here, and the answer says so.

Versions    1–3.
Behaviour   SECURITY_DISABLED, as a Kafka broker without an authorizer answers: tools that copy the
            rules, such as MirrorMaker 2, know it and go on in silence.
KIPs        140, 290.
Not served  Access rules: every client that reaches the port may do everything.
"""

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import no_access_rules


async def handle(request: Message, context: Context) -> Answer:  # noqa: ARG001
    """One error, without rules."""
    return {**no_access_rules(context), "resources": []}
