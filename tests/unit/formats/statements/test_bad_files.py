"""Files that are refused: each with a sentence that says what is wrong and where, and nothing read past it."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from kontobahn.errors import BadRequest
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Closing, Entry, Opening, StatementError, StatusReport
from tests.statement_builder import (
    DAY,
    IBAN,
    OTHER_IBAN,
    Booking,
    Sheet,
    archive,
    camt,
    camt_entry,
    follow_up,
    mt940,
    pain002,
)
from tests.unit.formats.statements.reading import closings, entries, read_all, refused

SHEET = Sheet([Booking(-1_234), Booking(5), Booking(7)])
GOOD = camt(SHEET)
GOOD_MT = mt940(SHEET)


def swap(old: str, new: str, data: bytes = GOOD) -> bytes:
    assert old.encode() in data, old
    return data.replace(old.encode(), new.encode(), 1)


BALANCE = f"<Dt><Dt>{DAY}</Dt></Dt></Bal>"
# The file, what the sentence says, and what the place says.
BAD: dict[str, tuple[bytes, str, str]] = {
    "nothing": (b"", "empty", ""),
    "only blanks": (b" \r\n\t", "empty", ""),
    "a letter": (b"Sehr geehrte Damen und Herren", "not a bank statement", ""),
    "json": (b'{"a": 1}', "not a bank statement", ""),
    "binary": (bytes(range(256)) * 40, "not a bank statement", ""),
    "html": (b"<html><body>Bitte anmelden</body></html>", "no namespace", ""),
    "another message": (GOOD.replace(b"camt.053", b"camt.029"), "camt.029.001.08 message", ""),
    "another namespace": (GOOD.replace(b"camt.053.001.08", b"rechnung"), "namespace", ""),
    "a version before": (GOOD.replace(b".001.08", b".001.01"), "camt.053.001.01 message", ""),
    "an envelope around nothing": (b'<Env xmlns="urn:a"><AppHdr/></Env>', "namespace", ""),
    "utf-16": (GOOD.decode().encode("utf-16"), "UTF-16", ""),
    "utf-7": (GOOD.replace(b"UTF-8", b"UTF-7"), "declares the encoding 'UTF-7'", ""),
    "an unknown encoding": (GOOD.replace(b"UTF-8", b"KLINGON"), "declares the encoding 'KLINGON'", ""),
    "utf-8 that is damaged": (swap("Rechnung", "Rech\0nung").replace(b"\0", b"\xfc"), "not in the encoding", "line 7"),
    "a dtd": (swap("<Document", "<!DOCTYPE Document>\n<Document"), "document type declaration", "line 2"),
    "a dtd behind a comment": (swap("<Document", "<!-- x --><?a b?>\n<!DOCTYPE d SYSTEM 'http://127.0.0.1/'><Document"),
                               "document type declaration", "line 3"),
    "an entity bomb": (swap("<Document", '<!DOCTYPE d [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><Document'),
                       "document type declaration", "line 2"),
    "an entity nobody declared": (swap("Rechnung", "&datei;"), "malformed", "line 7"),
    "an unclosed element": (swap("</Ntry>", ""), "", "line"),
    "something after the end": (GOOD + b"<x/>", "malformed", "line"),
    "no statement": (swap("<Stmt>", "<Smtm>", swap("</Stmt>", "</Smtm>")), "no statement", ""),
    "a wrong iban": (swap(IBAN, "DE88370400440532013000"), "IBAN 'DE88370400440532013000' is not valid", "line 4"),
    "no account": (swap(f"<IBAN>{IBAN}</IBAN>", ""), "which account", "line 4"),
    "no identification": (swap("<Id>S-1</Id>", ""), "no identification", "line"),
    "no amount": (swap('<Ntry><Amt Ccy="EUR">12.34</Amt>', "<Ntry>"), "no amount", "entry 1, line 7"),
    "no direction": (swap("12.34</Amt><CdtDbtInd>DBIT</CdtDbtInd>", "12.34</Amt>"), "credit nor debit", "entry 1"),
    "a third decimal": (swap(">12.34<", ">12.345<"), "more than two decimals", "entry 1, line 7"),
    "a negative amount": (swap(">12.34<", ">-12.34<"), "'-12.34' is not an amount", "entry 1, line 7"),
    "an amount in words": (swap(">12.34<", ">1e2<"), "'1e2' is not an amount", "entry 1, line 7"),
    "an amount too large": (swap(">12.34<", ">1000000000000.00<"), "too large", "entry 1, line 7"),
    "another currency": (swap('<Ntry><Amt Ccy="EUR">', '<Ntry><Amt Ccy="USD">'), "kept in EUR, but the entry is in USD", "entry 1"),
    "a balance in another currency": (swap('Ccy="EUR">1000.00', 'Ccy="USD">1000.00'), "a balance is in USD", "line"),
    "no status": (swap("<Sts><Cd>BOOK</Cd></Sts>", ""), "status (Sts) is missing", "entry 1"),
    "a status of one's own": (swap("<Cd>BOOK</Cd>", "<Cd>WARM</Cd>"), "none of BOOK", "entry 1"),
    "a day that never was": (swap(f"<BookgDt><Dt>{DAY}", "<BookgDt><Dt>2026-02-32"), "'2026-02-32' is not a date", "entry 1"),
    "a month that never was": (swap(f"<ValDt><Dt>{DAY}", "<ValDt><Dt>2026-13-31"), "'2026-13-31' is not a date", "entry 1"),
    "a balance without a sign": (swap("1000.00</Amt><CdtDbtInd>CRDT</CdtDbtInd>", "1000.00</Amt>"), "credit nor debit", "line 5"),
    "a closing balance that fits with neither sign": (
        swap("987.78</Amt><CdtDbtInd>CRDT</CdtDbtInd>", "987.80</Amt>"), "credit nor debit", "line 4"),
    "a balance without a day": (swap(BALANCE, "</Bal>"), "not a date", "line 5"),
    "a sum that is wrong": (swap("987.78", "987.80"), "which is 0.02 more", "line 4"),
    "mt940: a sum that is wrong": (swap("EUR987,78", "EUR987,70", GOOD_MT), "which is 0.08 less", "line 1"),
    "mt940: a wrong iban": (swap(IBAN, "DE88370400440532013000", GOOD_MT), "is not valid", "line 4"),
    "mt940: no account": (swap(f":25:{IBAN}\r\n", "", GOOD_MT), "which account", "line 3"),
    "mt940: no opening balance": (swap(":60F:C260302EUR1000,00\r\n", "", GOOD_MT), "before the opening balance", "line 4"),
    "mt940: a line that makes no sense": (swap(":61:", ":61:x", GOOD_MT), "cannot be read", "entry 1, line 5"),
    "mt940: a day that never was": (swap(":61:260302", ":61:260432", GOOD_MT), "not a date", "entry 1, line 5"),
    "mt940: a thousand dot": (swap("D12,34N", "D1.012,34N", GOOD_MT), "cannot be read", "entry 1, line 5"),
    "mt940: a third decimal": (swap("D12,34N", "D12,345N", GOOD_MT), "more than two decimals", "entry 1, line 5"),
    "mt940: too many digits": (swap("D12,34N", "D9000000000000012,34N", GOOD_MT), "too large", "entry 1, line 5"),
    "mt940: a balance that makes no sense": (swap(":62F:C", ":62F:X", GOOD_MT), "balance (:62F:) cannot be read", "line"),
    "mt940: a balance in another currency": (swap("EUR987", "USD987", GOOD_MT), "a balance is in USD", "line"),
    "mt940: movements after the end": (GOOD_MT.replace(b"-\r\n", b":61:260302C1,00NTRFX\r\n-\r\n"), "after the closing", "line"),
    "mt940: a field before it": (b":25:1\r\n" + GOOD_MT, "outside a statement", "line 1"),
    "an endless head": (swap("<Acct>", f"<x>{'y' * 1_000_000}</x>" * 17 + "<Acct>"), "more than 16,000,000 bytes", ""),
    "a nest of elements": (swap("<Acct>", "<x>" * 300 + "</x>" * 300 + "<Acct>"), "malformed", "line 4"),
    "mt940: an endless field": (GOOD_MT.replace(b"-\r\n", b":86:\r\n" + b"x\r\n" * 2_000), "more than 1000 lines", "line"),
    "mt940: an endless line": (GOOD_MT.replace(b"-\r\n", b":86:" + b"x" * 200_000), "longer", ""),
    "pain.002: not of what": (swap("<OrgnlMsgId>KB-1</OrgnlMsgId>", "", pain002(("E", "ACSC", ""))), "which file", ""),
    "pain.002: no status": (pain002(), "no status", ""),
    "pain.002: a transaction without": (swap("<TxSts>ACSC</TxSts>", "", pain002(("E", "ACSC", ""))), "no status", "line 2"),
    "pain.002: a dtd": (swap("<Document", "<!DOCTYPE d><Document", pain002(("E", "ACSC", ""))), "document type", "line 2"),
    "pain.002: cut": (pain002(("E", "ACSC", ""))[:-40], "cut off", "line 2"),
    "pain.002: a version before": (pain002(("E", "ACSC", ""), version="02"), "cannot be read", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_what_is_wrong_and_where(case: str) -> None:
    data, sentence, place = BAD[case]
    error = refused(data, name="bank.dat")
    assert sentence in error.sentence
    assert place in error.place
    assert str(error).startswith("bank.dat: ")
    assert isinstance(error, BadRequest)


@pytest.mark.parametrize("data", [GOOD, GOOD_MT], ids=["camt", "mt940"])
def test_a_file_cut_anywhere_is_refused(data: bytes) -> None:
    whole = data.rstrip(b"\r\n-")
    for end in range(0, len(whole) - 3, 23):
        error = refused(whole[:end])
        assert str(error)


def test_a_cut_file_says_after_which_entry() -> None:
    half = GOOD[: GOOD.rindex(b"<Ntry>") + 40]
    error = refused(half)
    assert (error.statement, error.place.split(",")[0]) == ("S-1", "after entry 2")
    assert "cut off" in error.sentence
    error = refused(GOOD_MT[: GOOD_MT.index(b":62F")])
    assert (error.statement, error.place) == ("STARTUMS 00001/001", "after entry 3")


def test_a_file_larger_than_allowed_is_refused() -> None:
    assert "more than the 2,000 bytes" in refused(GOOD, max_bytes=2_000).sentence
    assert "more than the 300 bytes" in refused(GOOD_MT, max_bytes=300).sentence
    assert len(closings(GOOD, max_bytes=len(GOOD))) == 1


def test_an_archive_is_read_in_the_order_of_its_statements() -> None:
    first = Sheet([Booking(5)])
    second = follow_up(first, Booking(6))
    third = follow_up(second, Booking(7))
    data = archive(
        **{
            "c.xml": camt(third),
            "a/b.sta": mt940(second),
            "d.xml": camt(first),
            "__MACOSX/d": b"x",
            "e": pain002(("E", "ACSC", "")),
        }
    )
    items = read_all(data, name="mai.zip")
    assert [item.opening.file for item in items if isinstance(item, Closing)] == [
        "mai.zip/d.xml",
        "mai.zip/a/b.sta",
        "mai.zip/c.xml",
    ]
    assert isinstance(items[-1], StatusReport)


def test_an_archive_can_come_from_a_pipe() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: Any) -> int:
            raise OSError("a pipe cannot be rewound")

    assert len(list(read(Pipe(archive(a=GOOD)), "x.zip"))) == 5


def bomb() -> bytes:
    return archive(a=b"<a>" + b" " * 3_000_000)


def encrypted() -> bytes:
    data = bytearray(archive(a=GOOD))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (archive(), "empty"),
        (archive(**{"leer/": b""}), "empty"),
        (bomb(), "unpacks to 3,000,003 bytes; 1,000,000 are allowed"),
        (archive(a=archive(b=GOOD)), "archive inside an archive"),
        (archive(**{f"{number}": b"x" for number in range(1_001)}), "1,001 files"),
        (archive(a=GOOD)[:-30], "cannot be read"),
        (encrypted(), "cannot be read"),
        (archive(a=GOOD, b=b"Hallo"), "not a bank statement"),
    ],
)
def test_a_bad_archive_is_refused(data: bytes, sentence: str) -> None:
    assert sentence in refused(data, name="a.zip", max_bytes=1_000_000).sentence


def test_an_archive_that_lies_about_its_size_is_refused() -> None:
    data = bytearray(bomb())
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = data.index(mark) + offset
        data[start : start + 4] = (1_000).to_bytes(4, "little")
    with pytest.raises(StatementError):
        read_all(bytes(data), max_bytes=1_000_000)


def test_what_was_read_before_a_fault_is_not_more_than_was_there() -> None:
    """The caller takes a file in one transaction, so the entries before a fault may be given, but never its Closing."""
    stream = read(io.BytesIO(camt(SHEET._replace(closing=1))), "x")
    assert [type(next(stream)) for _ in range(4)] == [Opening, Entry, Entry, Entry]
    with pytest.raises(StatementError, match="do not add up"):
        next(stream)


class Long(io.RawIOBase):
    """A file of so many equal entries, which is never in memory as a whole."""

    def __init__(self, count: int) -> None:
        self._first, entry, self._last = camt(Sheet([Booking(0)])).partition(camt_entry(Booking(0)).encode())
        self._block = entry * 50
        self._blocks = count // 50
        assert entry

    def read(self, size: int = -1) -> bytes:
        if self._first:
            chunk, self._first = self._first, b""
        elif self._blocks:
            self._blocks -= 1
            chunk = self._block
        else:
            chunk, self._last = self._last, b""
        return chunk


def test_memory_does_not_grow_with_the_file() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = most = resident()
    count = 0
    for count, _ in enumerate(read(cast(BinaryIO, Long(12_000)), "x")):
        if count % 1_000 == 0:
            most = max(most, resident())
    assert count == 12_001
    # As a tree the entries would take some 90 MB.
    assert most - before < 25_000_000


def test_the_other_accounts_iban_need_not_be_valid() -> None:
    found = entries(GOOD.replace(OTHER_IBAN.encode(), b"XX00FREMD"))
    assert found[0].counterparty.iban == "XX00FREMD"


def test_a_zip_is_known_by_its_content() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        file.writestr("a", GOOD)
    assert len(read_all(target.getvalue(), name="auszug.txt")) == 5
