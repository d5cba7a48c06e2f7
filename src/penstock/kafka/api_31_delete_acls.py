"""DeleteAcls, key 31: there are no access rules to delete, and the answer says so.

Versions    1–3.
Behaviour   SECURITY_DISABLED for each filter, as a Kafka broker without an authorizer answers.
KIPs        140, 290.
Not served  Access rules: every client that reaches the port may do everything.
"""

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import no_access_rules


async def handle(request: Message, context: Context) -> Answer:
    """The same error for each filter."""
    rows = [
        {**no_access_rules(context), "matching_acls": []}
        async for _ in context.each(request.filters)
    ]
    return {"filter_results": rows}
