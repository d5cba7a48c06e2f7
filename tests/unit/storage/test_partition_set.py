"""Sets of partitions: members, strangers and ranks, in both forms."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.types import PartitionId
from penstock.storage.partition_set import PartitionSet

ids = st.one_of(st.integers(0, 300), st.integers(0, (1 << 32) - 1))


@given(members=st.sets(ids), strangers=st.sets(ids))
def test_a_set_knows_its_members_and_their_ranks(members: set[int], strangers: set[int]) -> None:
    ordered = [PartitionId(member) for member in sorted(members)]
    made = PartitionSet(ordered)
    for one in (made, PartitionSet.decode(made.encode())):
        for rank, member in enumerate(ordered):
            assert member in one
            assert one.rank(member) == rank
        for stranger in strangers - members:
            assert stranger not in one


def test_dense_ids_cost_a_bit_each() -> None:
    assert PartitionSet([PartitionId(i) for i in range(100_000)]).size_bytes == 12_500


def test_scattered_ids_cost_four_bytes_each() -> None:
    scattered = [PartitionId(i * 1_000_003) for i in range(1000)]
    assert PartitionSet(scattered).size_bytes == 4000
