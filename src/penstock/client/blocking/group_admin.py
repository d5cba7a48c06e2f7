"""Looking after consumer groups without `await`."""

from collections.abc import Iterable

from penstock.client.blocking.loop_thread import LoopThread
from penstock.client.client import Client
from penstock.client.group_descriptions import GroupDescription, GroupSummary, OffsetChange
from penstock.client.starting import Start


class BlockingGroupAdmin:
    """The part of a client that looks after groups."""

    def __init__(self, client: Client, thread: LoopThread) -> None:
        self._client = client
        self._thread = thread

    def groups(self) -> list[GroupSummary]:
        """All consumer groups, by name."""
        return self._thread.run(self._client.groups())

    def describe_group(self, name: str) -> GroupDescription:
        """Members and lag of a group."""
        return self._thread.run(self._client.describe_group(name))

    def delete_group(self, name: str) -> None:
        """Forget a group that has no members, with how far it had got."""
        self._thread.run(self._client.delete_group(name))

    def reset_group(
        self,
        name: str,
        to: Start = "earliest",
        *,
        topics: str | Iterable[str] | None = None,
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Let a group without members go on from elsewhere: "earliest", "latest", a datetime, or
        offsets by partition. Without topics, in all it has read. A dry run only tells."""
        return self._thread.run(self._client.reset_group(name, to, topics=topics, dry_run=dry_run))
