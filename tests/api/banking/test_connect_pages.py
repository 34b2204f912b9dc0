"""The hosted pages of a connect flow: every kind of step a provider may want, one request at a time, and nothing left readable."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kontobahn.banking.connect import pages as connect_pages
from kontobahn.banking.connect import steps
from kontobahn.banking.interaction import Field, Interaction, Option, Picture, Polling, Step, Words
from kontobahn.banking.provider import LOCKED, ConnectionFinished, ListedBank, ProviderDown, ProviderRefused, Snapshot
from kontobahn.clock import HOUR, MINUTE
from tests.api.banking.test_banks import use
from tests.api.banking.test_connections import bank, listed, owner
from tests.bank_builder import Bank, account_facts, facts
from tests.harness import START, Organization, Service
from tests.sandbox_visitor import query_of, words

__all__ = ["bank", "owner"]
TITLE = Words("Anmelden", "Sign in")
PIN = Field("pin", Words("PIN", "PIN"), "secret")
TAN = Field("tan", Words("TAN", "TAN"), "digits", max_length=8)
SECRET_PIN, SECRET_STATE = "geheime-pin-4711", b"state-with-secrets"
RETURN_TO = "https://app.example/zurueck"


def then(kind: Any, state: bytes = b"next", expires_at: int = START + HOUR, **more: Any) -> Interaction:
    return Interaction(Step(kind, TITLE, **more), state, expires_at)


def finished(bank: Bank, token: str, ref: str = "bank-1") -> list[Any]:
    snapshot = Snapshot(bank.connection_facts(ref, consent_expires_at=None), [account_facts()], [facts(1)])
    return [ConnectionFinished(ref, token, snapshot)]


class Person:
    """Somebody at the pages, with a browser without scripts."""

    def __init__(self, service: Service, owner: Organization, **body: Any) -> None:
        answer = service.post("/v2/banking/connect", owner.key, json={"return_to": RETURN_TO, **body})
        assert answer.status_code == 201, answer.text
        self.service, self.token = service, answer.json()["pending_token"]
        self.url = answer.json()["connect_url"]
        assert self.url.startswith(f"{service.base_url}{steps.PATH}/")

    def look(self, query: str = "", **headers: str) -> Any:
        return self.service.http.get(self.url + query, headers=headers)

    def send(self, **fields: Any) -> Any:
        number = re.search(r'name="step" value="(\d+)"', self.look().text)
        return self.service.http.post(self.url, data={"step": number[1] if number else "", **fields})


def asked(bank: Bank) -> list[Any]:
    return [call[1:] for call in bank.provider.asked if call[0] == "proceed"]


def test_a_flow_goes_from_step_to_step_and_ends_with_a_connection(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.first_step = then("form", SECRET_STATE, said="Willkommen <b>", fields=(PIN,))
    person = Person(service, owner)
    page = person.look()
    assert "Willkommen <b>" in words(page)
    assert "<b>" not in page.text
    assert "<script" not in page.text
    options = (Option("922", "pushTAN"), Option("920", "smsTAN"))
    bank.provider.steps = [
        then("choice", b"2", choice="method", options=options),
        then("image", b"3", picture=Picture("image/png", b"PNG"), fields=(TAN,)),
        then("flicker", b"4", flicker="1A2B", fields=(TAN,)),
        finished(bank, person.token),
    ]
    assert person.send(pin=SECRET_PIN, other="x").status_code == 303
    assert [text in words(person.look()) for text in ("pushTAN", "smsTAN")] == [True, True]
    # Only what was offered can be chosen, and nothing reaches the bank that is not complete.
    assert person.send(method="999").status_code == 422
    assert person.send(method="922").status_code == 303
    picture = re.search(r'<img src="([^"]+/picture/\d+)"', person.look().text)
    assert picture is not None
    image = service.http.get(picture[1])
    assert (image.content, image.headers["content-type"]) == (b"PNG", "image/png")
    assert person.send(tan="12a").status_code == 422
    assert person.send(tan="123456").status_code == 303
    picture = re.search(r'<img src="([^"]+/picture/\d+)"', person.look().text)
    assert picture is not None
    assert b"<animate" in service.http.get(picture[1]).content
    assert person.send(tan="654321").status_code == 303
    assert asked(bank) == [
        (SECRET_STATE, {"pin": (SECRET_PIN,)}), (b"2", {"method": ("922",)}), (b"3", {"tan": ("123456",)}), (b"4", {"tan": ("654321",)}),
    ]  # fmt: skip
    [row] = listed(service, owner)
    assert (row["status"], row["consent_expires_at"]) == ("active", None)
    done = person.look()
    assert "Das Konto ist verbunden" in words(done)
    assert f"connection_id={row['id']}" in done.text
    # It is over: no form of it does anything any more.
    person.send(tan="1")
    assert len(asked(bank)) == 4


def test_two_clicks_and_an_old_form_count_once(service: Service, bank: Bank, owner: Organization) -> None:
    bank.provider.first_step = then("form", fields=(PIN,))
    person = Person(service, owner)
    bank.provider.steps = [then("form", b"2", fields=(TAN,)), then("form", b"3", fields=(TAN,))]
    for _ in range(2):
        assert service.http.post(person.url, data={"step": "1", "pin": "1"}).status_code == 303
    assert len(asked(bank)) == 1
    row = service.db.read_now(lambda tx: steps.INTERACTIONS.all(tx, "1 = 1"))[0]
    assert service.db.write_now(steps.claim, row) is not None
    assert service.db.write_now(steps.claim, row) is None
    # While the bank is asked for one request, the page says so, and a form that was open before is not taken.
    assert "Wir warten auf Ihre Bank" in words(person.look())
    assert "läuft noch" in words(service.http.post(person.url, data={"step": str(row.number), "tan": "1"}))
    # The claim of a process that died expires.
    service.clock.advance(seconds=steps.CLAIM // 1_000_000)
    assert person.send(tan="1").status_code == 303
    assert len(asked(bank)) == 2


def test_a_confirmation_elsewhere_is_asked_for_as_often_as_the_bank_allows(
    service: Service, bank: Bank, owner: Organization
) -> None:
    waiting = then("decoupled", b"w", said="Bitte in der App freigeben", polling=Polling(10, 5, 3))
    bank.provider.first_step = waiting
    person = Person(service, owner)
    assert person.look().headers["refresh"] == "10"
    # Not before its time, not even by hand.
    assert person.send().status_code == 303
    assert asked(bank) == []
    bank.provider.steps = [waiting, finished(bank, person.token)]
    service.clock.advance(seconds=10)
    assert person.look().headers["refresh"] == "5"
    person.look()
    assert len(asked(bank)) == 1
    service.clock.advance(seconds=5)
    assert "verbunden" in words(person.look())
    assert [row["status"] for row in listed(service, owner)] == ["active"]


@pytest.mark.either_engine
def test_nobody_is_asked_for_ever(service: Service, bank: Bank, owner: Organization) -> None:
    waiting = then("decoupled", b"w", polling=Polling(1, 1, 2))
    bank.provider.first_step = waiting
    person = Person(service, owner)
    bank.provider.steps = [waiting] * 10
    for _ in range(5):
        service.clock.advance(seconds=1)
        person.look()
    assert len(asked(bank)) == 2
    assert ("abandon", b"w") in bank.provider.asked
    assert "nicht rechtzeitig bestätigt" in words(person.look())
    assert [row["error_class"] for row in listed(service, owner)] == ["InteractiveTimeout"]


@pytest.mark.either_engine
def test_a_refusal_can_be_tried_again_unless_the_access_is_locked(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.first_step = then("form", fields=(PIN,))
    person = Person(service, owner)
    bank.provider.steps = [
        ProviderDown("no answer"),
        ProviderRefused("InvalidCredentials", "PIN falsch"),
        ProviderRefused(LOCKED, "Gesperrt"),
    ]
    down = person.send(pin="1")
    assert (down.status_code, "antwortet gerade nicht" in words(down)) == (422, True)
    assert person.send(pin="1").status_code == 303
    failed = person.look()
    told = words(failed)
    assert "PIN falsch" in told
    assert "Noch einmal versuchen" in told
    assert "InvalidCredentials" not in told, "a class of errors is for programs"
    assert f"{RETURN_TO}?pending_token={person.token}&amp;error_class=InvalidCredentials" in failed.text
    assert person.send(action="again").status_code == 303
    assert person.send(pin="1").status_code == 303
    locked = person.look()
    assert "gesperrt" in words(locked)
    assert "Noch einmal" not in words(locked)
    begun = len(bank.provider.asked)
    person.send(action="again")
    assert len(bank.provider.asked) == begun
    # The placeholder says why, and is removed like any other.
    assert [row["error_class"] for row in listed(service, owner)] == [LOCKED]


def test_cancelling_returns_to_the_application_and_tells_the_bank(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.first_step = then("form", SECRET_STATE, fields=(PIN,))
    person = Person(service, owner)
    answer = person.send(action="cancel")
    assert query_of(answer) == {"pending_token": person.token, "error_class": "Cancelled"}
    assert ("abandon", SECRET_STATE) in bank.provider.asked


def test_a_step_expires_and_what_was_sealed_goes_with_it(service: Service, bank: Bank, owner: Organization) -> None:
    bank.provider.first_step = then("form", SECRET_STATE, START + 20 * MINUTE, said="Vertraulich", fields=(PIN,))
    person = Person(service, owner)
    stored = service.db.read_now(lambda tx: steps.INTERACTIONS.all(tx, "1 = 1"))[0]
    assert stored.sealed is not None
    for secret in (SECRET_STATE, b"Vertraulich", person.url.rsplit("/", 1)[1].encode()):
        assert secret not in bytes(stored.sealed) + stored.token_hash.encode()
    service.clock.advance(seconds=20 * 60)
    assert person.look().status_code == 404
    service.db.write_now(steps.purge)
    stored = service.db.read_now(lambda tx: steps.INTERACTIONS.all(tx, "1 = 1"))[0]
    assert stored.sealed is None
    assert service.http.get(f"{steps.PATH}/{'x' * 500}").status_code == 404


def test_the_bank_is_chosen_on_our_page_if_there_are_several_providers(
    service: Service, bank: Bank, owner: Organization
) -> None:
    use(service, "sandbox", "scripted")
    bank.provider.listed = [ListedBank("scripted_1", "Sparkasse Köln", "DE", "partner", (), ("37050198",))]
    person = Person(service, owner)
    assert [name in words(person.look()) for name in ("Musterbank", "Sparkasse Köln", "Kartenhaus")] == [
        True,
        True,
        False,
    ]
    assert "Musterbank" not in words(person.look("?name=koeln"))
    assert "Sparkasse Köln" in words(person.look("?name=37050198"))
    assert person.send(bank="nirgendwo").status_code == 422
    # To a provider with pages of its own: the browser is led there, without being redirected by a form.
    service.http.headers["user-agent"] = "Mozilla/5.0 (Erika)"
    assert person.send(bank="scripted_1").status_code == 303
    # The provider is told from where the person comes, and with what.
    [request] = [call[1] for call in bank.provider.asked if call[0] == "start_connect"]
    assert (request.ip_address, request.user_agent) == ("127.0.0.1", "Mozilla/5.0 (Erika)")
    page = person.look()
    assert page.headers["refresh"] == f"1; url=https://bank.example/connect/{person.token}"
    [row] = listed(service, owner)
    assert (row["provider_code"], row["status"]) == ("scripted_1", "pending_connect")
    bank.provider.snapshots["bank-1"] = Snapshot(bank.connection_facts(), [account_facts()], [])
    assert bank.deliver(kind="ConnectionFinished", provider_ref="bank-1", pending_token=person.token).status_code == 200
    assert [row["status"] for row in listed(service, owner)] == ["active"]


def test_the_pages_speak_the_language_of_the_person(service: Service, bank: Bank, owner: Organization) -> None:
    bank.provider.first_step = then("form", fields=(PIN,))
    person = Person(service, owner)
    assert '<html lang="de">' in person.look().text
    assert "Cancel" in words(person.look(**{"accept-language": "en-GB,en;q=0.9"}))
    assert "Abbrechen" in words(person.look("?lang=de", **{"accept-language": "en"}))
    assert "Cancel" in words(Person(service, owner, language="en").look())


@pytest.mark.parametrize(
    ("code", "bars"),
    [
        # The synchronisation first; then each byte with its low half before its high half, each with the clock on and off.
        ("21", ["11111", "01111", "10000", "00000", *["11111", "01111"] * 2, "11000", "01000", "10100", "00100"]),
    ],
)
def test_a_flicker_code_is_shown_as_its_bars(code: str, bars: list[str]) -> None:
    shown = ["".join("1" if bar else "0" for bar in moment) for moment in connect_pages.flicker_frames(code)]
    assert shown == bars
    with pytest.raises(ValueError, match="whole bytes"):
        connect_pages.flicker_frames("123")
