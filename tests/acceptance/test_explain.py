"""`reconciler explain`: both views of a payment, why it has its status, and what comes next."""

from tests.acceptance.commands import reconciler
from tests.faults.house import House, until_started
from tests.support.events import erp_event, psp_event


async def test_explain_shows_both_views_the_reason_and_the_next_check(house: House) -> None:
    service = house.start(RECONCILE__PENDING_AFTER_SECONDS="3600")
    await until_started(service)
    await house.send(erp_event("pay-1", 4), psp_event("pay-1", 7, status="authorised"))
    await house.until_count("SELECT count(*) FROM payment_events", 2)
    house.know("pay-1")

    told = await reconciler("explain", "pay-1", settings=house.settings())
    assert told.code == 0, told.text
    for words in ("erp", "0/4", "1999 EUR", "acme-eu ref-pay-1", "0/7", "status  authorised"):
        assert words in told.out
    next_check = await house.connection.fetchval("SELECT next_check_at FROM payments")
    assert f"next check  {next_check.isoformat()}" in told.out
    assert "PSP, asked now" not in told.out
    assert not house.psp.calls

    before = await house.everything()
    asked = await reconciler("explain", "pay-1", "--check-now", settings=house.settings())
    assert asked.code == 0, asked.text
    assert "PSP, asked now: succeeded, captured 1999" in asked.out
    assert await house.everything() == before


async def test_explain_shows_the_jobs_and_that_nothing_is_due(worker_house: House) -> None:
    house = worker_house
    house.know("pay-1")
    await until_started(house.start("reconcile,watch"))
    await house.add_job("pay-1")
    await house.until_status("pay-1", "succeeded")
    told = await reconciler("explain", "pay-1", settings=house.settings())
    assert "outcome healed" in told.out
    assert "next check  none is due" in told.out
    assert "observed" in told.out


async def test_unknown_payment_is_exit_code_1_and_a_hint(worker_house: House) -> None:
    told = await reconciler("explain", "nobody", settings=worker_house.settings())
    assert told.code == 1
    assert "'nobody'" in told.err
    assert "Traceback" not in told.text
