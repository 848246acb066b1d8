"""A real Apache Kafka on loopback, fetched from Maven Central and started by the tests."""

from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.fixtures import Topics, apache_kafka, topics
from tests.support.kafka.jars import MissingTool

__all__ = ["ApacheKafka", "MissingTool", "Topics", "apache_kafka", "topics"]
