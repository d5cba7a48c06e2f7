"""What people ask of logs, gathered: where topics are, what is in them, and who goes on where.

    survey    places, sizes and readers of topics
    looks     messages, from any place of any partition
    resets    a consumer group goes on from elsewhere

Each can be asked of any node; `methods` is what the others ask of this one.
"""

from collections.abc import Awaitable, Callable, Mapping

from penstock.engine.groups.lag import Lag
from penstock.engine.inspection.log_browser import LOOK_METHOD, LogBrowser
from penstock.engine.inspection.offset_resets import GroupResets
from penstock.engine.inspection.topic_survey import (
    TOPIC_PLACES_METHOD,
    TOPIC_READERS_METHOD,
    TopicSurvey,
)
from penstock.engine.peers.forwarding import Forwarding
from penstock.engine.peers.links import Links
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics


class LogQueries:
    """One per node."""

    def __init__(
        self, topics: Topics, shards: LocalShards, links: Links, lag: Lag, forwarding: Forwarding
    ) -> None:
        self.survey = TopicSurvey(topics, shards, links)
        self.looks = LogBrowser(topics, links)
        self.resets = GroupResets(topics, lag, self.survey, forwarding)

    @property
    def methods(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What other nodes may ask."""
        return {
            LOOK_METHOD: self.looks.answer,
            TOPIC_PLACES_METHOD: self.survey.answer_places,
            TOPIC_READERS_METHOD: self.survey.answer_readers,
        }
