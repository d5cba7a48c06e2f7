"""ShareGroupHeartbeat, key 76: join a share group, stay in it, leave it.

Versions    1.
Behaviour   Asked of the group's coordinator; others answer NOT_COORDINATOR. Members choose their
            own ids. A member that joins with epoch 0 gets its partitions, later ones when they
            change; -1 leaves. After a change of coordinator members are not known any more
            (UNKNOWN_MEMBER_ID) and join again. Topics that are not there are not made, and are
            assigned once they are. How often to come, and how long silence may last, is the group's
            configuration. A name that a consumer group has is refused with GROUP_ID_NOT_FOUND.
KIPs        932.
Not served  Racks are noted and change nothing.
"""

from penstock.core.errors import UnknownGroup
from penstock.engine.groups.share_groups import ShareHeartbeat
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.share_directory import is_consumer_group


async def handle(request: Message, context: Context) -> Answer:
    """The member's epoch, and its partitions if they are new to it."""
    engine, group = context.engine, request.group_id
    topics = request.subscribed_topic_names
    if is_consumer_group(engine, group):
        raise UnknownGroup(f"{group} is a consumer group and no share group")
    told = engine.groups.share.heartbeat(
        ShareHeartbeat(
            group=group,
            member=request.member_id,
            epoch=request.member_epoch,
            topics=None if topics is None else tuple(topics),
            rack=request.rack_id,
            client_id=context.client_id,
            client_host=context.client_host,
        )
    )
    assignment: Answer | None = None
    if told.assignment is not None:
        assignment = {
            "topic_partitions": [
                {"topic_id": topic_id, "partitions": indexes}
                for topic_id, indexes in told.assignment.items()
            ]
        }
    return {
        "member_id": request.member_id,
        "member_epoch": told.epoch,
        "heartbeat_interval": told.heartbeat_ms,
        "assignment": assignment,
    }
