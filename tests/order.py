"""The order of tests: random, and the same for the same seed on every worker."""

from collections.abc import Callable, Hashable, Iterable
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def shuffled(items: Iterable[Item], seed: int, *, by: Callable[[Item], Hashable]) -> list[Item]:
    """Groups in any order, and the items of a group in any order."""
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(by(item), []).append(item)
    random = Random(seed)
    chosen = list(groups.values())
    random.shuffle(chosen)
    for group in chosen:
        random.shuffle(group)
    return [item for group in chosen for item in group]
