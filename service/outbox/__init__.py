"""The relay from outbox rows to Kafka."""
