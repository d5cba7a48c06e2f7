"""Validation of group requests: names, sizes and times."""

from penstock.core.errors import InvalidGroup, InvalidRequest, InvalidSessionTimeout
from penstock.core.limits import (
    GROUP_ASSIGNMENTS_BYTES_MAX,
    GROUP_METADATA_BYTES_MAX,
    GROUP_NAME_BYTES_MAX,
    GROUP_PROTOCOLS_MAX,
    GROUP_REBALANCE_TIMEOUT_MAX_MS,
)
from penstock.engine.groups.requests import GroupSettings, JoinGroup, SyncGroup


def check_names(group: str, *others: str | None, empty: bool = False) -> None:
    """Names are as long as names are. Only who just keeps offsets may leave a group `empty`."""
    size = len(group.encode())
    if size > GROUP_NAME_BYTES_MAX or (size == 0 and not empty):
        raise InvalidGroup(f"a group's name has 1 to {GROUP_NAME_BYTES_MAX} bytes, not {size}")
    for other in others:
        if other is not None and len(other.encode()) > GROUP_NAME_BYTES_MAX:
            raise InvalidRequest(
                f"a name of {len(other.encode())} bytes, {GROUP_NAME_BYTES_MAX} at most"
            )


def check_count(what: str, count: int, count_max: int) -> None:
    """Refuse a request with more rows of a kind than one request may have."""
    if count > count_max:
        raise InvalidRequest(f"{count} {what}, {count_max} at most")


def check_join(request: JoinGroup, settings: GroupSettings) -> None:
    """A join is of a size, and of a patience, that can be served."""
    check_count("protocols", len(request.protocols), GROUP_PROTOCOLS_MAX)
    check_names(
        request.group,
        request.member,
        request.instance,
        request.client_id,
        request.client_host,
        request.protocol_type,
        *(name for name, _ in request.protocols),
    )
    size = sum(len(metadata) for _, metadata in request.protocols)
    check_count("bytes of metadata", size, GROUP_METADATA_BYTES_MAX)
    if not settings.session_min_ms <= request.session_timeout_ms <= settings.session_max_ms:
        raise InvalidSessionTimeout(
            f"a session timeout of {request.session_timeout_ms} ms; {settings.session_min_ms}"
            f" to {settings.session_max_ms} are allowed"
        )


def check_sync(request: SyncGroup) -> None:
    """A leader hands out no more than can be kept."""
    check_names(request.group, request.member, request.instance)
    size = sum(len(member) + len(assignment) for member, assignment in request.assignments)
    check_count("bytes of assignments", size, GROUP_ASSIGNMENTS_BYTES_MAX)


def bound_rebalance_timeout(timeout_ms: int) -> int:
    """Bound the rebalance timeout of a member. As in Kafka, a large one is not refused."""
    return min(max(timeout_ms, 0), GROUP_REBALANCE_TIMEOUT_MAX_MS)
