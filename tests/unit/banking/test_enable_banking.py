"""The pure rules of Enable Banking: which booking is a repeat, an order within what the bank takes, keys in any form."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from kontobahn.bank_providers.enable_banking import rules
from kontobahn.bank_providers.enable_banking.adapter import EnableBankingProvider, EnableBankingSetup
from kontobahn.bank_providers.enable_banking.client import (
    RENEW_SECONDS,
    TOKEN_SECONDS,
    Client,
    Webhooks,
    read_public_key,
)
from kontobahn.bank_providers.enable_banking.rules import code_of, listed_bank, minor, payment_body, psu_type_for
from kontobahn.bank_providers.enable_banking.wire import Amount, Bank, PaymentKind, Refusal, RemittanceLine
from kontobahn.banking.provider import PaymentOrder, ProviderDown, ProviderRefused
from kontobahn.banking.reports.intake import without_repeats
from kontobahn.clock import ManualClock
from kontobahn.money import amount_text
from kontobahn.outbound import Rule
from kontobahn.threads import Pool
from simulators.enable_banking_wire import key_pair, public_pem
from tests.bank_builder import facts

NOW = 1_772_442_000


def test_a_repeat_is_dropped_and_a_shared_id_identifies_nothing() -> None:
    once = facts(1, provider_ref="a")
    pending = facts(1, provider_ref="a", status="pending", day="2026-02-27")
    assert list(without_repeats([pending, once, once])) == [once]
    assert list(without_repeats([once, pending])) == [once]
    # Without an id, two that look alike are two; so are those of two accounts.
    assert list(without_repeats([facts(1), facts(1)])) == [facts(1), facts(1)]
    elsewhere = facts(1, provider_ref="a", account_ref="other")
    assert list(without_repeats([once, elsewhere])) == [once, elsewhere]
    # The parts of a batch under the reference of the batch.
    assert list(without_repeats([once, facts(2, provider_ref="a")])) == [facts(1), facts(2)]


@given(st.integers(-(10**14) + 1, 10**14 - 1), st.integers(0, 5))
def test_amounts_are_exact(cents: int, zeros: int) -> None:
    text = amount_text(cents)
    assert minor(Amount(text + "0" * zeros, "EUR")) == cents
    assert minor(Amount(text.removesuffix("0"), "EUR")) == cents


@pytest.mark.parametrize("text", ["", "1,00", " 1", "1_0", "+1", "1.", ".5", "NaN", "1e2", "0.001", "١", "9" * 14])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ProviderRefused):
        minor(Amount(text, "EUR"))


def order(**more: Any) -> PaymentOrder:
    values: dict[str, Any] = {
        "end_to_end_id": "KB1-0A0B0C0D", "connection_ref": "c", "account_ref": "a", "template_identifier": "SEPA",
        "amount_minor": 1234, "currency_code": "EUR", "creditor_name": "Papier GmbH", "creditor_iban": "DE75512108001245126199",
        "debtor_name": "Muster GmbH", "debtor_iban": "DE02120300000000202051", "description": "Rechnung 4711", "reference": None,
        "details": {}, "return_to": None, "customer_ip_address": "127.0.0.1", "created_at": NOW,
    }  # fmt: skip
    return PaymentOrder(**{**values, **more})


def transfer(order: PaymentOrder, *kinds: PaymentKind, psu_type: str = "business") -> dict[str, Any]:
    body = payment_body(
        order, Bank("Musterbank", "DE", payments=list(kinds)), psu_type, redirect_url="r", state="s", webhook_url=None
    )
    assert "webhook_url" not in body
    [found] = body["payment_request"]["credit_transfer_transaction"]
    assert isinstance(found, dict)
    return found


def test_an_order_is_sent_within_what_the_bank_takes_or_not_at_all() -> None:
    plain = PaymentKind("SEPA", "business")
    assert transfer(order(), plain)["remittance_information"] == ["Rechnung 4711"]
    lines = PaymentKind(
        "SEPA", "business", remittance_information_lines=[RemittanceLine(max_length=8), RemittanceLine(max_length=8)]
    )
    assert transfer(order(), lines)["remittance_information"] == ["Rechnung", " 4711"]
    assert transfer(order(reference="A-1"), plain)["payment_id"] == {
        "end_to_end_id": "KB1-0A0B0C0D", "instruction_id": "A-1",
    }  # fmt: skip
    creditor = order(reference="RF18539007547034", description="RF18539007547034")
    assert transfer(creditor, plain)["remittance_information"] == ["RF18539007547034"]
    numbered = PaymentKind("SEPA", "business", reference_number_supported=True)
    assert transfer(creditor, numbered)["reference_number"] == "RF18539007547034"
    for wrong, kind in (
        (order(description="Rechnung 4711 und mehr"), lines), (order(details={"date": "2026-03-04"}), plain),
        (order(template_identifier="SEPA_INSTANT"), plain), (order(), PaymentKind("SEPA", "personal")),
    ):  # fmt: skip
        with pytest.raises(ProviderRefused):
            transfer(wrong, kind)


def test_errors_are_of_the_person_of_later_or_of_the_operator() -> None:
    def failure(status: int, code: str | None) -> tuple[type, str | None]:
        found = rules.failure(status, Refusal("Words.", code))
        return type(found), getattr(found, "error_class", None)

    # Whatever the status.
    assert failure(401, "EXPIRED_SESSION") == failure(400, "EXPIRED_SESSION") == (ProviderRefused, "AispConsentExpired")
    assert failure(422, "ASPSP_PSU_ACTION_REQUIRED")[1] == "InteractionRequired"
    assert failure(422, "PSU_HEADER_NOT_PROVIDED") == (ProviderRefused, "ProviderError")
    later = [(429, None), (500, None), (503, "x"), (408, None), (400, "ASPSP_ERROR")]
    for status, code in [*later, (401, None), (403, "ACCESS_DENIED")]:
        assert failure(status, code)[0] is ProviderDown


def test_a_payment_that_was_refused_says_in_which_words() -> None:
    limit = rules.not_created(Refusal("Too much.", "PAYMENT_LIMIT_EXCEEDED"), 422)
    assert (limit.error_class, limit.raw_status) == ("PaymentLimitReached", "PAYMENT_LIMIT_EXCEEDED")
    assert str(limit) == "Too much (PAYMENT_LIMIT_EXCEEDED)"
    unnamed = rules.not_created(Refusal(), 422)
    assert (unnamed.error_class, unnamed.raw_status, str(unnamed)) == ("PaymentFailed", None, "HTTP status 422")


def test_codes_of_banks_differ_and_stay() -> None:
    assert code_of("Sparkasse Köln/Bonn", "DE").startswith("enable_banking_de_sparkasse_koln_bonn_")
    names = ["Sparkasse Köln/Bonn", "Sparkasse Köln Bonn", "銀行", "銀行 2", "x" * 300]
    found = {code_of(name, country) for name in names for country in ("DE", "AT")}
    assert len(found) == 10
    assert all(len(code) <= 100 and code.isascii() for code in found)


def test_a_bank_is_asked_for_the_kind_of_holder_that_it_has() -> None:
    both, one = ["personal", "business"], ["personal"]
    for psu_types, asked in ((both, "business"), (one, "personal"), ([], "business")):
        assert psu_type_for(Bank("Musterbank", "DE", psu_types=psu_types), "business") == asked


def test_a_bank_is_listed_with_the_days_that_its_consent_lasts() -> None:
    for seconds, days in ((None, None), (180 * 86_400, 180), (86_400, 1)):
        bank = Bank("Musterbank", "DE", maximum_consent_validity=seconds)
        assert listed_bank("x", bank, can_pay=False).consent_days == days


def client(clock: ManualClock, network: Any = None) -> Client:
    return Client(network, clock, cast(Pool, None), url="https://x", application_id="a", key=key_pair("ours"))


def test_a_token_is_used_until_its_last_minutes_and_never_from_the_future() -> None:
    clock = ManualClock(NOW * 1_000_000)
    asking = client(clock)
    first = asking._bearer()
    clock.advance(seconds=TOKEN_SECONDS - RENEW_SECONDS)
    assert asking._bearer() == first
    clock.advance(seconds=1)
    assert asking._bearer() != first
    clock.advance(seconds=-TOKEN_SECONDS)
    assert asking._bearer() == client(clock)._bearer(), "as if there had been none"


def test_a_key_is_fetched_from_enable_banking_alone() -> None:
    webhooks = Webhooks(cast(Any, None), ManualClock(0), Rule(), "a", None)
    for url, is_theirs in (
        ("https://enablebanking.com/key", True), ("https://keys.enablebanking.com:443/key", True),
        ("https://enablebanking.com:444/key", False), ("http://enablebanking.com/key", False),
        ("https://enablebanking.com.example/key", False), ("https://notenablebanking.com/key", False),
        ("https://x@enablebanking.com/key", False), ("https://enablebanking.com:x/key", False),
    ):  # fmt: skip
        assert webhooks._is_theirs(url) is is_theirs, url


def test_it_has_no_steps_on_our_pages_and_ends_with_its_network() -> None:
    class Closing:
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True

    network, clock = Closing(), ManualClock(0)
    pool, setup = Pool("test", threads=1, waiting=1), EnableBankingSetup((), "https://x", False)
    provider = EnableBankingProvider(cast(Any, None), clock, client(clock, network), cast(Webhooks, None), pool, setup)
    with pytest.raises(ProviderRefused):
        asyncio.run(provider.proceed(b"", {}))
    asyncio.run(provider.close())
    assert network.is_closed


def test_a_key_is_read_in_any_form_and_a_certificate_only_while_it_is_valid() -> None:
    key = key_pair("webhooks")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "enablebanking.com")])
    begins = datetime.fromtimestamp(NOW, UTC)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(begins).not_valid_after(begins + timedelta(days=1)).sign(key, SHA256())
    )  # fmt: skip
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for content in (
        public_pem(key),
        der,
        certificate.public_bytes(Encoding.PEM),
        certificate.public_bytes(Encoding.DER),
    ):
        assert read_public_key(content, NOW).public_numbers() == key.public_key().public_numbers()
    for moment in (NOW - 3600, NOW + 3 * 86_400):
        with pytest.raises(ValueError, match="not valid now"):
            read_public_key(certificate.public_bytes(Encoding.PEM), moment)
    for nonsense in (b"", b"<html>", b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----"):
        with pytest.raises(ValueError, match=r"."):
            read_public_key(nonsense, NOW)
