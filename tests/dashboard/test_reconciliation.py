"""Matching payments in a browser, without a script: setting up, looking, confirming one after the other, handing over."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from kontobahn.dashboard import bank_words, words
from kontobahn.dashboard.figures import iban
from kontobahn.reconciliation.wire import MatchReason
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.ledger_builder import Books
from tests.reconciliation_desk import ANNA, OTHER, SECOND, Desk, paid
from tests.statement_builder import Booking, Sheet, camt

PAGE = "/dashboard/reconciliation"
EMAIL = "erika@muster.example"
one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


class Person(Browser):
    """Somebody at a desk with three payments, or more."""

    def __init__(self, service: Service, *more: Booking) -> None:
        super().__init__(service)
        self.desk = Desk(
            service,
            paid(119_00, "Rechnung RE-2026-00123 <b>danke</b>"),
            paid(100_00, "RE 2026 00124"),
            paid(-7_00, "Entgelt", "Bank", OTHER),
            *more,
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
        fields = {"account_id": self.desk.account, "books": books, "konto": "1200", "booked_by": "kontobahn", **changes}
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
    assert "Account: 1200," in person.get("/dashboard/audit").text
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
    by_hand = {"kind": "item", "konto": "10010", "beleg": "RE-2026-00124", "amount": "99,00", "amount2": ""}
    answer = person.post(f"{second}/by-hand", by_hand)
    assert (answer.status_code, "The lines sum to" in answer.text) == (422, True)
    rest = {"kind2": "on_account", "konto2": "10010", "amount2": "1,00"}
    assert "The payment is matched." in person.do(f"{second}/by-hand", **{**by_hand, **rest})
    assert "The transaction is left out." in person.do(f"{person.of(-7_00)}/leave-out", status="ignored")
    assert re.search(r"2 matches .*handed over", person.get("/dashboard").text)
    before = person.get("/dashboard/handovers").text
    assert "to be handed over." in before
    key = re.findall(r'name="once" value="([^"]+)"', before)[0]
    page = person.do("/dashboard/handovers", account_id=person.desk.account, once=key)
    after = person.get("/dashboard/handovers").text
    assert ("Every match is handed over." in after, 'name="from_date"' in after) == (True, False)
    assert not re.search(r"match(es)? .*handed over", person.get("/dashboard").text)
    assert all(text in page for text in ("The matches are handed over.", "DATEV file", "RE-2026-00123", "219.00"))
    [batch] = set(re.findall(r"/dashboard/handovers/[0-9a-f-]{36}", page))
    assert person.get(f"{batch}/file").content.startswith(b'"EXTF"')
    assert "RE-2026-00124" in person.get(f"{batch}/list.csv").text
    [match] = re.findall(r'name="match" value="([^"]+)"', person.get(first).text)
    assert "The match is undone." in person.do(f"{first}/undo", match=match, reason="anderer Kunde")
    key = re.findall(r'name="once" value="([^"]+)"', person.get("/dashboard/handovers").text)[0]
    page = person.do("/dashboard/handovers", account_id=person.desk.account, once=key)
    [taken_back] = set(re.findall(r"/dashboard/handovers/[0-9a-f-]{36}", page))
    listed = re.findall(r"/dashboard/handovers/[0-9a-f-]{36}", person.get("/dashboard/handovers").text)
    assert list(dict.fromkeys(listed)) == [taken_back, batch], "the latest first"


@one_engine
def test_only_books_that_work_are_offered(service: Service) -> None:
    person = Person(service)
    other = Books(service, person.desk.owner)
    for broken, working in ((person.desk.books, other), (other, person.desk.books)):
        broken.set_status("expired")
        working.set_status("connected")
        page = person.get("/dashboard/reconciliation-accounts").text
        offered = re.findall(r'<option value="([0-9a-f-]{36}) [^"]*"', page)
        assert offered == [working.connection_id]
        assert "Muster GmbH (29098-55003)" in page


@one_engine
def test_all_that_is_clear_is_shown_first_and_then_confirmed_at_once(service: Service) -> None:
    person = Person(service)
    person.set_up(booked_by="adviser")
    person.look()
    page = f"{PAGE}/all-clear/{person.desk.account}"
    shown = person.get(page).text
    assert len(proposals(shown)) == 1
    assert "119.00" in shown
    assert "One payment is matched." in person.do(page, proposal=proposals(shown)[0])
    assert "No certain matches" in person.get(page).text
    key = re.findall(r'name="once" value="([^"]+)"', person.get("/dashboard/handovers").text)[0]
    listed = person.do("/dashboard/handovers", account_id=person.desk.account, once=key)
    assert "What the books show by now" in listed
    assert "not booked" in listed, "the office has not"
    assert "Nothing was booked" in listed
    assert "DATEV file" not in listed


@one_engine
def test_the_trial_of_a_rule_comes_before_it_may_act_alone(service: Service) -> None:
    person, rules = Person(service), "/dashboard/reconciliation-rules"
    person.set_up()
    person.look()
    rule = {"name": "Gebühren", "konto": "4970", "text": "entgelt", "direction": "out", "max_amount": "10,00"}
    acting = {**rule, "automatic": "1", "do": "save"}
    shown = person.post(rules, acting).text
    assert "Save again to let it." in shown
    assert "One transaction of the last 90 days." in shown, "its trial comes first"
    assert person.desk.books.rows("SELECT COUNT(*) FROM recon_rules") == [(0,)]
    [tried] = re.findall(r'name="tried" value="([^"]+)"', shown)
    assert "Save again to let it." in person.post(rules, {**acting, "tried": tried, "max_amount": "900"}).text, (
        "of another rule"
    )
    assert "acts alone" in person.do(rules, **acting, tried=tried)
    assert person.desk.books.rows("SELECT acts FROM recon_rules") == [(1,)]


@one_engine
def test_rules_are_tried_made_changed_and_deleted_and_what_was_learned_is_forgotten(service: Service) -> None:
    person = Person(service)
    rules, learned = "/dashboard/reconciliation-rules", "/dashboard/reconciliation-knowledge"
    assert "No account is set up yet" in person.get(rules).text
    assert "Nothing was learned yet" in person.get(learned).text
    person.set_up()
    person.look()
    fee = person.get(person.of(-7_00)).text
    [address] = re.findall(r'href="(/dashboard/reconciliation-rules\?[^"]+)"', fee)
    assert f'value="{OTHER}"' in person.get(address.replace("&amp;", "&")).text, "a rule from this transaction"
    rule = {
        "name": "Gebühren",
        "konto": "4970",
        "text": "entgelt",
        "direction": "out",
        "min_amount": "",
        "max_amount": "10,00",
    }
    tried = person.post(rules, {**rule, "do": "try"})
    assert "One transaction of the last 90 days." in tried.text
    assert person.desk.books.rows("SELECT COUNT(*) FROM recon_rules") == [(0,)], "trying a rule stores nothing"
    assert person.post(rules, {**rule, "text": "zu"}).status_code == 422
    page = person.do(rules, **rule)
    assert "The rule is saved." in page
    [known] = set(re.findall(r"rule=([0-9a-f-]{36})", page))
    assert "Gebühren" in person.do(rules, **{**rule, "name": "Miete", "text": "Miete"})
    changed = person.do(rules, **{**rule, "rule": known, "max_amount": "6,00"})
    assert "0 transactions of the last 90 days." in changed
    assert person.desk.books.rows("SELECT name, most_minor FROM recon_rules ORDER BY place") == [
        ("Gebühren", 600), ("Miete", 1000),
    ]  # fmt: skip
    [known, *_others] = re.findall(r"rule=([0-9a-f-]{36})", changed)
    assert "The rule is deleted." in person.do(f"{rules}/delete", rule=known)
    assert person.desk.books.rows("SELECT name FROM recon_rules") == [("Miete",)]
    first = person.of(119_00)
    person.do(f"{first}/confirm", proposal=proposals(person.get(first).text)[0])
    page = person.get(learned).text
    found = re.findall(r'name="learned" value="([^"]+)"', page)
    assert (len(found), iban(ANNA) in page, "does not count yet" in page) == (2, True, True)
    assert "Anna Muster Bau<span" in page
    for row in found:
        assert "That is forgotten." in person.do(learned, learned=row)
    assert person.desk.books.rows("SELECT COUNT(*) FROM recon_learned") == [(0,)]


@one_engine
def test_a_proposal_says_what_it_rests_on(service: Service) -> None:
    person = Person(service, paid(-5_00, "Umbuchung", "Muster", SECOND), paid(50_00, "danke", "Fremde", OTHER))
    person.desk.bank.take(camt(Sheet([paid(5_00, "Umbuchung", "Muster", person.desk.bank.sheet.iban)], iban=SECOND)))
    person.set_up()
    rule = {
        "name": "Gebühren",
        "konto": "4970",
        "text": "entgelt",
        "direction": "out",
        "min_amount": "",
        "max_amount": "",
    }
    person.do("/dashboard/reconciliation-rules", **rule)
    listed = person.look()
    said = {
        -7_00: ("Proposed by one of your rules", "Von einer Ihrer Regeln vorgeschlagen"),
        -5_00: ("A transfer between your own accounts", "Eine Umbuchung zwischen Ihren eigenen Konten"),
        50_00: ("One of several candidates", "Mehrere Posten kommen infrage"),
    }
    for amount, (english, german) in said.items():
        assert listed.count(english) == 1
        assert f"Proposal 1: {english}" in person.get(person.of(amount)).text
        in_german = person.get(person.of(amount), **{"accept-language": "de"}).text
        assert f"Vorschlag 1: {german}" in in_german


@one_engine
def test_acting_alone_is_switched_on_beside_what_it_would_have_done(service: Service) -> None:
    person = Person(service)
    person.set_up(fee_konto="4970")
    page = f"/dashboard/reconciliation-accounts/{person.desk.account}"
    before = person.desk.books.rows("SELECT COUNT(*) FROM recon_transactions")
    key = re.findall(r'name="once" value="([^"]+)"', person.get(page).text)[0]
    tried = person.post(f"{page}/trial", {"once": key})
    assert tried.status_code == 200
    assert all(
        text in tried.text for text in ("Would have been matched", "RE-2026-00123", "Number, amount and payer fit")
    )
    assert person.desk.books.rows("SELECT COUNT(*) FROM recon_transactions") == before, "nothing is stored"
    assert 'value="4970"' in tried.text
    assert "checked" not in tried.text
    assert "The account is set up." in person.set_up(fee_konto="4970", automatic_classes="A2", known="1")
    assert 'value="A2" checked' in person.get(page).text
    assert 'value="A3" checked' not in person.get(page).text
    person.look()
    assert person.desk.books.rows("SELECT made_by, amount_minor FROM recon_matches") == [("engine", 119_00)]
    assert re.search(r"Undone of 1,000.*?0", person.get(page).text, re.DOTALL)


@one_engine
def test_a_line_has_its_due_date_and_what_is_open_and_the_others_stand_beside_it(service: Service) -> None:
    person = Person(service)
    person.set_up()
    person.look()
    page = person.get(person.of(100_00)).text
    assert re.search(r"of 11\W\w+\W2026, due 11\W\w+\W2026, open \S*238\.00", page), page
    assert "19 days overdue" in page
    [beside] = re.findall(r'<nav class="card".*?</nav>', page, re.DOTALL)
    assert person.of(119_00) in beside
    assert f'href="{person.of(100_00)}" aria-current="page"' in beside
    on_account = person.get(f"{person.of(100_00)}?hand=on_account").text
    assert '<option value="on_account" selected>' in on_account
    assert 'value="10010"' in on_account
    # Books that cannot be asked do not keep anybody from the page.
    person.desk.books.set_status("revoked")
    assert "due " not in person.get(person.of(100_00)).text


@one_engine
def test_what_belongs_to_others_is_not_there(service: Service) -> None:
    theirs = Person(service)
    theirs.set_up()
    theirs.look()
    mine = Browser(service)
    service.user(service.organization(), "max@muster.example", "admin")
    assert mine.sign_in("max@muster.example").status_code == 303
    for path in (theirs.of(119_00), f"{PAGE}/all-clear/{theirs.desk.account}", f"{PAGE}/777", f"{PAGE}/x",
                 f"/dashboard/reconciliation-accounts/{theirs.desk.account}"):  # fmt: skip
        assert mine.get(path).status_code == 404, path
    assert mine.post(f"{theirs.of(119_00)}/leave-out", {"status": "ignored"}).status_code in (404, 422)
    assert theirs.desk.books.rows("SELECT COUNT(*) FROM recon_transactions WHERE state = 'ignored'") == [(0,)]


@one_engine
def test_the_clearest_come_first_and_after_an_action_comes_the_next_of_the_same_list(service: Service) -> None:
    person = Person(
        service, paid(238_00, "Rechnung RE-2026-00124, vielen Dank"), paid(50_00, "ohne alles", "Wer denn", SECOND)
    )
    person.set_up()
    person.look()
    listed = re.findall(r'<tr id="t-(\d+)"', person.get(PAGE).text)
    classes = re.findall(r'<span class="badge (?:good|warn)">([ABC]\d?)</span>', person.get(PAGE).text)
    assert classes == sorted(classes)
    assert classes[:2] == ["A2", "A2"]
    # The part payment came before the whole one, and is less clear.
    assert listed.index(person.of(238_00).rsplit("/", 1)[1]) < listed.index(person.of(100_00).rsplit("/", 1)[1])
    first = f"{PAGE}/{listed[0]}"
    page = person.get(first).text
    beside = re.findall(r'<nav class="card".*?</nav>', page, re.DOTALL)[0]
    assert re.findall(r"reconciliation/(\d+)", beside) == listed
    answer = person.post(f"{first}/confirm", {"proposal": proposals(page)[0]})
    assert answer.headers["location"] == f"{PAGE}/{listed[1]}"
    # Of the unmatched ones the next unmatched one, not one that waits for a confirmation.
    unmatched = re.findall(r'<tr id="t-(\d+)"', person.get(f"{PAGE}?state=open").text)
    answer = person.post(f"{PAGE}/{unmatched[0]}/leave-out", {"status": "ignored"})
    others = unmatched[1:]
    must = f"{PAGE}/{others[0]}" if others else f"{PAGE}?account={person.desk.account}&state=open"
    assert answer.headers["location"] == must


@one_engine
def test_the_page_of_clear_matches_names_payers_days_documents_and_their_sum(service: Service) -> None:
    person = Person(service, paid(238_00, "Rechnung RE-2026-00124"))
    person.set_up()
    person.look()
    shown = person.get(f"{PAGE}/all-clear/{person.desk.account}").text
    amounts = re.findall(r'class="money plus">€([\d.,]+)<', shown)
    assert sorted(amounts) == ["119.00", "238.00"]
    assert shown.count("€357.00") == 2, "above the rows, and below them"
    assert shown.count("ANNA MUSTER BAU") == 2
    assert "RE-2026-00123" in shown
    assert "10010" in shown
    assert "100100000" not in shown


@one_engine
def test_an_open_item_is_found_by_number_amount_or_name_and_fills_the_form(service: Service) -> None:
    person = Person(service)
    person.set_up()
    person.look()
    transaction = person.of(100_00)
    for search in ("00124", "238.00", "anna+muster+00124"):
        page = person.get(f"{transaction}?find={search}").text
        (link,) = re.findall(r'href="([^"]+beleg=RE-2026-00124[^"]*)#by-hand"', page)
        form = person.get(link.replace("&amp;", "&")).text
        assert all(f'value="{value}"' in form for value in ("10010", "RE-2026-00124", "100.00")), search
    assert "No open item fits." in person.get(f"{transaction}?find=nothing").text


@one_engine
def test_an_account_that_the_books_do_not_have_is_refused(service: Service) -> None:
    person = Person(service)
    person.set_up()
    person.look()
    fee = person.of(-7_00)
    fields = {"kind": "ledger_account", "konto": "4999", "beleg": "", "amount": "-7.00", "amount2": ""}
    refused = person.post(f"{fee}/by-hand", fields)
    assert (refused.status_code, "There is no account 4999 in these books." in refused.text) == (422, True)
    assert person.post(f"{fee}/by-hand", {**fields, "new_account": "1"}).status_code == 303
    # A person who is not there cannot be paid for, whatever is ticked.
    stranger = {"kind": "on_account", "konto": "19999", "beleg": "", "amount": "100.00", "new_account": "1"}
    assert "There is no account 19999" in person.post(f"{person.of(100_00)}/by-hand", stranger).text


@one_engine
@pytest.mark.parametrize("field", ["konto", "fee_konto", "transfer_konto"])
def test_a_bank_is_not_set_up_with_an_account_that_the_books_do_not_have(service: Service, field: str) -> None:
    person = Person(service)
    books = f"{person.desk.books.connection_id} {person.desk.books.client.client_id}"
    fields = {"account_id": person.desk.account, "books": books, "konto": "1200", "booked_by": "adviser", field: "9999"}
    refused = person.post("/dashboard/reconciliation-accounts", fields)
    assert (refused.status_code, "There is no account 9999 in these books." in refused.text) == (422, True)
    assert 'name="new_account"' in refused.text
    person.set_up(**{field: "9999", "new_account": "1"})


@one_engine
def test_what_waits_is_shown_and_counted_whether_something_is_proposed_for_it_or_not(service: Service) -> None:
    person = Person(service)
    person.set_up()
    page = person.look()
    # With the cent that every account here begins with.
    assert "4 transactions wait for you." in page
    assert page.count('<tr id="t-') == 2
    for amount in (119_00, 100_00):
        person.do(f"{person.of(amount)}/confirm", proposal=proposals(person.get(person.of(amount)).text)[0])
    # Nothing is proposed for what is left.
    left = [f"{PAGE}/{id}" for id in re.findall(r'<tr id="t-(\d+)"', person.get(PAGE).text)]
    assert sorted(left) == sorted((person.of(-7_00), person.of(1)))
    assert '<tr id="t-' not in person.get(f"{PAGE}?state=proposed").text
    for address in left:
        person.do(f"{address}/leave-out", status="ignored")
    assert "Nothing is left to match." in person.look()


@one_engine
def test_reasons_are_said_in_the_readers_language(service: Service) -> None:
    person = Person(service)
    person.set_up()
    person.look()
    assert "IBAN …9700 (master data)" in person.get(person.of(119_00)).text
    assert "IBAN …9700 (Stammdaten)" in person.get(person.of(119_00), **{"accept-language": "de"}).text
    words.speak("de")
    said = [
        bank_words.reason(MatchReason(signal=signal, value=value, field=None, start=None, end=None, bits=Decimal(1)))
        for signal, value in (
            ("iban_seen", "9700 (1 confirmations)"), ("iban", "9700 (3 confirmations)"),
            ("name", "Anna Muster (100)"), ("name", "Anna Muster (87)"), ("number", "RE (5)"),
        )
    ]  # fmt: skip
    words.speak(words.DEFAULT)
    assert said == [
        "IBAN schon gesehen …9700 (einmal bestätigt)", "IBAN …9700 (3-mal bestätigt)",
        "Name Anna Muster", "Name Anna Muster (87 % Übereinstimmung)", "Nummer RE (5)",
    ]  # fmt: skip


@one_engine
def test_enter_confirms_no_guess(service: Service) -> None:
    person = Person(service, paid(-80_00, "Miete Februar", "Haus und Grund", SECOND))
    person.set_up()
    rule = {"name": "Miete", "konto": "4210", "text": "Miete", "direction": "out", "do": "save", "books": ""}
    person.do("/dashboard/reconciliation-rules", **rule)
    person.look()
    guess = person.get(person.of(-80_00)).text
    assert proposals(guess)
    assert "data-enter" not in guess
    assert "data-enter" in person.get(person.of(119_00)).text
