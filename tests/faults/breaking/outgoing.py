"""Messages that are missing, wrong or out of order."""

import json

from tests.faults.breaking.breach import breach
from tests.faults.checking.history import History


def payment_told_twice(history: History) -> list[int]:
    """The places of the messages of a payment that has several, the first such."""
    places: dict[bytes, list[int]] = {}
    for place, message in enumerate(history.outcomes):
        places.setdefault(message.key or b"", []).append(place)
    return next(each for each in places.values() if len(each) > 1)


@breach("announced_once")
def change_announced_twice(history: History) -> None:
    row = next(row for row in history.outbox if "subject" in row["value"])
    history.outbox.append(dict(row))


@breach("announced_once", "delivered_in_order")
def change_not_announced(history: History) -> None:
    history.outbox.remove(next(row for row in history.outbox if "subject" in row["value"]))


@breach("all_published")
def outbox_not_empty(history: History) -> None:
    history.outbox[0]["published_at"] = None


@breach("delivered_in_order")
def message_lost(history: History) -> None:
    place, *_ = payment_told_twice(history)
    history.outcomes = [*history.outcomes[:place], *history.outcomes[place + 1 :]]


@breach("delivered_in_order")
def messages_swapped(history: History) -> None:
    one, two, *_ = payment_told_twice(history)
    swapped = list(history.outcomes)
    swapped[one], swapped[two] = swapped[two], swapped[one]
    history.outcomes = swapped


@breach("delivered_in_order")
def repeated_with_other_content(history: History) -> None:
    message = history.outcomes[payment_told_twice(history)[0]]
    value = json.loads(message.value or b"")
    value["time"] = "2026-01-01T00:00:00+00:00"
    history.outcomes = [*history.outcomes, message._replace(value=json.dumps(value).encode())]


@breach("delivered_in_order")
def payment_in_two_partitions(history: History) -> None:
    message = history.outcomes[0]
    other = message._replace(partition=message.partition + 1)
    history.outcomes = [*history.outcomes, other]


@breach("last_word_is_the_table")
def case_opened_in_silence(history: History) -> None:
    history.payments[0]["kinds"] = sorted([*history.payments[0]["kinds"], "STUCK_PENDING"])


@breach("dead_letters_copied")
def copy_missing(history: History) -> None:
    history.dead_letter_copies = history.dead_letter_copies[1:]


@breach("dead_letters_copied")
def copy_without_its_origin(history: History) -> None:
    copy, *others = history.dead_letter_copies
    history.dead_letter_copies = [copy, copy._replace(headers=()), *others]
