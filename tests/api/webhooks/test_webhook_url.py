"""The webhook URL over HTTP: what it takes, what it answers, and that it is one organisation's own."""

from __future__ import annotations

import re

import pytest

from kontobahn.access import audit
from tests.harness import Service
from tests.receiver import FakeNames

URL = "/v2/banking/webhook-url"
HOOK = "https://receiver.example/hook"


@pytest.fixture(autouse=True)
def _names(service: Service) -> None:
    service.application.outbound.resolver = FakeNames(
        receiver_example=["93.184.216.34", "2606:4700::1111"],
        mixed_example=["93.184.216.34", "10.0.0.1"],
        inside_example=["127.0.0.1"],
    )


def test_it_is_set_read_and_cleared(service: Service) -> None:
    key = service.organization().key
    assert service.get(URL, key).json() == {"data": {"webhook_url": None, "updated_at": None}}
    made = service.request("PUT", URL, key, json={"webhook_url": HOOK})
    assert made.status_code == 200
    data = made.json()["data"]
    assert data.pop("secret").startswith("whsec_")
    assert data == {"webhook_url": HOOK, "updated_at": "2026-03-02T09:00:00Z"}
    assert service.get(URL, key).json() == {"data": data}, "the secret is shown once"
    service.clock.advance(seconds=60)
    again = service.request("PUT", URL, key, json={"webhook_url": HOOK + "2"}).json()["data"]
    assert again == {"webhook_url": HOOK + "2", "updated_at": "2026-03-02T09:01:00Z"}, "the secret stays"
    cleared = service.request("PUT", URL, key, json={"webhook_url": None}).json()["data"]
    assert cleared == {"webhook_url": None, "updated_at": "2026-03-02T09:01:00Z"}
    assert service.balance(service.organization()).available == 100


@pytest.mark.parametrize("url", [
    "http://receiver.example/", "https://localhost/", "https://localhost./", "https://127.0.0.1/", "https://10.0.0.1/",
    "https://192.168.1.1/", "https://[::1]/", "https://2130706433/", "https://0x7f.1/", "https://user@receiver.example/",
    "https://１２７.0.0.1/", "https://mixed.example/", "https://inside.example/", "ftp://receiver.example/", "nonsense", "",
])  # fmt: skip
@pytest.mark.parametrize("engine", ["sqlite"])
def test_what_is_no_public_https_url_is_refused_and_changes_nothing(service: Service, url: str) -> None:
    key = service.organization().key
    service.request("PUT", URL, key, json={"webhook_url": HOOK})
    refused = service.request("PUT", URL, key, json={"webhook_url": url})
    assert refused.status_code == 400
    assert refused.json()["field"] == "webhook_url"
    # Where a name leads to is not told.
    assert "10.0.0.1" in url or "10.0.0.1" not in refused.text
    assert service.get(URL, key).json()["data"]["webhook_url"] == HOOK


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://localhost:5678/webhook/kb", "localhost:5678"),
        ("https://localhost/kb", "localhost:443"),
        ("http://localhost/kb", "localhost:80"),
        ("http://127.0.0.1:5678/webhook/kb", "127.0.0.1:5678"),
        ("http://[::1]:5678/", "[::1]:5678"),
        ("http://n8n:5678/webhook/kb", "n8n:5678"),
    ],
)
@pytest.mark.either_engine
def test_the_refusal_of_a_receiver_at_home_says_what_to_do_instead(service: Service, url: str, place: str) -> None:
    key = service.organization().key
    for method, path, field in (("PUT", URL, "webhook_url"), ("POST", "/v2/banking/webhook-endpoints", "url")):
        refused = service.request(method, path, key, json={field: url})
        assert (refused.status_code, refused.json()["field"]) == (400, field)
        assert f"kontobahn listen --forward-to {url}`" in re.sub(":(80|443)/", "/", refused.json()["message"])
        assert f"webhook_allow={place}`" in refused.json()["message"]
    public = service.request("PUT", URL, key, json={"webhook_url": "http://receiver.example/hook"})
    assert public.status_code == 400
    assert "message" not in public.json()


@pytest.mark.parametrize(("body", "field"), [({}, "webhook_url"), ({"webhook_url": 5}, "webhook_url"),
                                             ({"webhook_url": HOOK, "url": "x"}, "url")])  # fmt: skip
@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_body_that_is_none_is_refused(service: Service, body: dict[str, object], field: str) -> None:
    refused = service.request("PUT", URL, service.organization().key, json=body)
    assert (refused.status_code, refused.json()["field"]) == (400, field)


def test_a_repeated_call_gets_the_same_secret_once_more(service: Service) -> None:
    key, header = service.organization().key, {"Idempotency-Key": "set-it"}
    first, second = (service.request("PUT", URL, key, json={"webhook_url": HOOK}, headers=header) for _ in range(2))
    assert first.json() == second.json()
    assert second.headers["idempotent-replayed"] == "true"


@pytest.mark.either_engine
def test_secrets_are_kept_sealed_and_rotated_only_where_there_is_a_url(service: Service) -> None:
    owner = service.organization()
    assert service.post(f"{URL}/secret", owner.key).status_code == 409
    assert service.post(f"{URL}/test", owner.key).status_code == 409
    secret = service.request("PUT", URL, owner.key, json={"webhook_url": HOOK}).json()["data"]["secret"]
    rotated = service.post(f"{URL}/secret", owner.key).json()["data"]["secret"]
    (row,) = service.db.read_now(lambda tx: tx.all("SELECT secret, previous_secret FROM webhook_receivers"))
    for stored, plain in zip(row, (rotated, secret), strict=True):
        assert plain.encode() not in stored
        assert service.vault.open(stored, f"webhook_endpoints {owner.id}").decode() == plain


def test_every_change_is_in_the_audit_log_and_no_secret_is(service: Service) -> None:
    owner = service.organization()
    service.request("PUT", URL, owner.key, json={"webhook_url": HOOK})
    service.post(f"{URL}/secret", owner.key)
    service.request("PUT", URL, owner.key, json={"webhook_url": None})
    entries = service.db.read_now(audit.entries, owner.id)
    found = [entry.action for entry in entries if entry.action.startswith("webhook")]
    assert found == ["webhook_url.set", "webhook_secret.rotate", "webhook_url.clear"]
    assert not any("whsec_" in entry.details for entry in entries)


def test_an_agency_sets_the_url_of_its_client(service: Service) -> None:
    client = service.organization()
    agency = service.agency(client)
    answer = service.request("PUT", URL, agency.key, json={"webhook_url": HOOK}, params={"organization_id": client.id})
    assert answer.status_code == 200
    assert service.get(URL, client.key).json()["data"]["webhook_url"] == HOOK
    assert service.get(URL, agency.key).json()["data"]["webhook_url"] is None, "its own is another"
