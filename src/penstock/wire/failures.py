"""An error on its way to a client and back into an exception.

What travels is the name of its class and of every class above it, the sentence, and the plain
attributes (`leader`, `retry_after_ms`, …). The receiver takes the first name it knows, so an error
of a later version arrives as the nearest kind of trouble, and its caller still learns whether to
try again. Nothing is executed that was not in `core.errors` already.
"""

import inspect

import msgspec

from penstock.core import errors
from penstock.core.errors import PenstockError

MESSAGE_CHARACTERS_MAX = 4096

_KNOWN: dict[str, type[PenstockError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, PenstockError)
}


class Described(msgspec.Struct, frozen=True, array_like=True):
    """The parts of an error."""

    kinds: tuple[str, ...]
    message: str
    details: dict[str, int | bool | str] = {}


def describe_error(error: PenstockError) -> Described:
    """Return the parts of an error."""
    kinds = tuple(kind.__name__ for kind in type(error).__mro__ if issubclass(kind, PenstockError))
    details = {
        name: value for name, value in vars(error).items() if type(value) in (bool, int, str)
    }
    return Described(kinds, str(error)[:MESSAGE_CHARACTERS_MAX], details)


def remake_error(described: Described) -> PenstockError:
    """The exception that was raised, or the nearest one that is known here."""
    kind = next((_KNOWN[name] for name in described.kinds if name in _KNOWN), PenstockError)
    try:
        error = kind(described.message)
    except TypeError:  # It makes its sentence out of parts, and the sentence is made already.
        error = kind.__new__(kind, described.message)
    for name, value in described.details.items():
        if name.isidentifier() and not name.startswith("_"):
            vars(error)[name] = value
    return error
