"""Planting bugs. Each must be caught by the simulator, or the simulator proves nothing.

A mutation replaces a method of the production code while it is planted; the code itself knows
nothing of it. Each is a mistake that a real system has made, or one line that looks harmless to
drop. They are in `mutations`, `queue_mutations` and `publishing_mutations`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Patch = tuple[Any, str, object]
MUTATIONS: dict[str, Callable[[], list[Patch]]] = {}
_INHERITED = object()


def mutation(make: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    """Register a planted bug under the name of the function that makes it."""
    MUTATIONS[make.__name__] = make
    return make


@contextmanager
def plant(name: str | None) -> Iterator[None]:
    """Run with the named bug in place; None plants nothing."""
    patches = MUTATIONS[name]() if name is not None else []
    originals = [
        (owner, attribute, vars(owner).get(attribute, _INHERITED))
        for owner, attribute, _ in patches
    ]
    for owner, attribute, replacement in patches:
        setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        for owner, attribute, original in originals:
            if original is _INHERITED:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, original)
