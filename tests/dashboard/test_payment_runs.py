"""The pages of payment runs: invoices are chosen, looked at with sum and balance, and paid once; accounts are accepted by a person."""

from __future__ import annotations

import csv
import io
import re

import pytest
from pypdf import PdfReader

from kontobahn.dashboard import sheets
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages import payables
from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.payables.handover import HANDOVERS, HandoverRow
from kontobahn.payables.run_store import RUNS as RUNS_TABLE
from kontobahn.payables.run_store import RunRow
from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.paid_invoices import Payer, credit_note, in_dollars, of_tea

INBOX = "/dashboard/payables"
DUE, RUNS = f"{INBOX}/due", f"{INBOX}/payment-runs"


@pytest.fixture
def payer(service: Service, muster: Organization) -> Payer:
    return Payer(service, muster)


@pytest.mark.either_engine
def test_invoices_are_chosen_looked_at_and_paid_once(payer: Payer, browser: Browser) -> None:
    assert "Nothing is to be paid" in browser.get(DUE).text
    coffee, tea, waiting = payer.released(), payer.released(of_tea("T-1")), payer.received(of_tea("T-2"))
    listed = browser.get(DUE).text
    assert (f'value="{coffee["id"]}"' in listed, f'value="{waiting["id"]}"' in listed) == (True, False)
    assert "T-2" not in browser.get(f"{DUE}?within=7").text
    assert browser.get(f"{RUNS}/new").status_code == 303, "nothing was chosen"
    page = browser.get(f"{RUNS}/new?payable={coffee['id']}&payable={tea['id']}&payable={waiting['id']}").text
    for text in ("€42.36", "€1,000.01", "€957.65", "less €0.66 Skonto", ">T-2</span>: It is not released."):
        assert text in page, text
    once = re.search(r'name="once" value="([^"]+)"', page)
    assert once is not None
    form = {"payable": [coffee["id"], tea["id"]], "account_id": payer.account, "once": once[1], "date": ""}
    made = browser.post(f"{RUNS}/new", form)
    assert made.status_code == 303, made.text
    assert browser.post(f"{RUNS}/new", form).headers["location"] == made.headers["location"]
    assert len(payer.payments()) == 2
    shown = browser.get(made.headers["location"]).text
    for text in ("Roesterei Hafen GmbH", "R-7", "Order file"):
        assert text in shown, text
    assert "€42.36" in browser.get(RUNS).text
    assert "being paid" in browser.get(f"/dashboard/payables/{coffee['id']}").text
    again = browser.post(f"{RUNS}/new", {**form, "once": "another"})
    assert again.status_code == 422
    assert len(payer.payments()) == 2


@pytest.mark.either_engine
def test_the_overview_says_what_is_to_be_paid(payer: Payer, browser: Browser) -> None:
    payer.released()
    payer.received(of_tea("T-1"))
    payer.received(credit_note("G-1", 100))
    overview = browser.get("/dashboard").text
    assert "€32.36" in overview, "within 7 days"
    assert "€41.36" in overview, "within 30 days, less the credit note"
    assert "€41.36" in browser.get(f"{DUE}?within=30").text


