"""Refusals and warnings of areas are German on German pages: every sentence that can reach one is in a catalogue."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import cache

import pytest

from kontobahn.access.principal import MEANINGS
from kontobahn.dashboard import refusals, words
from kontobahn.dashboard.refusals import refusal
from kontobahn.formats.cii import national
from kontobahn.formats.statements import UNBALANCED, StatementError
from kontobahn.json_text import decode_kept, encode, encode_kept
from kontobahn.sentences import joined, said
from tests.unit.dashboard.refusal_texts import codes, forms, sentences

# Modules whose sentences no page shows, or what in them says those, and why.
NOWHERE = {
    "access/sessions.py:Authenticator": "about a key or token in a header; a browser has a session",
    "api/docs_view.py": "documentation of calls",
    "api/exchange.py:ClientAddress": "said at the start",
    "api/openapi.py": "documentation of calls",
    "api/schemas.py": "documentation of calls",
    "api/system.py": "said to whoever watches the service",
    "api/wire.py:form": "said to whoever writes a call",
    "banking/reports/webhooks.py": "said to providers",
    "banking/hosted/order_words.py": "pages about a bank have both languages themselves",
    "banking/hosted/words.py": "pages about a bank have both languages themselves",
    "banking/interaction.py": "pages about a bank have both languages themselves",
    "app.py": "said at the start",
    "mail.py": "said at the start, or on the command line",
    "access/identity_provider.py": "said at the start, on the command line, or logged",
    "access/invitations.py:_INVITED": "letters have both languages themselves",
    "access/invitations.py:_INVITATION": "letters have both languages themselves",
    "access/invitations.py:_NEW_PASSWORD": "letters have both languages themselves",
    "access/invitations.py:send_password_link": "letters have both languages themselves",
    "bank_providers/sandbox/": "pages about a bank have both languages themselves",
    "bank_providers/ebics/letter.py": "letters have both languages themselves",
    "bank_providers/ebics/rules.py": "pages about a bank have both languages themselves",
    "bank_providers/ebics/adapter.py:probe": "said on the command line",
    "bank_providers/fints/adapter.py:read_list": "said at the start, or on the command line",
    "bank_providers/fints/rules.py": "pages about a bank have both languages themselves",
    "bank_providers/salt_edge/adapter.py:read_public_keys": "said at the start, and to Salt Edge",
    "bank_providers/salt_edge/adapter.py:check": "said at the start, and to Salt Edge",
    "bank_providers/salt_edge/adapter.py:reports": "said at the start, and to Salt Edge",
    "bank_providers/salt_edge/adapter.py:set_up": "said at the start, or on the command line",
    "bank_providers/salt_edge/adapter.py:_client": "said at the start, or on the command line",
    "bank_providers/salt_edge/adapter.py:probe": "said at the start, or on the command line",
    "bank_providers/enable_banking/adapter.py:make_client": "said at the start, or on the command line",
    "bank_providers/enable_banking/adapter.py:probe": "said at the start, or on the command line",
    "bank_providers/enable_banking/adapter.py:_judge": "said at the start, or on the command line",
    "bank_providers/enable_banking/adapter.py:_countries": "said at the start, or on the command line",
    "bank_providers/enable_banking/client.py:Webhooks": "said at the start, or to Enable Banking",
    "bank_providers/enable_banking/client.py:read_public_key": "said at the start, or to Enable Banking",
    "bank_providers/enable_banking/client.py:read_token": "said at the start, or to Enable Banking",
    "bank_providers/enable_banking/client.py:check_token": "said at the start, or to Enable Banking",
    "bank_providers/enable_banking/client.py:read_public_key_file": "said at the start, or to Enable Banking",
    "banking/reports/intake.py": "said to providers, or logged",
    "credits.py": "said on the command line",
    "dashboard/pages/partner_statement.py:LEVELS": "printed on letters",
    "dashboard/pages/partner_statement.py:_OPENINGS": "printed on letters",
    "dashboard/pages/partner_statement.py:_CROSSED": "printed on letters",
    "dashboard/pages/partner_statement.py:missing_fields": "printed on letters",
    "dashboard/pages/partner_statement.py:check_sender": "printed on letters",
    "dashboard/pages/partner_statement.py:reminder": "printed on letters",
    "dashboard/pages/partner_statement.py:statement": "printed on letters",
    "dashboard/pages/partner_statement.py:_inputs": "printed on letters",
    "formats/cii/": "what goes into an invoice",
    "formats/invoices/rule_sets.py": "said on the command line",
    "formats/extf/writer.py": "about a file that is written; an export lists them in the file itself",
    "formats/pain/messages.py": "about a file that is written: orders were checked before",
    "formats/extf/format.py:BUCHUNGSSTAPEL_TITLES": "titles of columns",
    "formats/extf/format.py:_banks": "titles of columns",
    "formats/extf/format.py:PERSONENKONTEN_TITLES": "titles of columns",
    "formats/extf/format.py:KONTENBESCHRIFTUNGEN_TITLES": "titles of columns",
    "formats/extf/format.py:_zeitraum": "titles of columns",
    "books/export.py": "listed in the exported file",
    "books/setup.py": "said on the command line",
    "books/verification.py": "said on the command line",
    "payables/document.py": "an invoice as a page has both languages itself",
    "mobility/invoices/pdf.py": "printed on the invoice",
    "mobility/invoices/rules.py": "printed on the invoice",
    "mobility/invoices/typesetter.py": "logged",
    "payables/intake.py:_take": "written beside the file",
    "mobility/invoices/store.py:_gaps": "said on the command line",
    "mobility/invoices/store.py:_sums": "said on the command line",
    "mobility/invoices/store.py:_documents": "said on the command line",
    "webhooks/receiver.py:key_of": "about our own keys",
}
# Of those modules, what a page shows nevertheless.
SHOWN = ("bank_providers/sandbox/order_files.py:hand_in", "bank_providers/sandbox/order_files.py:read_order_file",
         "bank_providers/sandbox/order_files.py:_parsed")  # fmt: skip
# Sentences that no page shows, and why.
NEVER = {
    "This API key is not known.": "a browser has a session",
    "This API key was revoked.": "a browser has a session",
    "This API key has expired.": "a browser has a session",
    "This idempotency key was used with an API key that may act for further organisations.": "a browser has a session",
    "This is not a session.": "leads to signing in",
    "A session of the API is not one of a browser.": "leads to signing in",
    "{} {}: the handler takes {}, the path names {}": "said to whoever writes a call",
    "{} not found.": "what was not found is named: each has an entry",
    "Repeat the call. A write that carries an Idempotency-Key happens once, however often it is repeated.": "for programs",
    "The query parameter `wait` goes with `sort=id` only.": "no page waits",
    "This is a test of your webhook endpoint. Nothing has happened.": "sent as an event",
    "This is a test of your webhook URL. Nothing has happened.": "sent as an event",
    "Say --unbalanced (in a call: unbalanced=true) if it is to be imported as it is.": "the page has a box to tick",
    "Say --allow-gaps (in a call: allow_gaps=true) if it is to be imported nevertheless.": "the page has a box to tick",
    "Book the service at the provider, or choose another client with clientId.": "for programs, beside the sentence itself",
    "Reconnecting does not help: the adviser or the client's owner must grant the right at the provider.": "for programs",
    "The connection already has a client {}.": "said on the command line",
    "A fiscal year from {} to {} would overlap the one from {} to {}.": "said on the command line",
    "The fiscal year from {} cannot end on {}: it has bookings up to {}.": "said on the command line",
    "No documents of the invoice {} have been laid aside.": "said on the command line",
    "The setting {} names “{}”; write host:port, for example localhost:3000.": "said at the start",
    "The file {} ({}) is larger than {} bytes.": "said at the start, or on the command line",
    "The file {} ({}) cannot be read: {}.": "said at the start, or on the command line",
    "The file {} ({}) is not a PEM private key without a password.": "said at the start, or on the command line",
    "The file {} ({}) is not an RSA key.": "said at the start, or on the command line",
    "The document number, which open items go by.": "documentation of a field",
    "The lines sum to 100.00, the transaction is 119.00.": "an example of the documentation",
    "Discount that was taken; with one person account only.": "documentation of a field",
    "In EUR; needed where `waehrung` is another.": "documentation of a field",
}
# Codes around what has an entry with them.
MADE_OF_WORDS = ("This {reason}.",)
LETTERS, HOLE, FIELD = re.compile(r"[a-z]{3}"), re.compile(r"\{\w+\}"), re.compile(r"^The field `\w+` ")
GERMAN = re.compile(r"\b(wurden?|wird|vom|Kasse|Zeitraum)\b")


@pytest.fixture(autouse=True)
def german() -> Iterator[None]:
    before = words.language()
    words.speak("de")
    yield
    words.speak(before)


@cache
def known() -> set[str]:
    return {
        message.text
        for path in (words.FOLDER / "de").glob(refusals.CATALOGUES)
        for message in words.read_catalogue(path.read_text("utf-8"))
    }


def reaches_a_page(module: str) -> bool:
    return module.startswith(SHOWN) or not module.startswith(tuple(NOWHERE))


def test_every_sentence_that_reaches_a_page_has_its_german() -> None:
    found = {text: module for text, module in sentences().items() if reaches_a_page(module) and not GERMAN.search(text)}
    assert len(found) > 200
    # A text with holes that is not made by `said` could be translated by nobody.
    german = known() | set(NEVER)
    assert {text: module for text, module in found.items() if text not in german} == {}
    assert [text for text in NEVER if text not in found] == []


def test_every_code_that_reaches_a_page_is_written_out_and_has_its_german() -> None:
    found = {
        code: module
        for code, module in codes().items()
        if reaches_a_page(module) and LETTERS.search(HOLE.sub("", code))
    }
    assert len(found) > 250
    # A reason may have its German together with the sentence about its field.
    about_fields = {text.removeprefix("The field `{path}` ").removesuffix(".") for text in known()}
    about_fields |= {FIELD.sub("", text).removesuffix(".") for text in known()}
    german = known() | about_fields | set(MADE_OF_WORDS)
    assert {code: module for code, module in found.items() if code not in german} == {}


def test_what_a_field_must_be_has_its_german() -> None:
    assert forms() - known() == set()


def test_every_scope_of_a_key_has_its_german() -> None:
    assert set(MEANINGS.values()) - known() == set()


def test_a_sentence_is_translated_with_what_it_names() -> None:
    said_by_us = said("Too many attempts from this address. Try again in {seconds} seconds.", seconds=17)
    assert "17 Sekunden" in refusal(said_by_us)
    assert refusal("Nobody translated this.") == "Nobody translated this."


def test_a_text_that_only_looks_like_a_sentence_is_shown_as_it_came() -> None:
    """A bank, a file or an address wrote it: nobody reads it to find out what it says."""
    said_by_us = said("Too many attempts from this address. Try again in {seconds} seconds.", seconds=17)
    assert refusal(str.__str__(said_by_us)) == "Too many attempts from this address. Try again in 17 seconds."
    assert refusal(str(said_by_us)) != "Too many attempts from this address. Try again in 17 seconds."


def test_the_reason_within_a_sentence_is_translated_too() -> None:
    reason = said(
        "The balances do not add up: {amount} at the beginning and {amount_moved} in {count} entries make {amount_found}"
        " {currency}, but the statement closes with {amount_stated}, which is {amount_difference} {more}.",
        amount="1.00", amount_moved="-2.50", count=3, amount_found="-1.50", currency="EUR", amount_stated="1234.00",
        amount_difference="1235.50", more="more",
    )  # fmt: skip
    error = StatementError(joined(" ", [reason, UNBALANCED]), file="konto.xml", statement="7")
    shown = refusal(str(error), left_out=(UNBALANCED,))
    assert shown.startswith("konto.xml: Auszug 7: Die Salden gehen nicht auf: 1,00 am Anfang und −2,50 in 3 Buchungen")
    assert "1.234,00" in shown
    assert "--unbalanced" not in shown
    assert "--unbalanced" in str(error)
    form = said("This {reason}.", reason=said("must be {what}", what="a VAT id like DE123456789"))
    assert refusal(form) == "Erwartet wird: eine USt-IdNr. wie DE123456789."
    day = said("The client has no fiscal year for {day}: it is opened in the books first.", day=date(2031, 1, 2))
    assert refusal(day).startswith("Für den 02.01.2031 gibt es")


def test_the_most_particular_sentence_wins() -> None:
    def about(path: str, reason: str) -> str:
        return refusal(said("The field `{path}` {reason}.", path=path, reason=reason))

    too_long = said("has {count} characters; at most {most} are allowed", count=9, most=5)
    assert about("creditor_iban", "is the account that is paid from") == "Das ist das Konto, von dem gezahlt wird."
    assert about("reference", too_long) == "Das sind 9 Zeichen; höchstens 5 sind erlaubt."
    assert about("reference", "must not be empty") == "Bitte füllen Sie das aus."


def test_braces_of_others_do_no_harm() -> None:
    assert "{0.__class__} {x}" in refusal(said("The column `{name}` appears twice.", name="{0.__class__} {x}"))


def test_a_sentence_is_the_same_after_it_was_stored_and_a_text_on_the_wire() -> None:
    why = said("statement {id}", id=7)
    told = [joined(", ", [why, "{x}"]), Decimal("1.10"), "plain"]
    back = decode_kept(encode_kept(told), list)
    assert back == told
    assert refusal(back[0]) == "Auszug 7, {x}"
    assert encode(told) == b'["statement 7, {x}",1.10,"plain"]'
    assert pickle.loads(pickle.dumps(why)).values == {"id": "7"}


def test_every_rule_of_an_electronic_invoice_has_its_german() -> None:
    assert [number for number, (sentence, _) in national.RULES.items() if refusal(sentence) == sentence] == []
