"""How the end of an attempt was received by the database."""

from enum import StrEnum


class Verdict(StrEnum):
    """What `Settlement` tells the worker that handed a job in."""

    FINISHED = "finished"  # payment, log, job and outgoing events are committed
    RETURNED = "returned"  # the job is pending again
    ASK_AGAIN = "ask_again"  # the payment moved while the PSP was asked: the answer is worthless
    NO_HEAL_LEFT = "no_heal_left"  # the minute's heals are used up, or healing is paused
    LOST = "lost"  # the lease is over: nothing was written
