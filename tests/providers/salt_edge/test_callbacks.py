"""Callbacks of Salt Edge: believed only if its key signed the address as it is configured, and the very body."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256

from kontobahn.bank_providers.salt_edge.adapter import (
    MAX_AGE,
    SaltEdgeProvider,
    check,
    probe,
    read_public_keys,
    reports,
    set_up,
)
from kontobahn.bank_providers.salt_edge.rules import MEANINGS, PAYMENT_STATES, REMEDIES, payment_report
from kontobahn.bank_providers.salt_edge.wire import Payment, custom, error_of, instant
from kontobahn.banking.provider import BadSignature, ConnectionFinished, Delivery, PaymentReported
from kontobahn.clock import SECOND, ManualClock, to_datetime
from kontobahn.errors import SetupError
from kontobahn.settings import Settings
from simulators.salt_edge import Callback, SaltEdge, key
from tests.harness import START, ServiceFactory
from tests.providers.salt_edge.person import Person, public_pem, settings_for


def test_only_what_salt_edge_signed_for_this_address_is_believed(
    person: Person, remote: SaltEdge, capfd: pytest.CaptureFixture[str]
) -> None:
    connection = person.connect()
    remote.destroy(connection)
    [callback] = remote.outbox
    assert remote.post(callback, key("another")) == 401
    assert "version of the key: 6.0" in "".join(capfd.readouterr())
    # Signed for another address: of another kind of news, and of another installation.
    assert remote.post(callback, url=f"{remote.callback_url}/success") == 401
    assert remote.post(callback, url="https://other.example/v2/banking/webhooks/salt_edge/destroy") == 401
    # Recorded long ago, and sent again when nobody remembers it.
    assert remote.post(Callback("destroy", callback.data, "2026-01-02T00:00:00Z")) == 401
    path = "/v2/banking/webhooks/salt_edge/destroy"
    assert person.service.post(path, json=callback.data).status_code == 401
    assert person.connection()["status"] == "active"
    # Behind a proxy it arrives elsewhere; what counts is the address that is configured.
    remote.deliver_to = remote.callback_url.replace("127.0.0.1", "localhost")
    assert remote.post(callback) == 200
    assert person.service.get("/v2/banking/connections", person.owner.key).json()["data"] == []


def test_a_new_key_is_taken_beside_the_old_one(start_service: ServiceFactory, remote: SaltEdge, tmp_path: Path) -> None:
    settings = settings_for(remote, remote.serve(), tmp_path)
    both = public_pem(remote.callback_key) + b"\n" + public_pem(key("new"))
    Path(settings["salt_edge_callback_key"]).write_bytes(both)
    service = start_service(**settings)
    person = Person(service, service.organization(), remote)
    connection = person.connect()
    for signer in (key("new"), remote.callback_key):
        remote.tell("success", connection, stage="finish")
        assert remote.deliver(signed_by=signer) == [200]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"])
def test_a_file_without_a_key_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "callbacks.pem"
    path.write_bytes(content)
    with pytest.raises(SetupError, match=r"callbacks\.pem"):
        read_public_keys(path)
    with pytest.raises(SetupError, match="nowhere"):
        read_public_keys(tmp_path / "nowhere")


def test_news_are_believed_until_they_are_too_old() -> None:
    url, signer, now = "https://kontobahn.example/hook", key("callbacks"), START

    def deliver(sent_at: int) -> str:
        body = json.dumps({"data": {}, "meta": {"time": to_datetime(sent_at).isoformat()}}).encode()
        signature = signer.sign(url.encode() + b"|" + body, PKCS1v15(), SHA256())
        headers = {"signature": base64.b64encode(signature).decode()}
        return check([signer.public_key()], Delivery(url, "success", headers, body), now)

    assert deliver(now - MAX_AGE)
    with pytest.raises(BadSignature, match="too long ago"):
        deliver(now - MAX_AGE - SECOND)


def test_only_what_has_ended_and_names_what_it_is_about_is_reported() -> None:
    def told(kind: str, **data: Any) -> list[Any]:
        return reports(kind, json.dumps({"data": data}).encode())

    finished = [ConnectionFinished("7", None)]
    assert told("success", connection_id="7") == told("success", connection_id="7", stage="finish") == finished
    assert told("success", connection_id="7", stage="fetch_recent") == told("success", stage="finish") == []
    [payment] = told("payment-success", payment_id="9", status="completed")
    assert isinstance(payment, PaymentReported)
    assert payment.provider_ref == "9"
    assert told("payment-success", status="completed") == []


def test_it_ends_with_its_client_and_does_not_begin_without_its_secret_and_key() -> None:
    class Closing:
        is_closed = False

        async def close(self) -> None:
            self.is_closed = True

    client, clock = Closing(), ManualClock(START)
    asyncio.run(SaltEdgeProvider(cast(Any, client), clock, [], b"", sandboxes=False).close())
    assert client.is_closed
    with pytest.raises(SetupError, match="salt_edge_secret"):
        asyncio.run(probe(Settings(salt_edge_app_id="a"), clock, cast(Any, None)))
    with pytest.raises(SetupError, match="needs the setting salt_edge_callback_key"):
        set_up(Settings(salt_edge_app_id="a"), cast(Any, None), clock, cast(Any, None))


def test_states_of_payments_are_translated_and_what_nobody_knows_is_no_failure() -> None:
    assert {payment_report(Payment(status=name)).status for name in PAYMENT_STATES} == set(PAYMENT_STATES.values())
    for unknown in ("processing", "rejected", "", None):
        assert payment_report(Payment(status=unknown)).status is None
    for name, meaning in MEANINGS.items():
        report = payment_report(Payment(status="failed", error_class=name))
        assert (report.status is None) is (meaning == "unknown")
        assert report.error_class == name
    assert set(REMEDIES) == {name for name, meaning in MEANINGS.items() if meaning == "ours"}


def test_errors_and_fields_are_read_in_every_shape() -> None:
    told = ("ApiKeyNotFound", "no such key")
    assert error_of(b'{"error":{"class":"ApiKeyNotFound","message":"no such key"},"request":{}}') == told
    assert error_of(b'{"error_class":"ApiKeyNotFound","error_message":"no such key"}') == told
    assert error_of(b'{"error":"the app is pending"}') == ("", "the app is pending")
    assert error_of(b'"the app is pending"') == ("", "the app is pending")
    for nonsense in (b"", b"<html>", b"[1]", b'{"error":17}'):
        assert error_of(nonsense) == ("", "")
    assert custom('{"a":"b"}') == custom({"a": "b"}) == {"a": "b"}
    assert custom("nonsense") == custom(None) == {}
    assert instant("2026-03-02T09:00:00Z") == instant("2026-03-02 09:00:00 UTC") == instant("2026-03-02T10:00:00+01:00")
    assert instant("") is instant("soon") is instant(None) is None
