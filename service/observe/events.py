"""Every event name that may stand in a log line: alerts and searches rely on them.

The name says what happened; ids and numbers go into the line's own fields. A line about one payment
carries `payment_id`, one about a job `job_id` and `lease_epoch`, one about a record `topic`,
`partition` and `offset`.
"""

from enum import StrEnum


class Event(StrEnum):
    """The closed list; a log call names one of these and nothing else."""

    # The process, in the order of its life.
    STARTING = "process.starting"  # settings are read, nothing is connected yet
    STARTED = "process.started"  # every part runs; readiness may pass
    STOP_REQUESTED = "process.stop_requested"  # SIGTERM or SIGINT, or a part that ended
    DRAINED = "process.drained"  # claimed jobs are finished or released, offsets committed
    DRAIN_TIMED_OUT = "process.drain_timed_out"  # the deadline passed; leases will expire
    STOPPED = "process.stopped"  # the last line of a clean end
    FAILED = "process.failed"  # the last line of an unclean one
    COROUTINE_CRASHED = "coroutine.crashed"  # supervised; it starts again after a pause
    COROUTINE_DEAD = "coroutine.dead"  # crashed too often; the process ends
    LOOP_BLOCKED = "event_loop.blocked"  # something held the event loop for too long
    SAMPLER_FAILED = "sampler.failed"  # a health or metrics sample could not be taken
    LISTENING = "http.listening"  # the health port is bound

    # PostgreSQL.
    DATABASE_CONNECTED = "database.connected"
    DATABASE_LOST = "database.lost"  # connections were dropped; waits and tries again
    DATABASE_REFUSED = "database.refused"  # read-only, shutting down, or out of connections
    TRANSACTION_RETRIED = "database.transaction_retried"  # serialization, deadlock, lock time-out
    STATEMENT_REJECTED = "database.statement_rejected"  # our own bug: the process stops
    SCHEMA_MIGRATED = "database.schema_migrated"
    SCHEMA_MISMATCH = "database.schema_mismatch"

    # Kafka in.
    BROKER_CONNECTED = "kafka.connected"
    BROKER_LOST = "kafka.lost"
    PARTITIONS_ASSIGNED = "kafka.partitions_assigned"
    PARTITIONS_REVOKED = "kafka.partitions_revoked"
    PARTITION_PAUSED = "kafka.partition_paused"
    PARTITION_RESUMED = "kafka.partition_resumed"
    OFFSET_FENCED = "kafka.offset_fenced"  # another consumer wrote first; the batch rolled back
    OFFSET_MOVED = "kafka.offset_moved"  # by an operator or a restored database; read on from there
    OFFSET_COMMIT_FAILED = "kafka.offset_commit_failed"  # the database's offset is the truth
    RECORDS_LOST = "kafka.records_lost"  # retention deleted them before they were read: an alarm
    TOPIC_RECREATED = "kafka.topic_recreated"  # stored offsets do not fit the topic

    # Events and records.
    BATCH_APPLIED = "ingest.batch_applied"
    BATCH_BISECTED = "ingest.batch_bisected"  # the database refused one record of the batch
    EVENT_STALE = "ingest.event_stale"  # a newer version is stored
    EVENT_CONFLICT = "ingest.event_conflict"  # same version, other content
    EVENT_APPLIED = "ingest.event_applied"
    RECORD_QUARANTINED = "ingest.record_quarantined"  # parked as a dead letter with its reason
    TOMBSTONE_IGNORED = "ingest.tombstone_ignored"
    BREAKER_TRIPPED = "ingest.breaker_tripped"  # too many bad records: the partition stops
    COUNTER_RESET_SUSPECTED = "ingest.counter_reset_suspected"  # a source restarted its versions

    # Jobs and leases.
    JOBS_SCHEDULED = "jobs.scheduled"
    JOBS_CLAIMED = "jobs.claimed"
    JOB_FINISHED = "job.finished"
    JOB_RELEASED = "job.released"  # no answer, or a shutdown: it runs again later
    JOB_FAILED = "job.failed"
    JOB_DEAD = "job.dead"  # out of attempts; a person has to look
    LEASE_LOST = "lease.lost"  # another attempt owns the job; this one wrote nothing
    HEARTBEAT_FAILED = "lease.heartbeat_failed"  # unknown whether renewed; tried again
    LEASES_EXPIRED = "watcher.leases_expired"  # jobs of a dead worker went back to pending
    WATCHER_FAILED = "watcher.failed"

    # Payments and the PSP.
    PAYMENT_HEALED = "payment.healed"
    PAYMENT_CHANGED = "payment.changed"
    HEALING_DEFERRED = "healing.deferred"  # paused, capped, or the initial lag is not worked off
    SHADOW_DECISION = "healing.shadow_decision"  # what enforce mode would have done
    ANSWER_OUTDATED = "psp.answer_outdated"  # the payment moved meanwhile; asked again
    PSP_NO_ANSWER = "psp.no_answer"  # time-out, 429, 5xx, nonsense: says nothing of the payment
    PSP_RETRIED = "psp.retried"
    PSP_BREAKER_OPENED = "psp.breaker_opened"
    PSP_BREAKER_CLOSED = "psp.breaker_closed"
    DISCREPANCY_OPENED = "discrepancy.opened"
    DISCREPANCY_CLOSED = "discrepancy.closed"

    # Outbox and dead letters out.
    RELAY_LEADING = "outbox.relay_leading"
    RELAY_DEPOSED = "outbox.relay_deposed"
    OUTBOX_PUBLISHED = "outbox.published"
    OUTBOX_PUBLISH_FAILED = "outbox.publish_failed"  # stays in the outbox; tried again
    DEAD_LETTERS_COPIED = "dead_letters.copied"
    DEAD_LETTER_REPLAYED = "dead_letter.replayed"
    DEAD_LETTER_DISCARDED = "dead_letter.discarded"
    OUTBOX_PRUNED = "outbox.pruned"
