"""camt files as banks write them: versions, batches, returns, pages and what their fields become."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from kontobahn.formats.statements import NOBODY, Amount, Balance, Entry, Party
from kontobahn.formats.statements.source import CHUNK
from tests.statement_builder import BIC, DAY, IBAN, OTHER_IBAN, Booking, Sheet, camt, camt_entry, follow_up
from tests.unit.formats.statements.reading import closings, entries, entry, opening, read_all, refused


def test_a_statement_says_what_it_is_about() -> None:
    first, movement, last = read_all(camt(Sheet([Booking(-1_234)])))
    found = opening(camt(Sheet([Booking(-1_234)])))
    assert first == found
    assert (found.file, found.format, found.kind) == ("auszug.xml", "camt.053.001.08", "booked")
    assert found.account == (IBAN, IBAN, "EUR", "Laden & Söhne", BIC, None)
    assert (found.statement_id, found.number, found.page, found.created_at) == ("S-1", 1, None, f"{DAY}T20:00:00+01:00")
    assert found.balance == Balance("OPBD", 100_000, "EUR", DAY)
    assert isinstance(movement, Entry)
    (closing,) = closings(camt(Sheet([Booking(-1_234)])))
    assert last == closing
    assert closing.balance == Balance("CLBD", 98_766, "EUR", DAY)
    assert (closing.entries, closing.moved_minor, closing.left_out, closing.last_page) == (1, -1_234, 0, True)


@pytest.mark.parametrize("version", ["02", "08"])
def test_an_entry_keeps_every_field(version: str) -> None:
    booking = Booking(
        -1_234,
        text="Rechnung 4711",
        end_to_end_id="E2E-1",
        mandate="M-1",
        creditor_id="DE98ZZZ09999999999",
        reference="2026030200017",
        booking_text="FOLGELASTSCHRIFT",
        valued=date(2026, 3, 4),
    )
    found = entry(camt(Sheet([booking]), version=version))
    assert (found.status, found.amount_minor, found.currency) == ("posted", -1_234, "EUR")
    assert (found.booking_date, found.value_date) == (DAY, date(2026, 3, 4))
    assert (found.description, found.booking_text) == ("Rechnung 4711", "FOLGELASTSCHRIFT")
    assert (found.purpose.cred, found.purpose.mref) == ("DE98ZZZ09999999999", "M-1")
    assert (found.purpose.svwz, found.purpose.kref, found.end_to_end_id) == ("Rechnung 4711", None, "E2E-1")
    assert found.counterparty == found.payee == Party("Muster GmbH", OTHER_IBAN, None, "BYLADEM1001")
    assert found.payer is NOBODY
    assert (found.bank_reference, found.transaction_code) == ("2026030200017", "PMNT-RCDT-ESCT")
    assert (found.gvc, found.primanota, found.reversal) == ("166", "00931", False)
    assert (found.batch_size, found.part, found.number) == (1, 0, 1)
    assert found.line > 1


def one(details: str, *, head: str = "", version: str = "08", amount: int = -1_000) -> Entry:
    """An entry with these elements inside TxDtls."""
    data = camt(Sheet([Booking(amount, name=None, iban=None, bic=None, text="")]), version=version).decode()
    data = data.replace("<RltdPties></RltdPties></TxDtls>", f"{details}</TxDtls>").replace("<Ntry>", f"<Ntry>{head}")
    return entry(data.encode())


def test_structured_fields_win_and_the_text_fills_the_rest() -> None:
    text = "EREF+TEXT MREF+M-TEXT KREF+K-TEXT SVWZ+Beitrag IBAN+DE02120300000000202051"
    found = entry(camt(Sheet([Booking(500, text=text, end_to_end_id="E-FIELD", mandate="NOTPROVIDED", iban=None)])))
    assert found.description == text
    assert (found.end_to_end_id, found.purpose.mref, found.purpose.kref) == ("E-FIELD", "M-TEXT", "K-TEXT")
    assert found.purpose.svwz == "Beitrag"
    assert found.counterparty.iban == OTHER_IBAN


def test_parties_behind_the_parties_codes_and_amounts() -> None:
    found = one(
        "<RltdPties><UltmtDbtr><Pty><Nm>Anna</Nm></Pty></UltmtDbtr><Cdtr><Pty><Nm>Strom AG</Nm></Pty></Cdtr>"
        "<UltmtCdtr><Pty><Nm>Bert</Nm></Pty></UltmtCdtr></RltdPties><Purp><Cd>ELEC</Cd></Purp>"
        '<AmtDtls><InstdAmt><Amt Ccy="USD">11.50</Amt></InstdAmt></AmtDtls>'
        '<Chrgs><Rcrd><Amt Ccy="EUR">1.50</Amt></Rcrd></Chrgs>'
        "<RmtInf><Ustrd>erste Zeile</Ustrd><Ustrd>zweite</Ustrd><Strd><CdtrRefInf><Ref>RF18539007547034</Ref></CdtrRefInf>"
        "</Strd></RmtInf>"
    )
    assert (found.purpose.abwa, found.purpose.abwe, found.purpose.purp) == ("Anna", "Bert", "ELEC")
    assert (found.original_amount, found.charges) == (Amount(1_150, "USD"), Amount(150, "EUR"))
    assert (found.purpose.oamt, found.purpose.coam) == ("11.50 USD", "1.50 EUR")
    assert found.description == "erste Zeile zweite RF18539007547034"


def test_a_returned_debit_keeps_its_debtor_as_counterparty() -> None:
    parties = "<RltdPties><Dbtr><Pty><Nm>Kunde</Nm></Pty></Dbtr><Cdtr><Pty><Nm>Wir</Nm></Pty></Cdtr></RltdPties>"
    returned = one(f"{parties}<RtrInf><Rsn><Cd>AC04</Cd></Rsn></RtrInf>")
    assert (returned.counterparty.name, returned.return_reason) == ("Kunde", "AC04")
    assert one(parties).counterparty.name == "Wir"
    assert one(parties, head="<RvslInd>true</RvslInd>").reversal is True


def test_the_accounts_own_side_is_never_the_counterparty() -> None:
    found = one(
        f"<RltdPties><Dbtr><Pty><Nm>Kunde</Nm></Pty></Dbtr><Cdtr><Pty><Nm>Wir</Nm></Pty></Cdtr>"
        f"<CdtrAcct><Id><IBAN>{IBAN}</IBAN></Id></CdtrAcct></RltdPties>"
    )
    assert found.counterparty.name == "Kunde"


@pytest.mark.parametrize("version", ["02", "08"])
def test_a_batch_is_split_where_its_parts_make_up_the_whole(version: str) -> None:
    parts = (Booking(-300, text="a", end_to_end_id="1"), Booking(-700, text="b", end_to_end_id="2"))
    found = entries(camt(Sheet([Booking(-1_000, parts=parts)]), version=version))
    assert [(part.amount_minor, part.end_to_end_id, part.part, part.batch_size) for part in found] == [
        (-300, "1", 1, 2),
        (-700, "2", 2, 2),
    ]


def test_a_batch_whose_parts_do_not_make_up_the_whole_stays_one_entry() -> None:
    parts = (Booking(-300, text="a"), Booking(-600, text="b"))
    found = entry(camt(Sheet([Booking(-1_000, booking_text="SAMMLER", parts=parts)])))
    assert (found.amount_minor, found.part, found.batch_size, found.description) == (-1_000, 0, 2, "SAMMLER")
    assert found.counterparty is NOBODY


def test_nonref_is_no_reference() -> None:
    data = camt(Sheet([Booking(1, reference="NONREF")]))
    assert entry(data).bank_reference is None
    own = data.replace(b"<Refs>", b"<Refs><Prtry><Tp>UMSATZ-ID</Tp><Ref>2026-7</Ref></Prtry>")
    assert entry(own).bank_reference == "2026-7"


def test_a_report_may_leave_out_its_balances_days() -> None:
    data = camt(Sheet([Booking(1)]), kind="052").replace(f"<Dt><Dt>{DAY}</Dt></Dt></Bal>".encode(), b"</Bal>")
    assert opening(data).balance == Balance("OPBD", 100_000, "EUR", DAY)


def test_each_kind_names_its_page_in_its_own_way() -> None:
    for kind, name in (("052", b"RptPgntn"), ("053", b"StmtPgntn"), ("054", b"NtfctnPgntn")):
        data = camt(Sheet([Booking(1)], page=(3, False)), kind=kind).replace(b"StmtPgntn", name)
        assert opening(data).page == 3
        assert closings(data)[0].last_page is False


def test_a_batch_told_by_a_count_only() -> None:
    data = camt(Sheet([Booking(-1_000)])).replace(b"<NtryDtls>", b"<NtryDtls><Btch><NbOfTxs>17</NbOfTxs></Btch>")
    assert entry(data).batch_size == 17


def test_pending_entries_do_not_count_and_those_that_inform_are_left_out() -> None:
    bookings = [Booking(100), Booking(200, status="PDNG"), Booking(300, status="INFO"), Booking(400, status="FUTR")]
    (closing,) = closings(camt(Sheet(bookings)))
    assert (closing.moved_minor, closing.entries, closing.left_out) == (100, 4, 1)
    assert [found.status for found in entries(camt(Sheet(bookings)))] == ["posted", "pending", "pending"]


def test_a_pending_entry_without_a_date_has_the_reports() -> None:
    data = camt(Sheet([Booking(1, status="PDNG")]), kind="052").decode()
    data = data.replace(f"<BookgDt><Dt>{DAY}</Dt></BookgDt><ValDt><Dt>{DAY}</Dt></ValDt>", "")
    assert entry(data.encode()).booking_date == DAY
    assert "no booking date" in refused(data.replace("PDNG", "BOOK").encode()).sentence


@pytest.mark.parametrize(("kind", "expected"), [("052", "intraday"), ("053", "booked"), ("054", "advice")])
@pytest.mark.parametrize("version", ["02", "04", "06", "08"])
def test_every_kind_and_version_is_read(kind: str, version: str, expected: str) -> None:
    data = camt(Sheet([Booking(5)]), kind=kind, version="02" if version < "07" else "08")
    data = data.replace(b".001.02", f".001.{version}".encode())
    assert (opening(data).kind, opening(data).format) == (expected, f"camt.{kind}.001.{version}")
    assert entry(data).amount_minor == 5


def test_prefixes_comments_and_other_writings_of_the_same() -> None:
    plain = camt(Sheet([Booking(-5, text="Käse & Brot"), Booking(6)]))
    prefixed = plain.decode().replace("</", "\0").replace("<?", "\1").replace("<", "<n:").replace("\1", "<?")
    prefixed = prefixed.replace("\0", "</n:").replace("xmlns=", "xmlns:n=")
    assert entries(prefixed.encode()) == entries(plain)
    commented = plain.replace(b"<Ntry>", b"<!-- <Ntry> --><Ntry><?x y?><!-- z -->")
    assert [replace(item, line=0) for item in entries(commented)] == [replace(item, line=0) for item in entries(plain)]
    again = plain.replace(b"<Ntry>", b'<Ntry xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">')
    assert entries(again) == entries(plain)
    assert entries(plain.replace(b"UTF-8", b"iso-8859-1").decode().encode("iso-8859-1")) == entries(plain)
    assert entries(b"\xef\xbb\xbf" + plain) == entries(plain)
    space = b"urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"
    located = b' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="%b camt.xsd"' % space
    assert entries(plain.replace(b"<Document", b"<Document" + located)) == entries(plain)


def test_an_entry_inside_a_banks_own_extension_is_no_entry() -> None:
    inner = f"<SplmtryData><Envlp>{camt_entry(Booking(7))}<Stmt><Id>x</Id>{camt_entry(Booking(8))}</Stmt></Envlp></SplmtryData>"
    data = camt(Sheet([Booking(5)])).replace(b"</Stmt>", inner.encode() + b"</Stmt>")
    assert entry(data).amount_minor == 5


def test_several_statements_and_accounts_in_one_file() -> None:
    first = Sheet([Booking(5)])
    other = Sheet([Booking(7)], iban=OTHER_IBAN, opening=5, number=9)
    second = follow_up(first, Booking(6))
    found = closings(camt(first, other, second))
    assert [closing.opening.account.iban for closing in found] == [IBAN, OTHER_IBAN, IBAN]


def test_an_account_may_be_named_by_bank_code_and_number() -> None:
    data = camt(Sheet([Booking(5)])).replace(
        f"<IBAN>{IBAN}</IBAN></Id><Ccy>".encode(), b"<Othr><Id>37040044/532013000</Id></Othr></Id><Ccy>"
    )
    assert opening(data).account[:2] == (IBAN, "37040044/532013000")
    unknown = data.replace(b"37040044/532013000", b"Konto-7")
    assert "--iban Konto-7=" in refused(unknown).sentence
    assert opening(unknown, ibans={"Konto-7": IBAN}).account.iban == IBAN


def test_pages_with_interim_balances_and_pages_without_any() -> None:
    first = Sheet([Booking(5)], page=(1, False), balances="OPBD ITBD")
    last = Sheet([Booking(6)], opening=first.end, page=(2, True), balances="ITBD> CLBD")
    assert [closing.last_page for closing in closings(camt(first, last))] == [False, True]

    bare = [first._replace(balances="OPBD"), last._replace(balances="CLBD")]
    assert len(closings(camt(*bare))) == 2
    assert "do not add up" in refused(camt(bare[0], bare[1]._replace(closing=1))).sentence

    whole = [sheet._replace(opening=100_000, closing=100_011, balances="OPBD CLBD") for sheet in (first, last)]
    assert len(closings(camt(*whole))) == 2


@pytest.mark.parametrize("undeclared", [True, False])
def test_latin_1_is_recognised_wherever_its_first_umlaut_stands(undeclared: bool) -> None:
    """Also if the first 64 KiB have none, and if the umlaut is the last letter of a piece that is read."""
    texts = ["Rechnung"] * 120 + ["Käse"]
    data = camt(Sheet([Booking(1, text=text, name=None) for text in texts]), version="02").replace("ö".encode(), b"o")
    data = data.replace(b' encoding="UTF-8"', b"") if undeclared else data
    at = data.index("ä".encode())
    assert at > CHUNK
    for filler in range(CHUNK - at % CHUNK - 3, CHUNK - at % CHUNK + 2):
        padded = data.replace(b"<GrpHdr>", b"<GrpHdr>" + b" " * filler)
        for content in (padded, padded.decode().encode("latin-1")):
            assert entries(content)[-1].description == "Käse"


def test_an_envelope_may_hold_several_documents() -> None:
    first, second = (camt(sheet).partition(b"?>")[2] for sheet in (Sheet([Booking(5)]), Sheet([Booking(6)], id="S-2")))
    found = entries(b"<Envelope><AppHdr/>" + first + b"<AppHdr/>" + second + b"</Envelope>")
    assert [entry.amount_minor for entry in found] == [5, 6]
