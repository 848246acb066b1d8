"""Events in, one of them lost, healed by asking: through the whole service."""

from tests.faults.house import House
from tests.support.events import erp_event, psp_event


async def test_lost_success_is_healed_and_a_success_that_came_is_not_asked_about(
    house: House,
) -> None:
    service = house.start()
    house.know("lost")
    await house.send(erp_event("lost", 1), psp_event("lost", 1, status="pending"))
    await house.send(erp_event("whole", 1), psp_event("whole", 1))
    await house.until_status("lost", "pending")
    await house.until_status("lost", "succeeded")

    *heard, healed = await house.log_of("lost")
    assert sorted(heard) == [("erp", "applied"), ("psp", "applied")]
    assert healed == ("heal", "applied")
    assert await house.jobs() == [("completed", "healed")]
    assert await house.attempts() == [(1, "healed")]

    assert await house.status_of("whole") == "succeeded"
    assert sorted(await house.log_of("whole")) == [("erp", "applied"), ("psp", "applied")]
    assert set(house.psp.calls) == {"ref-lost"}
    assert service.running


async def test_late_older_event_after_a_heal_turns_nothing_back(house: House) -> None:
    house.start()
    house.know("versioned", entityversion="3")
    house.know("bare")
    for payment_id in ("versioned", "bare"):
        await house.send(erp_event(payment_id, 1), psp_event(payment_id, 1, status="pending"))
    await house.until_status("versioned", "succeeded")
    await house.until_status("bare", "succeeded")
    before = await house.rows("SELECT * FROM payments WHERE payment_id = 'versioned'")

    # The first is older than the answer's version; the second says less than the answer did.
    for payment_id in ("versioned", "bare"):
        await house.send(psp_event(payment_id, 2, status="authorised"))
    await house.send(*(erp_event(f"after-{number}", 1) for number in range(8)))
    await house.until_count("SELECT count(*) FROM payments", 10)
    await house.until_count("SELECT count(*) FROM payment_events WHERE version = 2", 2)

    assert (await house.log_of("versioned"))[-1] == ("psp", "stale")
    assert await house.rows("SELECT * FROM payments WHERE payment_id = 'versioned'") == before
    assert await house.status_of("bare") == "succeeded"
