"""Queries of operators about logs, on any node.

survey    places, sizes and readers of topics
looks     messages, from any place of any partition
resets    new offsets for a consumer group
"""

from penstock.engine.groups.lag import Lag
from penstock.engine.inspection.log_browser import LogBrowser
from penstock.engine.inspection.offset_resets import GroupResets
from penstock.engine.inspection.topic_survey import TopicSurvey
from penstock.engine.peers.calls import RemoteCalls
from penstock.engine.peers.forwarder import Forwarder
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics


class LogQueries:
    """The log queries of one node."""

    def __init__(
        self,
        topics: Topics,
        shards: LocalShards,
        calls: RemoteCalls,
        lag: Lag,
        forwarder: Forwarder,
    ) -> None:
        self.survey = TopicSurvey(topics, shards, calls)
        self.looks = LogBrowser(topics, calls)
        self.resets = GroupResets(topics, lag, self.survey, forwarder)
