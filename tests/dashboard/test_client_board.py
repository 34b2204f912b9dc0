"""An adviser sees what waits in each client that gave access, and in no other; one click leads there."""

from __future__ import annotations

import html
import re

import pytest

from kontobahn.access import client_access
from kontobahn.access.client_access import Client
from kontobahn.dashboard.page_templates import TINTS, tints
from kontobahn.ids import new_id
from tests.bank_builder import order as order_of
from tests.dashboard.browsing import Browser
from tests.dashboard.test_attention import connect
from tests.dashboard.test_releases import LIMIT
from tests.file_bank import PAYMENTS
from tests.harness import ACTOR, Service
from tests.reconciliation_desk import Clerk, paid

EMAIL = "kanzlei@beispiel.example"
BOARD, TASKS = "/dashboard/board", "/dashboard/board/tasks"


def cells(page: str, client_id: str) -> list[str]:
    """The texts of a client's row."""
    [row] = re.findall(rf'<tr id="c-{client_id}">(.*?)</tr>', page, re.DOTALL)
    return [
        " ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split())
        for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)
    ]


def order(page: str) -> list[str]:
    return re.findall(r'<tr id="c-([^"]+)"', page)


def test_figures_are_those_of_each_client_and_lead_there(service: Service) -> None:
    busy, urgent = service.organization("Bäckerei Busch", credits_granted=1_000), service.organization("Zimmerei Zorn")
    stranger = service.organization("Fremde GmbH")
    clerk = Clerk(service, paid(119_00, "RE-2026-00123"), paid(-20_00, "Unbekannt", "Niemand", ""), owner=busy)
    clerk.store_run()
    service.db.write_now(connect, urgent.id, "Signbank", "inactive", None)
    service.db.write_now(connect, stranger.id, "Strangebank", "inactive", None)
    person = service.user(service.agency(busy, urgent, stranger), EMAIL)
    service.give_access(person, busy, "read_only")
    service.give_access(person, urgent, "member")
    browser = Browser(service)
    browser.sign_in(EMAIL)

    # The first page after signing in: one click leads to the most urgent client.
    assert browser.get("/dashboard").headers["location"] == BOARD
    page = browser.get(BOARD).text
    assert order(page) == [urgent.id, busy.id]
    (figures,) = re.findall(r'value="(/dashboard/reports/vat[^"]*)"', page)
    assert "span=m3" in figures
    waiting = [row for row in clerk.read("transactions") if row["status"] in ("open", "proposed")]
    came = sum(row["amount"] for row in waiting if row["amount"] > 0)
    # The VAT of March, in which nothing is booked.
    unmatched = f"{len(waiting)} €{came:.2f} −€20.00"
    assert cells(page, busy.id)[:7] == ["Bäckerei Busch", unmatched, "0", "0", "0", "0", "€0.00"]
    assert cells(page, urgent.id)[:7] == ["Zimmerei Zorn", "0", "1", "0", "0", "0", "–"]
    assert "Fremde" not in page
    assert order(browser.get(f"{BOARD}?sort=name").text) == [busy.id, urgent.id]
    assert order(browser.get(f"{BOARD}?q=zorn").text) == [urgent.id]

    tasks = browser.get(TASKS).text
    assert tasks.index("Signbank needs you to sign in again.") < tasks.index("transactions are unmatched.")
    assert "<strong>Zimmerei Zorn:</strong> Signbank" in tasks
    assert "Strangebank" not in tasks
    moved = browser.post("/dashboard/look", {"organization": busy.id, "next": "/dashboard/reconciliation"})
    assert moved.headers["location"] == "/dashboard/reconciliation"
    colours = tints([Client(one.id, "", "member") for one in (busy, urgent)])
    assert (
        f'<p class="client tint-{colours[busy.id]}"><strong>Bäckerei Busch</strong>'
        in browser.get("/dashboard/reconciliation").text
    )

    assert "From 1\xa0Mar\xa02026 to 31\xa0Mar\xa02026" in browser.get(html.unescape(figures)).text

    access = service.db.read_now(client_access.of_email, person.email, urgent.id)
    assert access is not None
    service.db.write_now(client_access.withdraw_by_operator, access, ACTOR)
    assert order(browser.get(BOARD).text) == [busy.id]
    assert "Signbank" not in browser.get(TASKS).text


