"""What areas refuse and warn with is German on German pages: every sentence that can reach one is in a catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kontobahn.dashboard import po, refusals, words
from kontobahn.dashboard.refusals import refusal
from kontobahn.formats.cii import national
from tests.unit.dashboard.refusal_texts import forms, plain, sentences

# Modules whose sentences no page shows, and why.
NOWHERE = {
    "access/authenticator.py": "about a key or token in a header; a browser has a session",
    "api/": "about JSON, headers, query and the documentation of calls, but for what is in SHOWN",
    "banking/inbound.py": "said to providers",
    "banking/hosted/wording.py": "pages about a bank have both languages themselves",
    "banking/interaction.py": "pages about a bank have both languages themselves",
    "banking/providers/fints/bank_list.py": "said at the start, or on the command line",
    "banking/providers/fints/steps.py": "pages about a bank have both languages themselves",
    "banking/providers/salt_edge/callbacks.py": "said at the start, and to Salt Edge",
    "banking/providers/salt_edge/setup.py": "said at the start, or on the command line",
    "banking/providers/enable_banking/setting_up.py": "said at the start, or on the command line",
    "banking/providers/enable_banking/signing.py": "said at the start, or to Enable Banking",
    "banking/reports.py": "said to providers, or logged",
    "credits.py": "said on the command line",
    "formats/cii/": "what goes into an invoice",
    "formats/extf/writer.py": "about a file that is written; an export lists them in the file itself",
    "formats/pain/pain001.py": "about a file that is written: orders were checked before",
    "formats/extf/columns.py": "titles of columns",
    "ledger/books/export": "listed in the exported file",
    "ledger/books/setup.py": "said on the command line",
    "ledger/books/unwritable.py": "listed in the exported file",
    "ledger/books/upgrade.py": "logged",
    "ledger/books/verify": "said on the command line",
    "mobility/invoices/letter.py": "printed on the invoice",
    "mobility/invoices/typesetting.py": "logged",
    "mobility/invoices/verify.py": "said on the command line",
    "webhooks/signing.py": "about our own keys",
}
# Of those modules, what a page shows nevertheless.
SHOWN = ("api/bodies.py", "api/idempotency.py", "api/tasks.py", "api/uploads.py", "api/declare.py")
# Sentences that no page shows, and why.
NEVER = {
    "This call is not open to keys with a list of scopes.": "a person has no list of scopes",
    "This call needs the scope {}; this key has {}.": "a person has no list of scopes",
    "This call needs the scope {} as well.": "a person has no list of scopes",
    "This API key is not known.": "a browser has a session",
    "This API key was revoked.": "a browser has a session",
    "This idempotency key was used with an API key that may act for further organisations.": "a browser has a session",
    "The header `Idempotency-Key` must be 1 to {} printable ASCII characters.": "a form makes its own",
    "This is not a session.": "leads to signing in",
    "A session of the API is not one of a browser.": "leads to signing in",
    "{} {}: the handler takes {}, the path names {}": "said to whoever writes a call",
    "“{}” is not {}": "each of its kinds has an entry",
    "The key {} {}": "each of its ends has an entry",
    "{} not found.": "what was not found is named: each has an entry",
    "Not enough credits: this call needs {}, {} are available.": "forms.words_of says it",
    "Repeat the call. A write that carries an Idempotency-Key happens once, however often it is repeated.": "for programs",
    "The query parameter `wait` goes with `sort=id` only.": "no page waits",
    "This is a test of your webhook endpoint. Nothing has happened.": "sent as an event",
    "This is a test of your webhook URL. Nothing has happened.": "sent as an event",
    "Say --unbalanced (in a call: unbalanced=true) if it is to be imported as it is.": "the page has a box to tick",
    "Book the service at the provider, or choose another client with clientId.": "for programs, beside the sentence itself",
    "Reconnecting does not help: the adviser or the client's owner must grant the right at the provider.": "for programs",
    "The connection already has a client {}.": "said on the command line",
    "A fiscal year from {} to {} would overlap the one from {} to {}.": "said on the command line",
    "The fiscal year from {} cannot end on {}: it has bookings up to {}.": "said on the command line",
    "No documents of the invoice {} have been laid aside.": "said on the command line",
    "The setting webhook_allow names “{}”; write host:port, for example localhost:3000.": "said at the start",
    "The file {} ({}) is larger than {} bytes.": "said at the start, or on the command line",
    "The file {} ({}) cannot be read: {}.": "said at the start, or on the command line",
    "The file {} ({}) is not a PEM private key without a password.": "said at the start, or on the command line",
    "The file {} ({}) is not an RSA key.": "said at the start, or on the command line",
    "The document number, which open items go by.": "documentation of a field",
    "Discount that was taken; with one person account only.": "documentation of a field",
    "In EUR; needed where `waehrung` is another.": "documentation of a field",
}
# Rules whose reason is said after the name of the field.
AFTER_A_FIELD = "formats/pain/sepa.py"
GERMAN = re.compile(r"\b(wurden?|wird|vom|Kasse|Zeitraum)\b")


@pytest.fixture(autouse=True)
def german() -> Iterator[None]:
    before = words.language()
    words.speak("de")
    yield
    words.speak(before)


def known() -> set[str]:
    found: set[str] = set()
    for path in (words.FOLDER / "de").glob(refusals.CATALOGUES):
        found |= {plain(message.text) for message in po.read(path.read_text("utf-8"))}
    return found


def reaches_a_page(module: str) -> bool:
    return module.startswith(SHOWN) or not module.startswith(tuple(NOWHERE))


def test_every_sentence_that_reaches_a_page_has_its_german() -> None:
    said = {text: module for text, module in sentences().items() if reaches_a_page(module) and not GERMAN.search(text)}
    assert len(said) > 300
    have = known() | set(NEVER)
    missing = {
        text: module
        for text, module in said.items()
        if (text.removeprefix("{} ").removesuffix(".") if module == AFTER_A_FIELD else text) not in have
    }
    assert missing == {}
    assert [text for text in NEVER if text not in said] == []


def test_what_a_field_must_be_has_its_german() -> None:
    assert {plain(words) for words in forms()} - known() == set()


def test_a_sentence_is_translated_with_what_it_names() -> None:
    assert "17 Sekunden" in refusal("Too many attempts from this address. Try again in 17 seconds.")
    assert refusal("Nobody translated this.") == "Nobody translated this."


def test_the_reason_within_a_sentence_is_translated_too() -> None:
    said = refusal("konto.xml: The balances do not add up: 1.00 at the beginning and -2.50 in 3 entries make -1.50 EUR,"
                   " but the statement closes with 1234.00, which is 1235.50 more.")  # fmt: skip
    assert said.startswith("konto.xml: Die Salden gehen nicht auf: 1,00 am Anfang und −2,50 in 3 Buchungen")
    assert "1.234,00" in said
    assert refusal("This must be a VAT id like DE123456789.") == "Erwartet wird: eine USt-IdNr. wie DE123456789."
    day = refusal("The client has no fiscal year for 2031-01-02: it is opened in the books first.")
    assert day.startswith("Für den 02.01.2031 gibt es")


def test_the_most_particular_sentence_wins() -> None:
    assert (
        refusal("The field `creditor_iban` is the account that is paid from.")
        == "Das ist das Konto, von dem gezahlt wird."
    )


def test_braces_and_long_texts_of_others_do_no_harm() -> None:
    assert "{0.__class__} {x}" in refusal("The column `{0.__class__} {x}` appears twice.")
    long = "The field `a`: " + "b: " * 2_000 + "c."
    assert refusal(long) == long


def test_every_rule_of_an_electronic_invoice_has_its_german() -> None:
    assert [number for number, (sentence, _) in national.RULES.items() if refusal(sentence) == sentence] == []
