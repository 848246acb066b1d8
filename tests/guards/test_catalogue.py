"""The catalogue of guards keeps up with the source."""

import pytest

from tests.guards.catalogue import CHECKOUT, GUARDS, Guard


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_guard_is_still_where_the_catalogue_says(guard: Guard) -> None:
    for cut in guard.cuts:
        assert cut.times() >= 1, f"{cut.file} has no {cut.text!r} any more"
    for claim in guard.claims:
        assert (CHECKOUT / claim).is_file()
