"""Verdicts: what a receiver says about messages it has leased, and what comes of it.

The numbers travel, between client and broker, and in the log of a shard.
"""

from enum import IntEnum


class Verdict(IntEnum):
    """A worker's verdict on messages it has leased."""

    ACK = 1
    """It is done."""
    RELEASE = 2
    """It is not done: deliver it again after `delay_ms`; -1: as the retry policy says."""
    REJECT = 3
    """It can never be done: it is dead, whatever the number of deliveries."""
    EXTEND = 4
    """It is not done yet: the lease ends `delay_ms` from now."""
    FINISH = 5
    """Done, perhaps too late: counts also after the lease has ended, as long as the message was not
    delivered since."""
    RETURN = 6
    """Never looked at: back to where it was, as if it had not been delivered."""


LATE = "late"
"""The reason of an EXTEND that counts also after the lease has ended, as long as the message was
not delivered since: what FINISH is to ACK. It is a reason and no verdict of its own because nodes
of release 0.1 would not know the verdict; to them such an EXTEND is one like any other."""


class Outcome(IntEnum):
    DONE = 0
    STALE = 1
    """The message is leased to another receiver now, or waits to be."""
    GONE = 2
    """The message is not there any more: acked, dead, expired or purged."""
