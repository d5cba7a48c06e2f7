"""CreateAcls, key 30: no access rule can be made, and the answer says so.

Versions    1–3.
Behaviour   SECURITY_DISABLED for each, as a Kafka broker without an authorizer answers.
KIPs        140, 290.
Not served  Access rules: every client that reaches the port may do everything.
"""

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import no_access_rules


async def handle(request: Message, context: Context) -> Answer:
    """The same error for each rule."""
    return {"results": [no_access_rules(context) async for _ in context.each(request.creations)]}
