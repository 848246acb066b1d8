"""The bearer token's file, on a clock that the test moves."""

import asyncio
from pathlib import Path

import pytest

from service.psp.token_file import TokenError, TokenFile


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_token_is_read_again_after_a_second(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("  first\n")
    clock = Clock()
    token = TokenFile(path, clock=clock)
    assert await token.authorization() == "Bearer first"
    path.write_text("other")
    clock.now += 0.9
    assert await token.authorization() == "Bearer first"
    clock.now += 0.1
    assert await token.authorization() == "Bearer other"


async def test_token_that_was_taken_away_is_not_used_on(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    clock = Clock()
    token = TokenFile(path, clock=clock)
    await token.authorization()
    path.unlink()
    clock.now += 1
    for _ in range(2):
        with pytest.raises(TokenError, match="No such file"):
            await token.authorization()
    path.write_text("other")
    assert await token.authorization() == "Bearer other"


async def test_cancelled_first_read_leaves_no_half_known_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    token = TokenFile(path)
    reading = asyncio.create_task(token.authorization())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await token.authorization() == "Bearer first"


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"secret words", b"secret\nline", b"secret\xff", b"secret" * 5000]
)
async def test_what_is_no_token_is_refused_and_never_shown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(TokenError, match=r"^token file: ") as refused:
        await TokenFile(path).authorization()
    assert "secret" not in str(refused.value)
