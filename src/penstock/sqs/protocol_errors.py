"""Errors in a request before it reaches an action: no HTTP body, no action, no parameters.

These are errors of Amazon's framework and not of SQS, and Query and JSON name most of them
differently. The words are ours: no program depends on them.
"""

from penstock.sqs.errors import FRAMEWORK, SqsError


class ProtocolError(SqsError):
    """The request does not follow its protocol, or must not be carried out at all."""

    namespace = FRAMEWORK


class MalformedBody(ProtocolError):
    """The body is no JSON, no form, or holds a value of the wrong type."""

    shape = "SerializationException"
    code = "MalformedInput"


class UnknownAction(ProtocolError):
    """SQS has no such action."""

    shape = "UnknownOperationException"
    code = "InvalidAction"


class MissingAction(ProtocolError):
    """The request names no action."""

    shape = "UnknownOperationException"
    code = "MissingAction"


class UnknownVersion(ProtocolError):
    """A version of the API that is not this one."""

    shape = "UnknownOperationException"
    code = "NoSuchVersion"


class BadHost(ProtocolError):
    """A queue's URL cannot be made from the `Host` header."""

    shape = "InvalidAddress"
    code = "InvalidAddress"


class BodyTooLarge(ProtocolError):
    """The body is larger than the limit."""

    shape = "RequestEntityTooLargeException"
    code = "RequestEntityTooLarge"
    status = 413


class SlowBody(ProtocolError):
    """The body did not arrive in time."""

    shape = "RequestTimeoutException"
    code = "RequestTimeout"
    status = 408


class ForeignPage(ProtocolError):
    """The request comes from a page of another site."""

    shape = "AccessDeniedException"
    code = "AccessDenied"
    status = 403


class UnknownHost(ProtocolError):
    """A browser asks by a name that this node is not known by."""

    shape = "AccessDeniedException"
    code = "AccessDenied"
    status = 421


class WrongMethod(ProtocolError):
    """An unsigned GET that would change something: any page could make a browser send it."""

    shape = "UnsupportedOperation"
    code = "InvalidMethod"
    status = 405