@pytest.mark.either_engine
def test_a_payment_that_waits_for_its_release_is_not_unmatched_money(service: Service) -> None:
    busy = service.organization("Bäckerei Busch", credits_granted=1_000)
    clerk = Clerk(service, paid(-20_00, "Unbekannt", "Niemand", ""), owner=busy)
    clerk.store_run()
    assert service.request("PUT", LIMIT, busy.key, json={"amount": "100.00"}).status_code == 200
    assert service.post(PAYMENTS, busy.key, json=order_of(clerk.account, amount="5000.01")).status_code == 201
    service.give_access(service.user(service.agency(busy), EMAIL), busy, "member")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    assert "€5,000.01" in browser.get(TASKS).text
    assert cells(browser.get(BOARD).text, busy.id)[1] == "2 €0.01 −€20.00"


def test_whoever_changes_the_client_stays_on_the_page_if_the_role_allows_it(service: Service) -> None:
    client = service.organization("Klient GmbH")
    person = service.user(service.agency(client), EMAIL)
    service.give_access(person, client, "read_only")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    shown = browser.get("/dashboard/open-items").text
    assert '<input type="hidden" name="next" value="/dashboard/open-items">' in shown

    def lands(wanted: str) -> str:
        return str(browser.post("/dashboard/look", {"organization": client.id, "next": wanted}).headers["location"])

    assert lands("/dashboard/open-items") == "/dashboard/open-items"
    assert lands("/dashboard/payments/new") == "/dashboard"
    assert lands("https://elsewhere.example/dashboard") == "/dashboard"


def test_only_people_with_clients_see_the_board_in_their_menu(service: Service) -> None:
    service.user(service.organization(), EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    assert f'href="{BOARD}"' not in browser.get("/dashboard").text
    assert "Organisations that give you access appear here." in browser.get(BOARD).text


def test_clients_keep_colours_of_their_own_as_long_as_there_are_enough() -> None:
    clients = [Client(new_id(), f"Klient {number}", "member") for number in range(3 * TINTS)]
    for count in range(1, TINTS + 1):
        assert len(set(tints(clients[:count]).values())) == count
    all_of_them = tints(clients)
    assert sorted(all_of_them.values()) == sorted(3 * list(range(1, TINTS + 1)))
    assert tints(reversed(clients)) == all_of_them
    assert tints(clients[:5]) == {one.id: all_of_them[one.id] for one in clients[:5]}, "later clients change nothing"


def test_a_file_counts_as_to_be_fetched_until_somebody_has_fetched_it(service: Service) -> None:
    owner = service.organization("Bäckerei Busch", credits_granted=1_000)
    desk = Clerk(
        service, paid(119_00, "RE-2026-00123"), paid(238_00, "RE-2026-00124"), owner=owner, booked_by="kontobahn"
    )
    desk.store_run()
    service.give_access(service.user(service.agency(owner), EMAIL), owner, "bookkeeping")
    browser = Browser(service)
    browser.sign_in(EMAIL)

    def to_fetch() -> str:
        return cells(browser.get(BOARD).text, owner.id)[4]

    assert to_fetch() == "0"
    batches = []
    for amount in (119, 238):
        assert desk.confirm(amount).status_code == 201
        batches.append(desk.call("POST", "batches", json={"account_id": desk.account}).json()["data"]["id"])
    assert to_fetch() == "2"
    for _ in range(2):
        assert desk.call("GET", f"batches/{batches[0]}/extf").status_code == 200
        assert to_fetch() == "1"
    browser.post("/dashboard/look", {"organization": owner.id, "next": "/dashboard/handovers"})
    assert browser.get("/dashboard/handovers").text.count("file not fetched yet") == 1
    assert browser.get(f"/dashboard/handovers/{batches[1]}/file").status_code == 200
    assert "file not fetched yet" not in browser.get("/dashboard/handovers").text
    assert to_fetch() == "0"
