"""What people ask of logs, gathered: where topics are, what is in them, and who goes on where.

    survey    places, sizes and readers of topics
    looks     messages, from any place of any partition
    resets    a consumer group goes on from elsewhere

Each can be asked of any node; `methods` is what the others ask of this one.
"""

from collections.abc import Awaitable, Callable, Mapping

from penstock.engine.engine import Engine
from penstock.engine.forwarding import Forwarding
from penstock.engine.group_resets import GroupResets
from penstock.engine.lag import Lag
from penstock.engine.links import Links
from penstock.engine.local_shards import LocalShards
from penstock.engine.log_looks import LOOK_METHOD, LogLooks
from penstock.engine.topic_survey import TOPIC_PLACES_METHOD, TOPIC_READERS_METHOD, TopicSurvey


class ReadingRoom:
    """One per node."""

    def __init__(
        self, engine: Engine, shards: LocalShards, links: Links, lag: Lag, forwarding: Forwarding
    ) -> None:
        self.survey = TopicSurvey(engine, shards, links)
        self.looks = LogLooks(engine, links)
        self.resets = GroupResets(engine, lag, self.survey, forwarding)

    @property
    def methods(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What other nodes may ask."""
        return {
            LOOK_METHOD: self.looks.answer,
            TOPIC_PLACES_METHOD: self.survey.answer_places,
            TOPIC_READERS_METHOD: self.survey.answer_readers,
        }
