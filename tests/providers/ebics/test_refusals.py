"""A refusal of the bank ends what was asked, unless it says that it was done or forgotten before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kontobahn.bank_providers.ebics.client import EbicsClient, suspend_keys
from kontobahn.banking.provider import ProviderRefused
from kontobahn.formats.ebics import answers

LOCKED, OTHER = next(iter(answers.USER_STATE)), "999999"


def refusing(code: str) -> Any:
    async def refuse(*args: Any) -> None:
        raise ProviderRefused("ProviderError", "No.", code)

    async def read(*args: Any) -> list[Any]:
        return [SimpleNamespace(is_whole=True)]

    return SimpleNamespace(send_signature=refuse, _go_on=refuse, _db=SimpleNamespace(read=read))


@pytest.mark.parametrize(("tried", "code"), [([], LOCKED), (["SPR"], OTHER), ([], OTHER)])
def test_keys_are_suspended_if_the_bank_says_so(tried: list[str], code: str) -> None:
    access: Any = SimpleNamespace(tried=tried, suspended_at=None)

    async def save() -> None: ...

    with pytest.raises(ProviderRefused):
        asyncio.run(suspend_keys(refusing(code), SimpleNamespace(access=access), 5, save))  # type: ignore[arg-type]
    assert access.suspended_at is None
    asyncio.run(suspend_keys(refusing(LOCKED), SimpleNamespace(access=access), 5, save))  # type: ignore[arg-type]
    assert access.suspended_at == 5, "an answer was lost before"


def test_a_download_that_the_bank_refuses_to_go_on_with_is_told() -> None:
    line: Any = SimpleNamespace(organization_id="o", ref="r")
    assert OTHER not in answers.LOST_TRANSACTION
    with pytest.raises(ProviderRefused):
        asyncio.run(EbicsClient.resume(refusing(OTHER), line))
