"""An error on its way to another node and back into an exception: see `wire.failures`, which does
the same for clients. Between nodes the id of the request is part of the frame."""

from penstock.core.errors import PenstockError
from penstock.engine.peers.frames import Failure
from penstock.wire import failures
from penstock.wire.failures import Described


def describe_error(request_id: int, error: PenstockError) -> Failure:
    """The frame that tells another node."""
    parts = failures.describe_error(error)
    return Failure(request_id, parts.kinds, parts.message, parts.details)


def remake_error(failure: Failure) -> PenstockError:
    """The exception another node raised, or the nearest one that is known here."""
    return failures.remake_error(Described(failure.kinds, failure.message, failure.details))
