"""Delivery guarantees: the choice that every consumer makes, by name.

    AT_MOST_ONCE    acked before it is handed out. If the worker dies, it is lost. For what is
                    worth less than its repetition: metrics, logs, presence.
    AT_LEAST_ONCE   acked when the work is done. If the worker dies before, or its ack comes too
                    late, it is done again. The default; work that does no harm twice needs no more.
    EXACTLY_ONCE    at least once, and the *effect* happens once: the message's id is stored in one
                    transaction with the work, and a message whose id is there is skipped. Needs a
                    store of processed ids beside the data it protects (`penstock.SqliteProcessed`,
                    `penstock.DatabaseProcessed`).

No queue can promise that a message is delivered exactly once to something outside of it: between
"done" and "acked" there is always a moment in which a machine can die.
"""

from enum import StrEnum


class Guarantee(StrEnum):
    """The guarantee that holds when a worker dies in the middle of its work.

    `AT_MOST_ONCE` acks before the work: what a dead worker had is lost. `AT_LEAST_ONCE`, the
    default, acks after it: the work may be done twice, so make it harmless. `EXACTLY_ONCE` stores
    the message's id in one transaction with the work, and needs a store for it.

        @app.worker("clicks", guarantee=Guarantee.AT_MOST_ONCE)
    """

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"
