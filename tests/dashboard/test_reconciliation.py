"""Matching payments in a browser, without a script: setting up, looking, confirming one after the other, handing over."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.reconciliation_desk import OTHER, Desk, paid

PAGE = "/dashboard/reconciliation"
EMAIL = "erika@muster.example"
one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


class Person(Browser):
    """Somebody at a desk with three payments."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.desk = Desk(
            service,
            paid(119_00, "Rechnung RE-2026-00123 <b>danke</b>"),
            paid(100_00, "RE 2026 00124"),
            paid(-7_00, "Entgelt", "Bank", OTHER),
        )
        service.user(self.desk.owner, EMAIL, "admin")
        assert self.sign_in(EMAIL).status_code == 303

    def do(self, path: str, **fields: str) -> str:
        """Sends a form, and returns the page that it leads to."""
        answer = self.post(path, fields)
        assert answer.status_code == 303, answer.text
        return self.get(answer.headers["location"]).text

    def set_up(self, **changes: str) -> str:
        books = f"{self.desk.books.connection_id} {self.desk.books.client.client_id}"
        fields = {"account_id": self.desk.account, "books": books, "sachkonto": "1200", "bucht": "kontobahn", **changes}
        return self.do("/dashboard/reconciliation-accounts", **fields)

    def look(self) -> str:
        key = re.findall(r'name="once" value="([^"]+)"', self.get(PAGE).text)[0]
        return self.do(PAGE, account=self.desk.account, once=key)

    def of(self, amount: int) -> str:
        """The page of the transaction of this amount."""
        [(id,)] = self.desk.books.rows("SELECT id FROM banking_transactions WHERE amount_minor = ?", amount)
        return f"{PAGE}/{id}"


def proposals(page: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r'name="proposal" value="([^"]+)"', page)))


@one_engine
def test_from_setting_up_to_handing_over(service: Service) -> None:
    person = Person(service)
    assert "No account is set up yet" in person.get(PAGE).text
    assert "The account is set up." in person.set_up()
    assert "transactions wait for you" in person.look()
    first = person.of(119_00)
    page = person.get(first).text
    assert "<mark>RE-2026-00123</mark> &lt;b&gt;danke" in page
    assert "Number, amount and payer fit" in page
    assert "data-enter" in page
    after = person.do(f"{first}/confirm", proposal=proposals(page)[0])
    assert "The payment is matched." in after
    assert "RE 2026 00124" in after, "the next that waits"
    refused = person.post(f"{first}/confirm", {"proposal": proposals(page)[0]})
    assert (refused.status_code, "This proposal is confirmed already" in refused.text) == (422, True)
    second = person.of(100_00)
    assert "This is not proposed again." in person.do(f"{second}/reject", proposal=proposals(after)[0])
    by_hand = {"art": "posten", "kontonummer": "10010", "beleg": "RE-2026-00124", "betrag": "99,00", "betrag2": ""}
    answer = person.post(f"{second}/by-hand", by_hand)
    assert (answer.status_code, "The lines sum to" in answer.text) == (422, True)
    rest = {"art2": "akonto", "kontonummer2": "10010", "betrag2": "1,00"}
    assert "The payment is matched." in person.do(f"{second}/by-hand", **{**by_hand, **rest})
    assert "The transaction is left out." in person.do(f"{person.of(-7_00)}/leave-out", status="ignored")
    assert "Unmatched money" in person.get("/dashboard").text
    key = re.findall(r'name="once" value="([^"]+)"', person.get("/dashboard/handovers").text)[0]
    page = person.do("/dashboard/handovers", account_id=person.desk.account, once=key)
    assert all(text in page for text in ("The matches are handed over.", "DATEV file", "RE-2026-00123", "219.00"))
    [batch] = set(re.findall(r"/dashboard/handovers/[0-9a-f-]{36}", page))
    assert person.get(f"{batch}/file").content.startswith(b'"EXTF"')
    assert "RE-2026-00124" in person.get(f"{batch}/list.csv").text
    [match] = re.findall(r'name="match" value="([^"]+)"', person.get(first).text)
    assert "The match is undone." in person.do(f"{first}/undo", match=match, grund="anderer Kunde")


@one_engine
def test_all_that_is_clear_is_shown_first_and_then_confirmed_at_once(service: Service) -> None:
    person = Person(service)
    person.set_up(bucht="kanzlei")
    person.look()
    page = f"{PAGE}/all-clear/{person.desk.account}"
    shown = person.get(page).text
    assert len(proposals(shown)) == 1
    assert "119.00" in shown
    assert "One payment is matched." in person.do(page, proposal=proposals(shown)[0])
    assert "Nothing is that clear" in person.get(page).text
    key = re.findall(r'name="once" value="([^"]+)"', person.get("/dashboard/handovers").text)[0]
    listed = person.do("/dashboard/handovers", account_id=person.desk.account, once=key)
    assert "Nothing was booked" in listed
    assert "DATEV file" not in listed


@one_engine
def test_what_belongs_to_others_is_not_there(service: Service) -> None:
    theirs = Person(service)
    theirs.set_up()
    theirs.look()
    mine = Browser(service)
    service.user(service.organization(), "max@muster.example", "admin")
    assert mine.sign_in("max@muster.example").status_code == 303
    for path in (theirs.of(119_00), f"{PAGE}/all-clear/{theirs.desk.account}", f"{PAGE}/777", f"{PAGE}/x"):
        assert mine.get(path).status_code == 404, path
    assert mine.post(f"{theirs.of(119_00)}/leave-out", {"status": "ignored"}).status_code in (404, 422)
    assert theirs.desk.books.rows("SELECT COUNT(*) FROM recon_transactions WHERE state = 'ignored'") == [(0,)]
