"""Fixtures that every test may ask for: real servers, and the service as a process."""

from tests.support.kafka import apache_kafka, topics
from tests.support.postgres import database, migrated_template, postgres
from tests.support.processes import pytest_runtest_makereport, services

__all__ = [
    "apache_kafka",
    "database",
    "migrated_template",
    "postgres",
    "pytest_runtest_makereport",
    "services",
    "topics",
]
