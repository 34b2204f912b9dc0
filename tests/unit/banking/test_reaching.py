"""The time that a provider asks us to wait, read without trusting it."""

from __future__ import annotations

import pytest

from kontobahn.bank_providers.http import retry_after


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("30", 30),
        (" 30 ", 30),
        ("0", 0),
        ("86400", 3600),
        ("²", None),
        ("-5", None),
        ("9" * 5000, None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_wait_is_read_if_it_is_plain_seconds_and_never_longer_than_the_adapter_allows(
    said: str, seconds: int | None
) -> None:
    assert retry_after({"Retry-After": said}, 3600) == seconds
