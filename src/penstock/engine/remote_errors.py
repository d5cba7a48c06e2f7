"""An error on its way to another node and back into an exception.

What travels is the name of its class and of every class above it, the sentence, and the plain
attributes (`leader`, `retry_after_ms`, `member_id`, …). The receiver takes the first name it knows,
so an error of a later version arrives as the nearest kind of trouble, and its caller still learns
whether to try again. Nothing is executed that was not in `core.errors` already.
"""

import inspect

from penstock.core import errors
from penstock.core.errors import PenstockError
from penstock.engine.frames import Failure

MESSAGE_CHARACTERS_MAX = 4096

_KNOWN: dict[str, type[PenstockError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, PenstockError)
}


def describe_error(request_id: int, error: PenstockError) -> Failure:
    """The frame that tells another node."""
    kinds = tuple(kind.__name__ for kind in type(error).__mro__ if issubclass(kind, PenstockError))
    details = {
        name: value for name, value in vars(error).items() if type(value) in (bool, int, str)
    }
    return Failure(request_id, kinds, str(error)[:MESSAGE_CHARACTERS_MAX], details)


def remake_error(failure: Failure) -> PenstockError:
    """The exception another node raised, or the nearest one that is known here."""
    kind = next((_KNOWN[name] for name in failure.kinds if name in _KNOWN), PenstockError)
    try:
        error = kind(failure.message)
    except TypeError:  # It makes its sentence out of parts, and the sentence is made already.
        error = kind.__new__(kind, failure.message)
    for name, value in failure.details.items():
        if name.isidentifier() and not name.startswith("_"):
            vars(error)[name] = value
    return error