def _printed(browser: Browser, path: str, **headers: str) -> str:
    answer = browser.get(path, **headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf"), answer.text
    assert "%C2%AD" not in answer.headers["content-disposition"], "soft hyphens are not for names of files"
    (page,) = PdfReader(io.BytesIO(answer.content)).pages
    return page.extract_text()


def _saved(browser: Browser, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(browser.get(path).content.decode("utf-8-sig").splitlines()))


@pytest.mark.either_engine
def test_what_is_to_be_paid_is_saved_and_printed_with_its_sums(payer: Payer, browser: Browser) -> None:
    payer.released()
    payer.received(of_tea("T-1"))
    payer.received(credit_note("G-1", 100))
    payer.received(in_dollars("U-1", 500))
    in_euros, in_dollar = re.findall(r'<tr class="sum">(.*?)</tr>', browser.get(DUE).text, re.DOTALL)
    assert all(text in in_euros for text in ("3 invoices", "€41.36"))
    assert all(text in in_dollar for text in ("One invoice", "$5.00"))
    listed = browser.get(f"{DUE}?within=7").text
    assert all(f'href="{DUE}.{ending}?within=7"' in listed for ending in ("csv", "pdf"))
    rows = _saved(browser, f"{DUE}.csv")
    assert {row["Invoice number"]: row["Amount today"] for row in rows} == {
        "R-7": "32.36", "T-1": "10.00", "G-1": "-1.00", "U-1": "5.00",
    }  # fmt: skip
    coffee = {"Amount due": "33.02", "Skonto": "0.66", "Skonto until": "2026-03-09", "Creditor account": "70001"}
    [row] = _saved(browser, f"{DUE}.csv?within=7")
    assert coffee.items() <= row.items(), row
    printed = _printed(browser, f"{DUE}.pdf")
    for text in (
        "Invoices to pay", "Muster GmbH", "Client 29098-55003", "As of 2 Mar 2026", "Printed on 2 Mar 2026", "Page 1 of 1",
        "T-1", "to be released", "42.02", "41.36", "5.00 USD",
    ):  # fmt: skip
        assert text in printed, (text, printed)
    printed = _printed(browser, f"{DUE}.pdf?within=7", **{"accept-language": "de"})
    assert all(
        text in printed for text in ("Zu zahlende Rechnungen", "In den nächsten 7 Tagen", "R-7", "Summe", "32,36")
    )
    assert "T-1" not in printed


@pytest.mark.either_engine
def test_received_invoices_are_saved_and_printed_with_their_sums(
    payer: Payer, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payables, "CSV_STEP_ROWS", 2)
    payer.released()
    for content in (of_tea("T-1"), credit_note("G-1", 100), in_dollars("U-1", 500)):
        payer.received(content)
    listed = browser.get(f"{INBOX}?status=released").text
    assert all(f'href="{INBOX}.{ending}?status=released"' in listed for ending in ("csv", "pdf"))
    rows = _saved(browser, f"{INBOX}.csv")
    assert [(row["Invoice number"], row["Amount due"], row["Creditor account"]) for row in rows] == [
        ("U-1", "5.00", "70001"), ("G-1", "-1.00", "70001"), ("T-1", "10.00", "70002"), ("R-7", "33.02", "70001"),
    ]  # fmt: skip
    assert [row["Invoice number"] for row in _saved(browser, f"{INBOX}.csv?status=released")] == ["R-7"]
    printed = _printed(browser, f"{INBOX}.pdf")
    for text in (
        "Received invoices", "Muster GmbH", "Client 29098-55003", "Received from 2 Mar 2026 to 2 Mar 2026", "Page 1 of 1",
        "42.02", "5.00 USD",
    ):  # fmt: skip
        assert text in printed, (text, printed)
    printed = _printed(browser, f"{INBOX}.pdf?status=released", **{"accept-language": "de"})
    assert all(text in printed for text in ("Eingangsrechnungen", "freigegeben", "R-7", "Summe", "33,02")), printed
    assert "T-1" not in printed
    monkeypatch.setattr(sheets, "MAX_PRINTED", 3)
    assert "At most 3 rows are printed." in browser.get(f"{INBOX}.pdf").text


@pytest.mark.either_engine
def test_accounts_are_accepted_and_booked_where_the_settings_say_so(payer: Payer, browser: Browser) -> None:
    settings = "/dashboard/payables/settings"
    books = f"{payer.books.connection_id} 29098-55003"
    assert browser.get(settings).status_code == 403, "an administrator says how"
    payer.service.user(payer.owner, "admin@muster.example", "admin")
    assert browser.sign_in("admin@muster.example").status_code == 303
    saved = browser.post(settings, {"two_people_above": "1.000,00", "books": books, "book_on": "acceptance"})
    assert saved.status_code == 303, saved.text
    assert 'value="1000.00"' in browser.get(settings).text
    page = f"/dashboard/payables/{payer.received()['id']}"
    wrong = browser.post(f"{page}/booking", {"account": ["3300"], "steuer": [""], "amount": ["33,01"]})
    assert wrong.status_code == 422
    assert 'value="33,01"' in wrong.text
    assert "The amounts must each be above 0 and sum to 33.02, not to 33.01." in wrong.text
    assert wrong.text.count('name="amount"') == 3, "the amount can be divided"
    assert browser.post(f"{page}/booking", {"account": ["x"], "steuer": [""], "amount": ["1"]}).status_code == 422
    lines = {"account": ["3300", "4930", ""], "steuer": ["", "9", ""], "amount": ["30.00", "3.02", ""]}
    assert browser.post(f"{page}/booking", lines).status_code == 303
    shown = browser.get(page).text
    assert "The invoice is booked." in shown
    for text in ("3300 · ", "€30.00", "Tax key 9"):
        assert text in shown, text
    assert payer.books.rows("SELECT COUNT(*) FROM books_bookings") == [(2,)]


@pytest.mark.either_engine
def test_what_others_book_is_handed_over_once_and_can_be_saved_again(payer: Payer, browser: Browser) -> None:
    path = "/dashboard/payables/handovers"
    assert "Nothing to hand over" in browser.get(path).text
    coffee = payer.released()
    at = f"/dashboard/payables/{coffee['id']}"
    assert "handovers" in browser.get("/dashboard/payables").text
    assert browser.post(f"{at}/booking", {"account": "3300", "steuer": "", "amount": "33.02"}).status_code == 303
    waiting = browser.get(path).text
    assert "1 invoice waits." in waiting
    form = dict(re.findall(r'type="hidden" name="(connection_id|client_id)" value="([^"]+)"', waiting))
    assert browser.post(path, form).status_code == 303
    shown = browser.get(path).text
    assert ("One invoice was handed over." in shown, "invoice waits" in shown, "€33.02" in shown) == (True, False, True)
    file = re.search(rf'href="({path}/[^"]+/file)"', shown)
    assert file is not None
    saved = browser.get(file[1])
    assert (saved.status_code, saved.content[:2], browser.get(file[1]).content) == (200, b"PK", saved.content)
    assert "handed over" in browser.get(at).text
    assert browser.post(path, form).status_code == 422
    assert browser.post(path, {"connection_id": "?"}).status_code == 422


@pytest.mark.either_engine
def test_runs_and_hand_overs_are_paged_from_the_newest_on(payer: Payer, browser: Browser, service: Service) -> None:
    ids = [new_id() for _ in range(PAGE_SIZE + 2)]
    now = service.clock.now()

    def insert(tx: Tx) -> None:
        for one in ids:
            owner = payer.owner.id
            RUNS_TABLE.insert(
                tx, RunRow(owner, one, int(payer.account), "SEPA", None, 0, 0, "x", owner, None, None, now)
            )
            HANDOVERS.insert(tx, HandoverRow(owner, one, payer.books.connection_id, "29098-55003", 0, 0, "x", now))

    service.db.write_now(insert)
    for path in (RUNS, f"{INBOX}/handovers"):
        first = browser.get(path).text
        [onward] = re.findall(r'href="([^"]+)" rel="next"', first)
        second = browser.get(onward).text
        tables = ["".join(re.findall("<tbody>.*?</tbody>", text, re.DOTALL)) for text in (first, second)]
        shown = [re.findall("|".join(ids), text) for text in tables]
        assert [list(dict.fromkeys(some)) for some in shown] == [ids[:1:-1], ids[1::-1]], path
        assert 'rel="next"' not in second
