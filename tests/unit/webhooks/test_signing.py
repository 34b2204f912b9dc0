"""Signatures, held against an independent implementation of Standard Webhooks."""

from __future__ import annotations

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from kontobahn.webhooks.receiver import SECRET_PREFIX, key_of, new_secret, signed_headers

BODY = '{"event":"payment_update","data":{"name":"Bäckerei „Süß“"},"received_at":"2026-03-02T09:00:00Z"}'.encode()


def test_a_signature_verifies_elsewhere() -> None:
    secret = new_secret()
    headers = signed_headers("evt_1", int(time.time()), BODY, [key_of(secret)])
    assert Webhook(secret).verify(BODY, headers)["data"] == {"name": "Bäckerei „Süß“"}


@pytest.mark.parametrize("part", ["body", "id", "time", "secret"])
def test_whatever_is_changed_breaks_it(part: str) -> None:
    secret, now = new_secret(), int(time.time())
    headers = signed_headers("evt_1", now, BODY, [key_of(secret)])
    changed = {"id": {"webhook-id": "evt_2"}, "time": {"webhook-timestamp": str(now + 1)}}.get(part, {})
    verifier = Webhook(new_secret() if part == "secret" else secret)
    with pytest.raises(WebhookVerificationError):
        verifier.verify(BODY + b" " if part == "body" else BODY, {**headers, **changed})


def test_two_secrets_make_two_signatures_and_either_proves_it() -> None:
    old, new = new_secret(), new_secret()
    headers = signed_headers("evt_1", int(time.time()), BODY, [key_of(new), key_of(old)])
    assert headers["webhook-signature"].count("v1,") == 2
    assert Webhook(old).verify(BODY, headers)
    assert Webhook(new).verify(BODY, headers)


def test_a_secret_is_32_random_bytes_written_as_text() -> None:
    """Some receivers can use a key only if it is a text."""
    text = base64.b64decode(new_secret().removeprefix("whsec_"), validate=True).decode("ascii")
    assert len(base64.urlsafe_b64decode(text + "=")) == 32
    assert new_secret() != new_secret()


@pytest.mark.parametrize(
    "secret", ["", "secret", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(b"short").decode()]
)
def test_what_is_no_secret_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="signing secret"):
        key_of(secret)


def secret_of(count: int) -> str:
    return SECRET_PREFIX + base64.b64encode(b"k" * count).decode()


@pytest.mark.parametrize("count", [24, 64])
def test_a_secret_may_be_as_short_and_as_long_as_the_standard_says(count: int) -> None:
    assert key_of(secret_of(count)) == b"k" * count


@pytest.mark.parametrize(
    "secret",
    [secret_of(23), secret_of(65), secret_of(32).removeprefix(SECRET_PREFIX), f"{SECRET_PREFIX}!{secret_of(32)[6:]}"],
)
def test_a_secret_of_another_length_or_form_is_none(secret: str) -> None:
    with pytest.raises(ValueError, match="A signing secret"):
        key_of(secret)
