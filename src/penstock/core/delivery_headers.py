"""Delivery headers: headers of a message that say how a queue is to deliver it.

Any producer can write them: Kafka's as record headers, SQS's through its own parameters, which
become headers here. Names are fixed, values are ASCII. A header that cannot be read is ignored: a
message is never lost because of a header.

    penstock-priority         0 to 9, the higher the sooner; 4 if not said
    penstock-delay-ms         deliver no sooner than this after it was appended
    penstock-deliver-at-ms    deliver no sooner than this time (milliseconds since 1970)
    penstock-ttl-ms           do not deliver later than this after it was appended
    penstock-expire-at-ms     do not deliver after this time
    penstock-group            message group: order within it, or whose share it counts for. Without
                              it, in a FIFO queue, the record's key is the group
    penstock-dedup-id         a message with an id that was seen lately is a duplicate
    penstock-origin           where a moved message came from: it is not moved twice
"""

PREFIX = "penstock-"
PRIORITY = "penstock-priority"
DELAY = "penstock-delay-ms"
DELIVER_AT = "penstock-deliver-at-ms"
TTL = "penstock-ttl-ms"
EXPIRE_AT = "penstock-expire-at-ms"
GROUP = "penstock-group"
DEDUP_ID = "penstock-dedup-id"
ORIGIN = "penstock-origin"

MESSAGE_ID = "penstock-message-id"
"""The id a moved message had before; without it, the id follows from where the message is."""
FORMER_ID = "penstock-former-id"
"""The id that a message had when it was first sent, if it has another now: it was moved out of a
dead-letter queue. It links a message to its history."""
DEAD_TOPIC = "penstock-dead-topic"
DEAD_PARTITION = "penstock-dead-partition"
DEAD_OFFSET = "penstock-dead-offset"
DEAD_GROUP = "penstock-dead-group"
DEAD_REASON = "penstock-dead-reason"
DEAD_DELIVERIES = "penstock-dead-deliveries"
DEAD_FIRST_MS = "penstock-dead-first-received-ms"
DEAD_MS = "penstock-dead-ms"
SENT_MS = "penstock-sent-ms"
"""The time when a moved message was first sent."""
UNREADABLE = "penstock-unreadable"
"""Stands in a message of a batch that cannot be opened: there is nothing else in it."""
