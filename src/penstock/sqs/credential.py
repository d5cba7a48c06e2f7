"""The claimed access key and region of a request: read from the signature's scope, and not
verified.

    Authorization: AWS4-HMAC-SHA256 Credential=KEY/20260131/eu-west-1/sqs/aws4_request, Signed…
    X-Amz-Credential=KEY/20260131/eu-west-1/sqs/aws4_request        in a URL that was signed
    AWSAccessKeyId=KEY                                              by the older signature

The region stands in the names (ARNs) of queues and means nothing else here.
"""

import re
from collections.abc import Mapping

import msgspec

DEFAULT_REGION = "us-east-1"

_CREDENTIAL = b"Credential="
_SIGNED = b"AWS4-HMAC-SHA256 "
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_KEY = re.compile(r"[\w.:=+@-]{1,128}", re.ASCII)


class Credential(msgspec.Struct, frozen=True):
    """The access key and region of a request."""

    access_key: str = ""
    region: str = DEFAULT_REGION


def header_scope(headers: Mapping[bytes, bytes]) -> bytes:
    """The credential in the `Authorization` header; nothing if there is none."""
    authorization = headers.get(b"authorization", b"")
    start = authorization.find(_CREDENTIAL)
    if start < 0:
        return b""
    start += len(_CREDENTIAL)
    end = authorization.find(b",", start)
    return authorization[start : end if end >= 0 else None]


def is_signed(headers: Mapping[bytes, bytes]) -> bool:
    """Whether there is a signature in a header, where no link or picture of a page can put one.

    A browser sends `Authorization` for a foreign page only after a preflight, or with a password
    from the URL, and then by another scheme.
    """
    return headers.get(b"authorization", b"").startswith(_SIGNED)


def form_scope(parameters: Mapping[str, str]) -> bytes:
    """The credential in the parameters of a request that is signed there."""
    given = parameters.get("X-Amz-Credential") or parameters.get("AWSAccessKeyId", "")
    return given.encode("utf-8", "replace")


def read_credential(scope: bytes) -> Credential:
    """Key and region; what cannot be one is as if it were not said."""
    key, *rest = scope.decode("ascii", "replace").strip().split("/")
    region = rest[1] if len(rest) == 4 else ""
    return Credential(
        access_key=key if _KEY.fullmatch(key) else "",
        region=region if _REGION.fullmatch(region) else DEFAULT_REGION,
    )
