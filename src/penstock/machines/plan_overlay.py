"""The overlay: what a leader has planned and not yet applied, per partition.

A partition is in the overlay while at least one of its plans is under way, and so is a producer in
it; each counts its plans, `apply` counts them down, and at zero the applied state says it all. The
overlay is therefore as small as what is under way, however many partitions and producers there are.

While a create or delete is under way, the applied state is another life of the partition, or none:
its producers are then not those of the partition as planned.
"""

import msgspec

from penstock.core.types import Offset, ProducerId
from penstock.machines.producers import Producer


class PlannedProducer(msgspec.Struct):
    """A producer as it will be."""

    producer: Producer
    plans: int


class PlannedPartition(msgspec.Struct):
    """A partition as it will be when everything planned has been applied."""

    exists: bool
    log_start: Offset
    next_offset: Offset
    plans: int = 0
    lives: int = 0
    """How many of the plans are creates and deletes."""
    producers: dict[ProducerId, PlannedProducer] = {}

    def start_life(self, *, exists: bool) -> None:
        """Plan a create or a delete: what was known belongs to the life before."""
        self.exists = exists
        self.log_start = self.next_offset = Offset(0)
        self.lives += 1
        self.producers.clear()

    def remember(self, producer_id: ProducerId, producer: Producer) -> None:
        """Plan one more batch of a producer."""
        planned = self.producers.get(producer_id)
        if planned is None:
            self.producers[producer_id] = PlannedProducer(producer, 1)
        else:
            planned.producer = producer
            planned.plans += 1

    def settle_batch(self, producer_id: ProducerId) -> None:
        """A planned batch of this producer has been applied."""
        if self.lives:
            return  # It was a batch of the life before; the overlay's are of the next.
        planned = self.producers[producer_id]
        planned.plans -= 1
        if planned.plans == 0:
            del self.producers[producer_id]
