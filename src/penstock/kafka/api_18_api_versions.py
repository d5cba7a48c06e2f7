"""ApiVersions, key 18: what this broker serves.

Versions    0–4.
Behaviour   The first request of every client. The answer lists the table of APIs; its header never
            has tags. A version above ours is answered in version 0 with UNSUPPORTED_VERSION and the
            list, so that the client can ask again (`kafka.connection` does that).
            Produce is advertised from version 0 on although versions 0–2 are not served: librdkafka
            turns gzip, snappy and lz4 off when it does not see them (KAFKA-18659).
            One feature is finalised, share.version 1: share groups are served.
KIPs        35, 511 (the client's name and version: accepted, not checked), 584, 932.
Not served  Other features: none is finalised, so that no client relies on one.
"""

from typing import Final

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context

FEATURES: Final = {"share.version": 1}


async def handle(request: Message, context: Context) -> Answer:  # noqa: ARG001
    """The table, as it is advertised."""
    return {
        "api_keys": [
            {"api_key": api.key, "min_version": api.advertised[0], "max_version": api.advertised[1]}
            for api in context.port_state.apis.values()
        ],
        "supported_features": [
            {"name": name, "min_version": 0, "max_version": version}
            for name, version in FEATURES.items()
        ],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": name, "min_version_level": version, "max_version_level": version}
            for name, version in FEATURES.items()
        ],
    }
