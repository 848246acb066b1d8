"""One provider account, ready to be asked: adapter, limits and retries around one HTTP session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import aiohttp

from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from service.psp.breaker import CircuitBreaker
from service.psp.generic import GenericPsp
from service.psp.guarded import GuardedPsp, Observe
from service.psp.limits import TokenBucket
from service.psp.port import PspPort
from service.psp.retrying import RetryingPsp
from service.psp.stripe import StripePsp
from service.psp.token_file import TokenFile

# The last try must end before the budget does: a provider that hangs is then a time-out, which the
# breaker counts, and not a spent budget, which says nothing about the provider.
_TRY_SHARE_OF_BUDGET_MAX = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class PspAccount:
    """Where the account is and how much may be asked of it.

    `timeout_seconds` bounds one try, `budget_seconds` all tries of one question. `token_file` None
    sends no token. `concurrency_max` is the number of connections: no less than questions asked at
    once, for waiting for one counts as time of the try. `exponents` are exceptions to ISO 4217, the
    provider's own included. `name` is the account's in events, for a provider that does not say it.
    """

    base_url: str
    adapter: Literal["generic", "stripe"] = "generic"
    name: str = "stripe"
    timeout_seconds: float = 5.0
    budget_seconds: float = 20.0
    token_file: Path | None = None
    rate_per_second: float = 100.0
    burst: int = 100
    concurrency_max: int = 100
    exponents: Exponents = field(default_factory=lambda: NO_EXCEPTIONS)


@asynccontextmanager
async def open_psp(
    account: PspAccount,
    *,
    breaker: CircuitBreaker,
    observe: Observe | None = None,
) -> AsyncIterator[PspPort]:
    """Open the account by its adapter, and close its connections at the end.

    `observe(result, seconds)` hears every try. Raises ValueError for a `base_url` that is none.
    """
    connector = aiohttp.TCPConnector(limit=account.concurrency_max)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),  # the adapter bounds each try whole
    ) as session:
        guarded = GuardedPsp(
            _adapter(account, session),
            TokenBucket(account.rate_per_second, account.burst),
            breaker,
            wait_max_seconds=account.budget_seconds,
            observe=observe,
        )
        yield RetryingPsp(guarded, account.budget_seconds)


def _adapter(account: PspAccount, session: aiohttp.ClientSession) -> PspPort:
    timeout_seconds = _try_seconds(account)
    token = TokenFile(account.token_file) if account.token_file else None
    if account.adapter == "stripe":
        return StripePsp(
            session,
            account.base_url,
            account=account.name,
            timeout_seconds=timeout_seconds,
            token=token,
            exponents=account.exponents.get(account.name, {}),
        )
    return GenericPsp(
        session,
        account.base_url,
        timeout_seconds=timeout_seconds,
        token=token,
        exponents=account.exponents,
    )


def _try_seconds(account: PspAccount) -> float:
    return min(account.timeout_seconds, _TRY_SHARE_OF_BUDGET_MAX * account.budget_seconds)
