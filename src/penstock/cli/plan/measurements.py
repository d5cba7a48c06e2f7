"""What Penstock was measured to do, for plans to reckon with.

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
"""Into one node by one client, whatever the size of messages; an estimate, rounded down from what
batches of larger messages did."""
HANDLED_PER_SECOND = 450_000
"""100-byte messages received and acknowledged by one client, a thousand at a time."""
FIFO_SHARE = 0.05
"""Of that in a FIFO queue, where messages of many groups are taken one from each; measured once, by
hand, as 24 µs of processor time a message."""
SEND_TO_RECEIVE_P50_SECONDS = 0.002

BROKER_BYTES = 60 * MIB
"""Of a node that has just started."""
HELD_MESSAGE_BYTES = 350
"""Of memory for each message that is leased, delayed or dead: 402 MiB with a million delayed.
Messages that merely wait cost none: 84 MiB with ten million of them."""
RECORD_BYTES = 32
"""Of disk for each message beside its own bytes: its record, and its part of a batch."""

USABLE = 0.5
"""The part of a measured figure that a plan builds on."""
