"""Salt Edge from the first page to the last, in every shape its descriptions leave open; how it breaks; and what stays secret."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.bank_providers.salt_edge.adapter import LISTS
from kontobahn.banking.provider import PERSON_NEEDED
from kontobahn.banking.reports import refresh, webhooks
from kontobahn.clock import DAY, SECOND
from simulators.salt_edge import SaltEdge, Shapes
from tests.harness import Organization, Service
from tests.providers.salt_edge.person import EVERYTHING, Person
from tests.sandbox_visitor import query_of
from tests.waiting import eventually

OTHER_SHAPES = Shapes(
    customer="id", error="flat", amounts="text", ids="number", lists="together", from_date="refused", next_id="last",
    refresh="attempt", custom_fields="text", consents="not told", callbacks_tell_time=False, payments_tell_page=False,
    refreshed_payment="bare",
)  # fmt: skip


def state(person: Person) -> tuple[str, str | None]:
    row = person.connection()
    return row["status"], row["error_class"]


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@pytest.mark.parametrize("shapes", [Shapes(), OTHER_SHAPES], ids=["usual", "other"])
def test_a_person_connects_and_everything_is_read_once(
    person: Person, remote: SaltEdge, shapes: Shapes, capfd: pytest.CaptureFixture[str]
) -> None:
    remote.shapes, remote.rows = shapes, 2
    back, connection = person.begin(provider_code="salt_edge_musterbank_de", language="de").sign_in()
    answer = person.come_back(back)
    row = person.connection()
    assert query_of(answer) == {"pending_token": person.token, "connection_id": row["id"]}
    assert (row["provider_name"], row["country_code"]) == ("Musterbank", "DE")
    assert (state(person), row["provider_code"]) == (("active", None), "salt_edge_musterbank_de")
    assert row["consent_expires_at"] == (None if shapes is OTHER_SHAPES else "2026-08-29T09:00:00Z")
    assert person.transactions() == EVERYTHING
    accounts = person.service.get("/v2/banking/accounts", person.owner.key).json()["data"]
    assert sorted((one["nature"], one["balance"]) for one in accounts) == [("account", 0.1), ("checking", 1042.5)]
    # What callbacks tell is known already, however often and in whichever order they come.
    assert set(remote.deliver(times=2, backwards=True)) == {200}
    assert connection is not None
    # A refresh brings what is new, and what is no longer pending goes.
    [pending] = [one for one in connection.transactions if one["status"] == "pending"]
    connection.transactions.remove(pending)
    remote.book(connection, connection.accounts[0]["id"], "5.55", "2026-03-02", "Neu")
    assert person.refresh().status_code == 202
    remote.attempt(connection)
    assert set(remote.deliver(times=2)) == {200}
    new = (5.55, "Neu", "posted", False)
    assert person.transactions() == sorted([*(one for one in EVERYTHING if one[2] == "posted"), new])
    assert state(person) == ("active", None)
    expected = ["GET /transactions: WrongRequestFormat: from_date is not a parameter"] if shapes is OTHER_SHAPES else []
    assert sorted(set(remote.faults)) == expected
    assert remote.secret not in "".join(capfd.readouterr())


def test_whatever_breaks_on_the_way_nothing_is_lost_and_nothing_comes_twice(person: Person, remote: SaltEdge) -> None:
    remote.rows, remote.retry_after = 2, "0"
    back, connection = person.begin().sign_in()
    assert connection is not None
    for number in range(20):
        remote.book(connection, connection.accounts[0]["id"], f"{number}.50", "2026-03-01", f"Nr. {number}")
    lists, reads = "GET /transactions", "GET /(accounts|consents|connections/.*)"
    remote.breaks = [
        (lists, "500"), (lists, "lost"), (lists, "torn"), (lists, "nonsense"), (lists, "not done"), (reads, "429"), (reads, "503"),
    ]  # fmt: skip
    while remote.breaks:
        remote.release.set()
        person.come_back(back)
        person.service.clock.advance(seconds=3600)
    person.come_back(back)
    assert set(remote.deliver(times=2)) == {200}
    found = person.transactions()
    assert len(found) == len(set(found)) == len(EVERYTHING) + 20
    assert remote.faults == []


def test_what_only_reads_is_tried_again(person: Person, remote: SaltEdge) -> None:
    back, _ = person.begin().sign_in()
    remote.breaks = [("GET /transactions", "500"), ("GET /transactions", "torn"), ("GET /transactions", "lost")]
    assert person.come_back(back).status_code == 303
    assert person.transactions() == EVERYTHING


def test_a_limit_is_kept_to(person: Person, remote: SaltEdge) -> None:
    person.connect()
    remote.breaks, remote.retry_after = [("POST /connections/.*/refresh", "429")], "90"
    answer = person.refresh()
    assert answer.status_code == 503
    asked = len(remote.asked)
    # Until then nothing of the kind is asked, and other things are.
    answer = person.refresh()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "90")
    assert [method for method, _ in remote.asked[asked:]] == ["GET"]
    person.service.clock.advance(seconds=90)
    assert person.refresh().status_code == 202
    assert state(person) == ("active", None)


def test_a_refresh_may_want_the_person(person: Person, remote: SaltEdge) -> None:
    connection = person.connect()
    remote.interactive.add(connection.id)
    answer = person.refresh()
    assert answer.status_code == 409
    assert state(person) == ("inactive", PERSON_NEEDED)
    person.url = answer.json()["connect_url"]
    remote.flows[person.url.rpartition("=")[2]]["return_to"] = "https://kontobahn.example/?x"
    person.sign_in()
    remote.deliver()
    assert state(person) == ("active", None)


def test_a_bank_is_not_asked_before_its_time(person: Person, remote: SaltEdge) -> None:
    connection = person.connect()
    connection.next_refresh_possible_at = remote.text(remote.now() + 24 * 3600)
    remote.book(connection, connection.accounts[0]["id"], "1.00", "2026-03-02", "Schon da")
    person.service.clock.advance(seconds=7 * 3600)
    person.service.run(refresh.refresh_automatically(person.service.application.context))
    assert not [path for method, path in remote.asked if method == "POST" and "refresh" in path]
    # What Salt Edge has read already is taken.
    assert len(person.transactions()) == len(EVERYTHING) + 1


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ("InvalidCredentials", ("inactive", "InvalidCredentials")),
        ("CredentialsNotMatch", ("inactive", "InvalidCredentials")),
        ("ProviderInactive", ("disabled", "ProviderInactive")),
        ("ProviderUnavailable", ("active", "ProviderUnavailable")),
        ("SomethingNew", ("active", "SomethingNew")),
    ],
)
def test_a_failure_is_told_unless_a_success_overtook_it(
    person: Person, remote: SaltEdge, theirs: str, expected: tuple[str, str]
) -> None:
    connection = person.connect()
    remote.attempt(connection, theirs)
    remote.attempt(connection)
    # The failure comes last, and is not so any more.
    remote.deliver(backwards=True)
    assert state(person) == ("active", None)
    remote.attempt(connection)
    remote.attempt(connection, theirs)
    remote.deliver(backwards=True)
    assert state(person) == expected


def test_a_consent_ends_and_is_renewed(person: Person, remote: SaltEdge) -> None:
    connection = person.connect()
    before = person.connection()["id"]
    connection.consents[-1]["status"] = "expired"
    remote.tell("success", connection, stage="finish")
    remote.deliver()
    assert state(person) == ("inactive", "AispConsentExpired")
    person.service.clock.advance(seconds=10 * DAY / 1_000_000)
    back, _ = person.reconnect().sign_in()
    person.come_back(back)
    row = person.connection()
    assert (row["id"], state(person)) == (before, ("active", None))
    assert row["consent_expires_at"] == "2026-09-08T09:00:00Z"
    connection.consents[-1] |= {"status": "revoked", "revoked_at": "2026-03-13"}
    remote.tell("success", connection, stage="finish")
    remote.deliver()
    assert state(person) == ("disabled", "AispConsentRevoked")


def test_an_access_ends_on_either_side(person: Person, remote: SaltEdge, service: Service) -> None:
    connection = person.connect()
    path = f"/v2/banking/connections/{person.connection()['id']}"
    assert service.request("DELETE", path, person.owner.key).status_code == 200
    assert connection.id not in remote.connections
    # Late news of how it was made do not bring it back, even where it can still be read.
    remote.connections[connection.id] = connection
    connection.custom_fields = {"pending_token": person.token}
    remote.tell("success", connection, stage="finish")
    assert remote.deliver() == [200]
    assert service.get("/v2/banking/connections", person.owner.key).json()["data"] == []
    other = person.connect()
    remote.destroy(other)
    assert remote.deliver(times=2) == [200, 200]
    assert service.get("/v2/banking/connections", person.owner.key).json()["data"] == []


def test_whoever_comes_back_gets_only_their_own(person: Person, remote: SaltEdge, service: Service) -> None:
    strangers = Person(service, service.organization("Fremd AG"), remote)
    _, theirs = strangers.begin().sign_in()
    assert theirs is not None
    back, ours = person.begin().sign_in()
    assert ours is not None
    # With a connection of another organisation in the address, and with an address that was made up.
    for changed in (back.replace(ours.id, theirs.id), back.replace("seal=", "seal=0")):
        assert "connection_id" not in query_of(person.come_back(changed))
    assert service.get("/v2/banking/accounts", person.owner.key).json()["data"] == []
    assert "connection_id" in query_of(person.come_back(back))


def test_a_return_says_how_it_went(person: Person, remote: SaltEdge) -> None:
    back, _ = person.begin().sign_in(error="Cancelled")
    assert query_of(person.come_back(back))["error_class"] == "Cancelled"
    back, _ = person.begin().sign_in(error="InvalidCredentials")
    assert query_of(person.come_back(back))["error_class"] == "InvalidCredentials"
    remote.deliver()
    assert state(person) == ("pending_connect", "InvalidCredentials")
    back, connection = person.begin().sign_in()
    assert connection is not None
    connection.attempt["finished"] = False
    waiting = person.come_back(back)
    assert (waiting.status_code, "refresh" in waiting.headers) == (503, True)
    # Meanwhile the callback tells that it is done.
    connection.attempt["finished"] = True
    remote.deliver()
    assert state(person) == ("active", None)


def test_what_cannot_be_represented_is_left_out_and_the_rest_is_read(person: Person, remote: SaltEdge) -> None:
    back, connection = person.begin().sign_in()
    assert connection is not None
    account = connection.accounts[0]["id"]
    remote.book(connection, account, "0.12345", "2026-03-01", "Bruchteil")
    remote.book(connection, account, "1.00", "2026-03-01", "Seltsam", extra={"payee": 17, "posting_date": "gestern"})
    remote.book(connection, account, "2.00", "kein Tag", "Ohne Tag")
    remote.add_account(connection, "", "0.00000001", currency_code="BTC")
    remote.add_account(connection, "", balance=None)
    person.come_back(back)
    assert person.transactions() == sorted([*EVERYTHING, (1.0, "Seltsam", "posted", False)])
    accounts = person.service.get("/v2/banking/accounts", person.owner.key).json()["data"]
    assert [one["balance"] for one in accounts] == [1042.5, 0.1, None, None]
    told = [sentence for one in accounts for sentence in one["extra"].get("not_read", ())]
    assert ["Bruchteil" in told[-1] or "Bruchteil" in told[0], any("Ohne Tag" in one for one in told)] == [True, True]
    assert len(told) == 2


def test_banks_are_listed_and_kept(person: Person, remote: SaltEdge, service: Service) -> None:
    def listed() -> dict[str, Any]:
        answer = service.get("/v2/banking/providers", person.owner.key)
        assert answer.status_code == 200, answer.text
        return {one["code"]: one for one in answer.json()["data"]}

    remote.rows = 1
    banks = listed()
    # Neither test banks nor those that are read by files.
    assert sorted(banks) == ["salt_edge_beispiel_at", "salt_edge_musterbank_de"]
    muster = banks["salt_edge_musterbank_de"]
    assert muster["supports"] == ["accounts", "payments", "instant_payments"]
    assert (muster["consent_days"], muster["api"], muster["bank_codes"]) == (180, "partner", ["99912030"])
    assert banks["salt_edge_beispiel_at"]["supports"] == ["accounts", "payments"]
    remote.providers[0]["name"] = "Musterbank neu"
    assert listed() == banks
    remote.tell_of_provider("musterbank_de")
    assert remote.deliver() == [200]
    assert listed()["salt_edge_musterbank_de"]["name"] == "Musterbank neu"
    # A list that cannot be read is the one that was read before.
    service.clock.advance(seconds=24 * 3600)
    remote.secret = "changed"
    assert sorted(listed()) == sorted(banks)


def test_an_installation_that_salt_edge_refuses_says_so_to_its_operator_only(
    person: Person, remote: SaltEdge, service: Service, owner: Organization, capfd: pytest.CaptureFixture[str]
) -> None:
    before, remote.secret = remote.secret, "another"
    answer = service.post("/v2/banking/connect", owner.key, json={})
    assert answer.status_code == 503
    assert "salt_edge" not in answer.text
    said = "".join(capfd.readouterr())
    assert "salt_edge_secret is wrong" in said
    assert before not in said


def test_nobody_waits_until_a_long_history_is_read(
    person: Person, remote: SaltEdge, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(webhooks, "ATTEMPT_TIMEOUT", SECOND // 20)
    back, connection = person.begin().sign_in()
    assert connection is not None
    for number in range(1500):
        remote.book(connection, connection.accounts[0]["id"], f"{number % 9}.10", "2026-03-01", "Kaffee")
    remote.breaks = [("GET /transactions", "late")]
    waiting = person.come_back(back)
    assert (waiting.status_code, waiting.headers["refresh"]) == (503, "5")

    def claimed_until() -> int:
        [(at,)] = service.db.read_now(lambda tx: tx.all("SELECT next_attempt_at FROM banking_inbox"))
        return int(at)

    # However long it takes, nobody else begins it again.
    service.clock.advance(seconds=30)
    eventually(lambda: claimed_until() > service.clock.now())
    remote.release.set()
    eventually(lambda: person.come_back(back).status_code == 303)
    assert "connection_id" in query_of(person.come_back(back))
    found = person.transactions()
    assert len(found) == len(EVERYTHING) + 1500
    assert len([path for _, path in remote.asked if "/transactions" in path and "from_id" not in path]) == len(LISTS)
