"""The measured performance of Penstock, as the basis of plans.

The figures are of `make bench` on two cores that broker and client shared, with a fast disk, and
every message synced before it was acknowledged; docs/benchmarks has them in full. They are there
for the order of magnitude. A plan takes half of a figure for granted: a broker that runs at its
limit has nothing left for a peak, a restart or a slower disk.
"""

from penstock.core.limits import MIB

MACHINE = "2 cores shared by broker and client, every message synced"

SENT_PER_SECOND = 780_000
"""100-byte messages into one partition of one node, by one client, a thousand at a time."""
SENT_BYTES_PER_SECOND = 220_000_000
"""The rate from one client into one node, for messages of any size; an estimate, rounded down from
measurements of batches of larger messages."""
HANDLED_PER_SECOND = 450_000
"""100-byte messages received and acknowledged by one client, a thousand at a time."""
FIFO_SHARE = 0.05
"""The share of that rate in a FIFO queue whose messages belong to many groups; measured once, by
hand, as 24 µs of processor time a message."""
SEND_TO_RECEIVE_P50_SECONDS = 0.002

BROKER_BYTES = 60 * MIB
"""The memory of a node that has just started."""
HELD_MESSAGE_BYTES = 350
"""The memory for each message that is leased, delayed or dead: 402 MiB with a million delayed.
Ready messages cost none: 84 MiB with ten million of them."""
RECORD_BYTES = 32
"""The disk space for each message beside its own bytes: its record, and its part of a batch."""

USABLE = 0.5
"""The part of a measured figure that a plan builds on."""
