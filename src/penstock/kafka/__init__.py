"""The Kafka front-end: the wire protocol, translated to calls of the engine."""

from penstock.kafka.listener import KafkaListener
from penstock.kafka.port_state import KafkaSettings

__all__ = ["KafkaListener", "KafkaSettings"]
