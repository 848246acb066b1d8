"""Stripe's answers in the port's words, from a far end that speaks as Stripe does."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from yarl import URL

from schemas.sources.stripe_objects import STRIPE_EXPONENTS
from service.psp.account import PspAccount, open_psp
from service.psp.breaker import CircuitBreaker
from service.psp.port import Answer, Answered, NotFound, Question, Unavailable
from service.psp.stripe import API_VERSION, StripePsp
from tests.integration.test_psp_conformance import STRIPE
from tests.support.far_end import FarEnd, Reply, says

BY_REFERENCE = Question("pay-1", "acme-eu", "pi_1")
BY_PAYMENT = Question("pay-1")
CHARGE = STRIPE.paid["latest_charge"]


def intent(**changes: Any) -> dict[str, Any]:
    return STRIPE.paid_but(**changes)


def charged(**changes: Any) -> dict[str, Any]:
    return intent(latest_charge={**CHARGE, **changes})


def found(*intents: dict[str, Any]) -> Reply:
    return says(200, {"object": "search_result", "data": list(intents), "has_more": False})


def disputes(*disputes: tuple[int, str, str]) -> Reply:
    data = [
        {"object": "dispute", "amount": amount, "currency": currency, "status": status}
        for amount, currency, status in disputes
    ]
    return says(200, {"object": "list", "data": data, "has_more": False})


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as opened:
        yield opened


class Asked:
    """One question to a far end that gives `replies` in turn."""

    def __init__(self, session: aiohttp.ClientSession, *replies: Reply) -> None:
        self._session = session
        self.far_end = FarEnd(*replies)

    async def __call__(self, question: Question = BY_REFERENCE) -> Answer:
        async with self.far_end.server:
            port = StripePsp(self._session, self.far_end.url, account="acme-eu", timeout_seconds=5)
            return await port.ask(question)

    async def answered(self, question: Question = BY_REFERENCE) -> Answered:
        answer = await self(question)
        assert isinstance(answer, Answered), answer
        return answer

    @property
    def urls(self) -> list[URL]:
        return [URL(path, encoded=True) for path in self.far_end.paths]


async def test_intent_is_asked_for_by_its_reference_with_the_charge_and_a_pinned_version(
    session: aiohttp.ClientSession,
) -> None:
    asked = Asked(session, says(200, intent()))
    await asked()
    [url] = asked.urls
    assert url.path == "/v1/payment_intents/pi_1"
    assert dict(url.query) == {"expand[]": "latest_charge"}
    assert asked.far_end.headers[0]["Stripe-Version"] == API_VERSION


async def test_reference_reaches_no_other_path(session: aiohttp.ClientSession) -> None:
    asked = Asked(session, says(404, STRIPE.unknown))
    await asked(Question("pay-1", None, "pi_1/../../charges?x=#y"))
    [path] = asked.far_end.paths
    assert path.startswith("/v1/payment_intents/pi_1%2F..%2F..%2Fcharges%3Fx%3D%23y?expand")


@pytest.mark.parametrize("payment_id", ["pay-1", "o'neill", "back\\slash", "a&b=c d+e", "ödeme"])
async def test_payment_without_reference_is_searched_by_its_metadata(
    session: aiohttp.ClientSession, payment_id: str
) -> None:
    asked = Asked(session, found(intent(metadata={"payment_id": payment_id})))
    answer = await asked.answered(Question(payment_id))
    assert answer.psp_reference == "pi_1"
    [url] = asked.urls
    assert url.path == "/v1/payment_intents/search"
    quoted = payment_id.replace("\\", "\\\\").replace("'", "\\'")
    assert url.query["query"] == f"metadata['payment_id']:'{quoted}'"
    assert url.query["expand[]"] == "data.latest_charge"


async def test_empty_search_is_not_found_with_its_request(session: aiohttp.ClientSession) -> None:
    empty = says(200, {"object": "search_result", "data": []}, Request_Id="req_9")
    assert await Asked(session, empty)(BY_PAYMENT) == NotFound("req_9")


async def test_search_that_folds_case_finds_no_other_payment(
    session: aiohttp.ClientSession,
) -> None:
    other = intent(metadata={"payment_id": "PAY-1"})
    assert isinstance(await Asked(session, found(other))(BY_PAYMENT), NotFound)


async def test_of_several_intents_the_one_with_the_money_is_the_answer(
    session: aiohttp.ClientSession,
) -> None:
    """Reported as woocommerce-gateway-stripe PR 905: a failed try besides a paid one."""
    canceled = intent(id="pi_2", status="canceled", amount_received=0, created=1_900_000_000)
    waiting = intent(id="pi_3", status="requires_action", amount_received=0, created=1_950_000_000)
    answer = await Asked(session, found(canceled, intent(), waiting)).answered(BY_PAYMENT)
    assert (answer.psp_reference, answer.status) == ("pi_1", "succeeded")
    answer = await Asked(session, found(canceled, waiting)).answered(BY_PAYMENT)
    assert answer.psp_reference == "pi_3"


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [
        ("requires_payment_method", None, "pending"),
        ("requires_confirmation", None, "pending"),
        ("requires_action", None, "pending"),
        ("processing", None, "pending"),
        ("requires_capture", None, "authorised"),
        ("canceled", "requested_by_customer", "cancelled"),
        ("canceled", None, "cancelled"),
        ("canceled", "automatic", "expired"),
    ],
)
async def test_each_status_has_one_meaning(
    session: aiohttp.ClientSession, status: str, reason: str | None, told: str
) -> None:
    said = intent(status=status, cancellation_reason=reason, amount_received=0, latest_charge=None)
    answer = await Asked(session, says(200, said)).answered()
    assert (answer.status, answer.captured_minor) == (told, 0)


async def test_declined_try_is_pending_with_its_code_for_the_customer_may_try_again(
    session: aiohttp.ClientSession,
) -> None:
    said = intent(
        status="requires_payment_method",
        amount_received=0,
        last_payment_error={"code": "card_declined", "type": "card_error"},
    )
    answer = await Asked(session, says(200, said)).answered()
    assert (answer.status, answer.failure_code) == ("pending", "card_declined")


async def test_partial_capture_is_what_was_received_not_the_amount(
    session: aiohttp.ClientSession,
) -> None:
    """Reported as hyperswitch-prism PR 2294: less money counted as full."""
    answer = await Asked(session, says(200, intent(amount_received=1500))).answered()
    assert (answer.amount_minor, answer.captured_minor) == (1999, 1500)


async def test_refunds_come_from_the_charge(session: aiohttp.ClientSession) -> None:
    answer = await Asked(session, says(200, charged(amount_refunded=700))).answered()
    assert (answer.captured_minor, answer.refunded_minor) == (1999, 700)


async def test_authorisation_that_was_released_is_no_refund(
    session: aiohttp.ClientSession,
) -> None:
    released = {**CHARGE, "amount_captured": 0, "amount_refunded": 1999}
    said = intent(status="canceled", amount_received=0, latest_charge=released)
    answer = await Asked(session, says(200, said)).answered()
    assert (answer.captured_minor, answer.refunded_minor) == (0, 0)


@pytest.mark.parametrize(
    ("claims", "disputed_minor"),
    [
        ([(1999, "eur", "needs_response")], 1999),
        ([(1999, "eur", "under_review")], 1999),
        ([(1999, "eur", "lost")], 1999),
        ([(1999, "eur", "won")], 0),
        ([(1999, "eur", "warning_needs_response")], 0),
        ([(400, "eur", "lost"), (300, "eur", "won"), (100, "eur", "under_review")], 500),
        ([(2200, "usd", "needs_response")], 1999),
    ],
)
async def test_dispute_counts_while_it_is_open_or_lost(
    session: aiohttp.ClientSession, claims: list[tuple[int, str, str]], disputed_minor: int
) -> None:
    """Reported as gumroad PR 6833: won after lost; the charge stays `disputed` for ever."""
    asked = Asked(session, says(200, charged(disputed=True)), disputes(*claims))
    answer = await asked.answered()
    assert answer.disputed_minor == disputed_minor
    assert asked.urls[1].path == "/v1/disputes"
    assert asked.urls[1].query["payment_intent"] == "pi_1"


@pytest.mark.parametrize(
    ("reply", "reason"), [(says(503), "server_error"), (says(404, STRIPE.unknown), "nonsense")]
)
async def test_half_an_answer_is_none(
    session: aiohttp.ClientSession, reply: Reply, reason: str
) -> None:
    answer = await Asked(session, says(200, charged(disputed=True)), reply)()
    assert isinstance(answer, Unavailable)
    assert answer.reason == reason


@pytest.mark.parametrize(
    ("currency", "minor", "iso_minor"),
    [
        ("jpy", 500, 500),
        ("krw", 1000, 1000),
        ("isk", 1000, 10),
        ("ugx", 5000, 50),
        ("mga", 5, 500),
        ("kwd", 18_600, 18_600),
        ("bhd", 18_600, 18_600),
        ("eur", 1999, 1999),
    ],
)
async def test_amounts_come_out_in_iso_units(
    session: aiohttp.ClientSession, currency: str, minor: int, iso_minor: int
) -> None:
    """Reported as woocommerce-gateway-stripe 2720, adyen-commercetools 1085, Paymenter 1258."""
    said = intent(amount=minor, amount_received=minor, currency=currency)
    answer = await Asked(session, says(200, said)).answered()
    assert (answer.amount_minor, answer.currency) == (iso_minor, currency.upper())
    assert answer.captured_minor == iso_minor


async def test_fraction_of_a_krona_is_no_amount(session: aiohttp.ClientSession) -> None:
    said = intent(amount=1050, amount_received=1050, currency="isk")
    answer = await Asked(session, says(200, said)).answered()
    assert (answer.amount_minor, answer.currency, answer.captured_minor) == (None, None, 1050)


@pytest.mark.parametrize(
    "said",
    [
        intent(status="settling"),
        intent(currency="zzz"),
        intent(amount=19.99),
        intent(amount_received=None),
        intent(latest_charge="ch_1"),
        intent(object="charge"),
        intent(metadata={"payment_id": "pay-2"}),
        {"object": "list", "data": []},
    ],
)
async def test_what_cannot_be_understood_whole_is_nonsense(
    session: aiohttp.ClientSession, said: dict[str, Any]
) -> None:
    answer = await Asked(session, says(200, said, Request_Id="req_9"))()
    assert isinstance(answer, Unavailable)
    assert (answer.reason, answer.request_id) == ("nonsense", "req_9")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (BY_REFERENCE, {"error": {"type": "invalid_request_error", "message": "Unrecognized URL"}}),
        (BY_REFERENCE, {"error": {"code": "account_invalid", "message": "No such account"}}),
        (BY_PAYMENT, STRIPE.unknown),
        (BY_PAYMENT, {"object": "search_result", "data": []}),
    ],
)
async def test_404_about_anything_but_the_intent_proves_nothing(
    session: aiohttp.ClientSession, question: Question, said: dict[str, Any]
) -> None:
    answer = await Asked(session, says(404, said))(question)
    assert isinstance(answer, Unavailable)
    assert answer.reason == "nonsense"


async def test_key_of_the_other_mode_proves_nothing(session: aiohttp.ClientSession) -> None:
    message = (
        "No such payment_intent: 'pi_1'; a similar object exists in live mode, "
        "but a test mode key was used to make this request."
    )
    said = {"error": {**STRIPE.unknown["error"], "message": message}}
    answer = await Asked(session, says(404, said))()
    assert isinstance(answer, Unavailable)
    assert answer.reason == "refused"


@pytest.mark.parametrize(
    "question",
    [Question("pay-1", "acme-eu", "ch_1"), Question("pay-1", "acme-us", "pi_1")],
)
async def test_question_that_stripe_would_answer_wrongly_is_not_asked(
    session: aiohttp.ClientSession, question: Question
) -> None:
    asked = Asked(session, says(404, STRIPE.unknown))
    answer = await asked(question)
    assert isinstance(answer, Unavailable)
    assert (answer.reason, asked.far_end.paths) == ("nonsense", [])


async def test_log_gets_the_request_and_no_secret_or_personal_data(
    session: aiohttp.ClientSession,
) -> None:
    said = charged(billing_details={"name": "Jane Roe"}, receipt_email="jane@example.com")
    said |= {"client_secret": "pi_1_secret_x", "receipt_email": "jane@example.com"}
    answer = await Asked(session, says(200, said, Request_Id="req_9")).answered()
    assert (answer.data["request_id"], answer.data["amount_received"]) == ("req_9", 1999)
    assert "secret" not in repr(answer.data)
    assert "jane" not in repr(answer.data).lower()


async def test_method_is_the_charges_or_the_only_one_offered(
    session: aiohttp.ClientSession,
) -> None:
    by_card = charged(payment_method_details={"type": "card", "card": {}})
    assert (await Asked(session, says(200, by_card)).answered()).method == "card"
    offered = intent(latest_charge=None, payment_method_types=["sepa_debit"])
    assert (await Asked(session, says(200, offered)).answered()).method == "sepa_debit"
    several = intent(latest_charge=None, payment_method_types=["card", "sepa_debit"])
    assert (await Asked(session, says(200, several)).answered()).method is None


async def test_account_with_the_stripe_adapter_asks_stripe() -> None:
    far_end = FarEnd(says(200, intent(amount=1000, amount_received=1000, currency="isk")))
    async with far_end.server:
        account = PspAccount(
            base_url=far_end.url,
            adapter="stripe",
            name="acme-eu",
            exponents={"acme-eu": STRIPE_EXPONENTS},
        )
        async with open_psp(account, breaker=CircuitBreaker(5, 30)) as psp:
            answer = await psp.ask(BY_REFERENCE)
    assert isinstance(answer, Answered)
    assert (answer.psp, answer.captured_minor) == ("acme-eu", 10)
