"""A file's bytes before anything is parsed: how many are allowed, which format they are, and which XML is refused outright; and its texts
as amounts, days, currencies and IBANs.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import date
from functools import lru_cache
from itertools import islice
from typing import BinaryIO, Literal, NamedTuple

from lxml import etree

from kontobahn.formats.statements import Amount, StatementError
from kontobahn.sentences import said
from kontobahn.xml_text import BOM, PARSER_OPTIONS, UTF_16_OR_32, prolog_of

HEAD = 65_536
CHUNK = 65_536
MAX_FILE_BYTES = 200_000_000
_BLANKS = b" \t\r\n\x0b\x0c\x00\x01\x02\x03\x04\x1a"  # with the marks of transmission that older software leaves
# Blanks of its own line only: with those that end lines, a file of empty lines would be read again from each of them.
_FIELD_20 = re.compile(rb"(?:^|[\r\n\x00-\x04]|\{4:|@@)[ \t\x0b\x0c]*:20:")
# Letters beyond ASCII as UTF-8 writes them: a text that has some of them is no Latin-1, even if others in it are damaged.
_UTF_8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_NOT_LATIN_1 = {byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0xA0)}

Shape = Literal["zip", "xml", "mt"]
_MAX_DIGITS = 14  # in hundredths: what money.MAX_AMOUNT allows
_DECIMAL = re.compile(r"\+?(?:(\d{1,40})(?:[.,](\d{0,2})0*)?|[.,](\d{1,2})0*)", re.ASCII)
_LONG_DECIMAL = re.compile(
    r"(\d{1,18}\.\d\d)(\d)\d{0,30}", re.ASCII
)  # as written by a program that calculates in binary
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:Z|[+-]\d\d:\d\d|T.*)?", re.ASCII)
_GERMAN_ACCOUNT = re.compile(r"(\d{8})[/ ]?(\d{1,10})", re.ASCII)
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)


class Source:
    """A file read once, from the front, no further than `max_bytes` bytes."""

    def __init__(self, file: BinaryIO, name: str, max_bytes: int = MAX_FILE_BYTES) -> None:
        self.name = name
        self._file = file
        self._max_bytes = max_bytes
        self._bytes_read = 0
        # True if it should be UTF-8, has been so far, and was not, so that it was recoded; and the beginning of a torn letter.
        self.should_be_utf_8 = self._has_utf_8 = self.is_recoded = False
        self._torn = b""
        self.head = self._read_head()

    def _read_head(self) -> bytes:
        head = b""
        while len(head) < HEAD and (more := self._file.read(HEAD - len(head))):
            head += more
        self._unread = head
        return head

    def read(self, size: int = CHUNK) -> bytes:
        chunk = self._unread or self._file.read(size)
        self._unread = b""
        self._bytes_read += len(chunk)
        if self._bytes_read > self._max_bytes:
            raise StatementError(
                said("The file has more than the {most} bytes that are allowed.", most=f"{self._max_bytes:,}"),
                file=self.name,
            )
        if not self.should_be_utf_8 or (chunk.isascii() and not self._torn):
            return chunk
        if chunk:
            return self._in_utf_8(chunk) or self.read(size)
        chunk, self._torn = self._torn, b""
        return chunk

    def _in_utf_8(self, chunk: bytes) -> bytes:
        """Returns a piece of what should be UTF-8 as such: Latin-1 that does not say so is recognised by its first umlaut."""
        text, self._torn = self._torn + chunk, b""
        if self.is_recoded:
            return recoded(text)
        try:
            text.decode()
        except UnicodeDecodeError as error:
            if error.end == len(text) and error.reason == "unexpected end of data":
                text, self._torn = text[: error.start], text[error.start :]
            elif not self._has_utf_8 and not _UTF_8.search(text):
                self.is_recoded = True
                return recoded(text)
            # Otherwise it is damaged: the parser says where.
        self._has_utf_8 = self._has_utf_8 or not text.isascii()
        return text

    @property
    def has_more_than_head(self) -> bool:
        return self._bytes_read > len(self.head) or bool(self._unread)

    def forget_namespace(self, namespace: str) -> bool:
        """Blanks out the default namespace if it is declared once, at the root; otherwise returns False.

        lxml rebuilds a tag with a namespace on every access, which would take a third of the reader's time.
        """
        named = re.escape(namespace.encode())
        declared: list[bytes] = re.findall(rb"""xmlns(?::[^\s=]+)?\s*=\s*["']%b["']""" % named, self._unread)
        if len(declared) != 1 or declared[0].startswith(b"xmlns:"):
            return False
        self._unread = self._unread.replace(declared[0], b" " * len(declared[0]), 1)
        return True

    def shape(self) -> Shape:
        """Returns the format by content, never by file name."""
        if self.head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return "zip"
        text = self.head.removeprefix(BOM).lstrip(_BLANKS)
        if not text:
            raise StatementError("The file is empty.", file=self.name)
        if self.head.startswith(UTF_16_OR_32):
            raise StatementError("The file is encoded in UTF-16 or UTF-32; write it in UTF-8.", file=self.name)
        if text.startswith(b"<"):
            return "xml"
        if text.startswith(b"{1:") or _FIELD_20.search(self.head.removeprefix(BOM)):
            return "mt"
        raise StatementError(
            "This is not a bank statement: neither camt.052, camt.053, camt.054, MT940, MT942 nor pain.002.",
            file=self.name,
        )


def recoded(text: bytes) -> bytes:
    """Returns a text in Windows-1252, of which Latin-1 is a part, in UTF-8."""
    return text.decode("latin-1").translate(_NOT_LATIN_1).encode()


class Remark(NamedTuple):
    """Something in an entry or a balance that is not as it should be, and how it was taken nevertheless."""

    found: str
    done: str


class Root(NamedTuple):
    """`message` is the end of the namespace: camt.053.001.08. `space` stands before an element's name in its tag."""

    message: str
    space: str


# The kind of a file without a namespace, by the element of its message. Versions differ little in what is read.
_MESSAGES = {
    "BkToCstmrAcctRpt": "camt.052.001.08",
    "BkToCstmrStmt": "camt.053.001.08",
    "BkToCstmrDbtCdtNtfctn": "camt.054.001.08",
    "CstmrPmtStsRpt": "pain.002.001.10",
}


_MAX_ENVELOPE = 1_000  # elements before the document


def root_of(source: Source) -> Root:
    """Returns what an XML file is: by its root, or by the document in an envelope.

    Raises StatementError for a document type declaration or an encoding that could hide one.
    """
    _refuse_declarations(source)
    probe = etree.XMLPullParser(events=("start",), **PARSER_OPTIONS)
    fault: StatementError | None = None
    try:
        probe.feed(source.head)
    except etree.XMLSyntaxError as error:
        fault = _malformed(error, next(iter(probe.feed_error_log), None), at_end=False)
    started = [element for _, element in islice(probe.read_events(), _MAX_ENVELOPE)]
    if not started:
        raise (fault or StatementError("The file is cut off before its first element ends.")).at(source.name)
    # An envelope has a header, and the document after it.
    at = next((at for at, element in enumerate(started) if etree.QName(element).localname == "Document"), 0)
    root = started[at]
    namespace = etree.QName(root).namespace or ""
    found = re.search(r"[a-z]{4}\.\d{3}\.\d{3}\.\d{2}", namespace)
    if found is None:
        message = _MESSAGES.get(etree.QName(started[at : at + 2][-1]).localname) if not namespace else None
        if message is not None:
            return Root(message, "")
        described = f"the namespace {namespace[:80]!r}" if namespace else "no namespace"
        raise StatementError(
            said(
                "This is not a bank statement: the XML's root {root} has {described}, where one that"
                " ends in camt.053.001.08 or the like is needed.",
                root=etree.QName(root).localname[:40],
                described=described,
            ),
            file=source.name,
        )
    plain = at == 0 and root.prefix is None and source.forget_namespace(namespace)
    return Root(found[0], "" if plain else f"{{{namespace}}}")


def _refuse_declarations(source: Source) -> None:
    """Runs before any parser sees the file."""
    prolog = prolog_of(source.head)
    if prolog.foreign_encoding is not None:
        raise StatementError(
            said(
                "The XML declares the encoding {encoding}; write it in UTF-8.", encoding=f"{prolog.foreign_encoding!r}"
            ),
            file=source.name,
        )
    if prolog.has_doctype:
        raise StatementError(
            "The XML has a document type declaration (DOCTYPE). Bank statements have none, and entities are not"
            " read: the file is refused.",
            file=source.name,
            place=f"line {source.head[: source.head.find(b'<!DOCTYPE')].count(b'%c' % 10) + 1}",
        )
    if not prolog.ends:
        raise StatementError("The XML has no element in its first 64 KiB.", file=source.name)
    source.should_be_utf_8 = prolog.is_utf_8


def parse(parser: etree.XMLPullParser, source: Source) -> Iterator[int]:
    """Feeds a parser and yields the size of each piece. Raises StatementError, with the place, if the file is not XML."""
    at_end = False
    try:
        while chunk := source.read():
            try:
                parser.feed(chunk)
            finally:
                # Everything complete before a fault is processed first, so that the error can say after which entry it came.
                yield len(chunk)
        at_end = not len(parser.feed_error_log)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise _malformed(error, next(iter(parser.feed_error_log), None), at_end) from None


def _malformed(error: etree.XMLSyntaxError, first: etree._LogEntry | None, at_end: bool) -> StatementError:
    """The first entry of the log is the cause; the exception may be a consequence of it, and omits undeclared entities."""
    line, column, text = (first.line, first.column, first.message) if first else (*error.position, error.msg)
    reason = (text or "").partition(", line ")[0].strip().rstrip(".")
    if at_end:
        sentence = said("The file is cut off here ({why}).", why=reason)
    elif "encod" in reason.lower() or "UTF-8" in reason or "invalid char" in reason.lower():
        sentence = said("The text is not in the encoding that the XML declares ({why}).", why=reason)
    else:
        sentence = said("The XML is malformed ({why}).", why=reason)
    return StatementError(sentence, place=f"line {line}, column {column}" if line else "")


# --- Texts as values


def minor_of(text: str | None) -> int:
    """Returns an unsigned amount in hundredths: 12, 12.3, .2, 12,34 (MT940), 12.3400."""
    # The usual form, checked without a pattern: this takes half the time.
    if text and text[-3:-2] == "." and len(text) < 15:
        digits = text[:-3] + text[-2:]
        if digits.isdigit() and digits.isascii():
            return int(digits)
    found = _DECIMAL.fullmatch(text.strip()) if text else None
    if found is None:
        raise StatementError(_wrong_amount(text))
    digits = (found[1] or "") + (found[2] or found[3] or "").ljust(2, "0")
    if len(digits.lstrip("0")) > _MAX_DIGITS:
        raise StatementError(said("The amount {text} is too large.", text=text))
    return int(digits)


def nearly_minor_of(text: str | None) -> tuple[int, bool]:
    """Returns an amount to the nearest hundredth, and whether it was none: for balances, which the entries prove."""
    try:
        return minor_of(text), False
    except StatementError:
        found = _LONG_DECIMAL.fullmatch(text.strip()) if text else None
        if found is None:
            raise
    return minor_of(found[1]) + (found[2] >= "5"), True


def amount_beside(text: str, currency: str | None, remarks: list[Remark]) -> Amount | None:
    """Returns an amount beside the entry's own: the original one, a charge. One that has no hundredths is left out with a remark."""
    try:
        return Amount(minor_of(text), currency)
    except StatementError as error:
        remarks.append(Remark(error.sentence, "It is not the entry's own, and was left out."))
        return None


def _wrong_amount(text: str | None) -> str:
    if text and re.fullmatch(r"\s*\+?\d*[.,]\d+\s*", text, re.ASCII):
        return said("The amount {text} has more than two decimals; it would have to be rounded.", text=_shown(text))
    return said("{text} is not an amount.", text=_shown(text))


@lru_cache(4096)
def day_of(text: str | None) -> date:
    """Returns the day of an ISO date or date-time, as the bank wrote it."""
    found = _DAY.fullmatch(text.strip()) if text else None
    try:
        if found is None:
            raise ValueError
        return date.fromisoformat(found[1])
    except ValueError:
        raise StatementError(said("{text} is not a date of the form YYYY-MM-DD.", text=_shown(text))) from None


def end_of_month(year: int, month: int, day: int, remarks: list[Remark]) -> date | None:
    """Returns the last day of a month for one that only a longer month has, such as 31 November; otherwise None."""
    if year < 1 or not 1 <= month <= 12 or not monthrange(year, month)[1] < day <= 31:
        return None
    remarks.append(
        Remark(
            said("There is no {day}.", day=f"{year:04d}-{month:02d}-{day:02d}"),
            "It was read as the last day of the month, as banks mean it.",
        )
    )
    return date(year, month, monthrange(year, month)[1])


def nearly_day_of(text: str | None, remarks: list[Remark]) -> date:
    """Returns a day like `day_of`; one that its month does not have is read as the month's last, with a remark."""
    try:
        return day_of(text)
    except StatementError:
        found = _DAY.fullmatch(text.strip()) if text else None
        year, month, day = map(int, found[1].split("-")) if found else (0, 0, 0)
        last = end_of_month(year, month, day, remarks)
        if last is None:
            raise
        return last


def currency_of(text: str | None) -> str:
    if text is None or not _CURRENCY.fullmatch(text):
        raise StatementError(said("{text} is not a currency code.", text=_shown(text)))
    return text


@lru_cache(1024)
def _iban_fault(iban: str) -> str | None:
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        IBAN(iban)
    except SchwiftyException as error:
        return str(error)
    return None


def valid_iban(text: str | None) -> str:
    iban = re.sub(r"\s", "", text or "").upper()
    fault = _iban_fault(iban)
    if fault is not None:
        raise StatementError(said("The account's IBAN {text} is not valid ({why}).", text=_shown(text), why=fault))
    return iban


def own_iban(identification: str, ibans: Mapping[str, str]) -> str:
    """Returns the IBAN of a statement's account from what the file calls it: an IBAN, or bank code and account number."""
    named = ibans.get(identification)
    if named is not None:
        return valid_iban(named)
    if identification[:2].isalpha() and identification[2:4].isdigit():
        return valid_iban(identification)
    found = _GERMAN_ACCOUNT.fullmatch(identification)
    iban = _iban_from(found[1], found[2]) if found else None
    if iban is None:
        raise StatementError(
            said(
                "The account is given as {text}, from which no IBAN can be made for certain. Name its"
                " IBAN: --iban {name}=DE… (in a call: iban=…).",
                text=_shown(identification),
                name=identification or "ACCOUNT",
            )
        )
    return iban


@lru_cache(1024)
def _iban_from(bank_code: str, account: str) -> str | None:
    """Returns None if the bank is unknown: its account numbers may follow a rule of their own."""
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        iban = IBAN.generate("DE", bank_code=bank_code, account_code=account)
    except SchwiftyException:
        return None
    return str(iban) if iban.bank is not None else None


def whole_number(text: str | None) -> int | None:
    """Returns a whole number such as a statement's, or None if the text is not one."""
    text = (text or "").strip()
    return int(text) if text.isdigit() and text.isascii() and len(text) <= 18 else None


def _shown(text: str | None) -> str:
    """Quotes a text for a message, shortened if it is long."""
    return repr(text if len(text or "") <= 60 else f"{(text or '')[:60]}…") if text else "An empty text"
