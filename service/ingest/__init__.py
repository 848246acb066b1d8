"""Kafka to payments: consume, decode, apply, quarantine."""
