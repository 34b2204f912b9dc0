"""camt.052, 053 and 054: account reports, statements and advices in XML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from lxml import etree

from kontobahn.formats.camt.entry import EntryReader
from kontobahn.formats.statements import (
    INTERIM,
    Balance,
    Closing,
    Entry,
    Item,
    Kind,
    Opening,
    StatementAccount,
    StatementError,
    StatementWarning,
    Tally,
)
from kontobahn.formats.statements.source import (
    Remark,
    Root,
    Source,
    currency_of,
    day_of,
    nearly_day_of,
    nearly_minor_of,
    own_iban,
    parse,
    recoded,
    valid_iban,
    whole_number,
)
from kontobahn.sentences import said
from kontobahn.xml_text import PARSER_OPTIONS

# Reads camt.052, 053 and 054 as a stream: one entry in memory at a time, whatever the size of the file.
#
# A statement's head and balances come before its entries, so the head is read when the first entry is complete. Entries
# are read in `entry.py`.


KINDS: dict[str, tuple[Kind, str]] = {
    "camt.052": ("intraday", "Rpt"),
    "camt.053": ("booked", "Stmt"),
    "camt.054": ("advice", "Ntfctn"),
}
# Later ones are read by the meaning of their elements: what they add is skipped, what they move is missed, and said.
FIRST_VERSION = 2
MAX_ENTRY_BYTES = 16_000_000  # enough for a batch of ten thousand payments, which must fit into memory
_NESTED_STATUS = 7  # from this version on
_NEEDED = frozenset(("OPBD", "PRCD", "CLBD", INTERIM))  # the balances that entries lead from and to


def read_camt(source: Source, root: Root, ibans: Mapping[str, str], tally: Tally) -> Iterator[Item]:
    return _Camt(source, root, ibans, tally).items()


class _Camt:
    def __init__(self, source: Source, root: Root, ibans: Mapping[str, str], tally: Tally) -> None:
        self._source = source
        self._root = root
        self._ibans = ibans
        self._tally = tally
        self.kind, name = KINDS[root.message[:8]]
        self._statement_tag = root.space + name
        self._entry_tag = f"{root.space}Ntry"
        self._entries = EntryReader(root.space, nested_status=int(root.message[-2:]) >= _NESTED_STATUS)
        self._open: _Statement | None = None
        self._statements = 0
        self._since_last = 0

    def items(self) -> Iterator[Item]:
        parser = etree.XMLPullParser(events=("end",), tag=(self._entry_tag, self._statement_tag), **PARSER_OPTIONS)
        try:
            for size in parse(parser, self._source):
                self._since_last += size
                yield from self._ended(parser)
                if self._since_last > MAX_ENTRY_BYTES:
                    raise StatementError(
                        said(
                            "A single entry, or the head of a statement, has more than {most} bytes.",
                            most=f"{MAX_ENTRY_BYTES:,}",
                        )
                    )
        except StatementError as error:
            statement = self._open
            place = f"after entry {statement.number}, {error.place}" if statement and not error.file else error.place
            fault = StatementError(error.sentence, file=error.file, statement=error.statement, place=place)
            raise fault.at(self._source.name, statement.name if statement else None) from None
        if not self._statements:
            wanted = etree.QName(self._statement_tag).localname
            sentence = said("The file has no statement ({wanted}).", wanted=wanted)
            if not _says_nothing(self._source):
                raise StatementError(sentence, file=self._source.name)
            # Some banks hand out such a file on days without movements.
            yield StatementWarning(self._source.name, sentence, "Nothing was imported.")

    def _ended(self, parser: etree.XMLPullParser) -> Iterator[Item]:
        entry_tag = self._entry_tag
        for _, element in parser.read_events():
            self._since_last = 0
            try:
                if element.tag == entry_tag:
                    statement = self._open
                    if statement is None or statement.element is not element.getparent():
                        statement = self._begin(element.getparent())
                        if statement is None:
                            element.clear(keep_tail=True)
                            continue
                        yield from statement.begin()
                    yield from statement.entries(element, self._entries)
                    element.clear(keep_tail=True)
                    # The parser may still be at this entry, so the one before it is removed.
                    before = element.getprevious()
                    if before is not None and before.tag == entry_tag:
                        statement.element.remove(before)
                elif _is_statement(element, self._statement_tag):
                    yield from self._end(element)
            except StatementError as error:
                name = self._open.name if self._open else None
                raise error.at(self._source.name, name, f"line {element.sourceline}") from None

    def _begin(self, element: etree._Element | None) -> _Statement | None:
        """Returns None for an entry outside a statement."""
        if element is None or not _is_statement(element, self._statement_tag):
            return None
        self._statements += 1
        self._open = _Statement(element, self._root, self.kind, self._source.name)
        try:
            self._open.identify(self._ibans)
        except StatementError as error:
            raise error.at(self._source.name, self._open.name, f"line {element.sourceline}") from None
        return self._open

    def _end(self, element: etree._Element) -> Iterator[Item]:
        statement = self._open
        if statement is None or statement.element is not element:
            statement = self._begin(element)
            assert statement is not None
            yield from statement.begin()
        yield from self._tally.close(statement.closing())
        self._open = None
        element.clear(keep_tail=True)


def _says_nothing(source: Source) -> bool:
    """Returns whether a file has nothing but the head of its message. It has been read without a fault."""
    if source.has_more_than_head:
        return False
    parser = etree.XMLParser(**PARSER_OPTIONS)
    root = etree.fromstring(recoded(source.head) if source.is_recoded else source.head, parser)
    documents = list(root.iter("{*}Document")) or [root]
    return all(
        etree.QName(part).localname == "GrpHdr" for document in documents for message in document for part in message
    )


def _is_statement(element: etree._Element, tag: str) -> bool:
    """Checks name and depth in its document: a bank's own extensions may hold elements of the same name."""
    message = element.getparent()
    document = None if message is None else message.getparent()
    if element.tag != tag or document is None:
        return False
    return document.getparent() is None or etree.QName(document).localname == "Document"


class _Statement:
    """A statement whose head has been read, with the totals so far."""

    def __init__(self, element: etree._Element, root: Root, kind: Kind, file: str) -> None:
        self.element = element
        self.number = 0
        self._space = root.space
        self._own = KINDS[root.message[:8]][1]
        self._root = root
        self._kind = kind
        self._file = file
        self._moved = 0
        self._left_out = 0
        self._warnings: list[StatementWarning] = []
        self._unsigned: set[Balance] = set()
        self.name = self._text("Id") or ""

    def identify(self, ibans: Mapping[str, str]) -> None:
        if not self.name:
            raise StatementError("The statement has no identification (Id).")
        found = self._text("Acct/Id/IBAN")
        identification = found or self._text("Acct/Id/Othr/Id")
        if not identification:
            raise StatementError("The statement does not say which account it is about (Acct/Id).")
        iban = valid_iban(found) if found else own_iban(identification, ibans)
        balances = self.balances
        currency = self._text("Acct/Ccy") or next((balance.currency for balance in balances), None)
        for balance in balances:
            if balance.currency != currency:
                raise StatementError(
                    said(
                        "The account is kept in {currency}, but a balance is in {other}.",
                        currency=currency,
                        other=balance.currency,
                    )
                )
        self._account = StatementAccount(
            iban,
            identification,
            currency and currency_of(currency),
            self._text("Acct/Ownr/Nm") or self._text("Acct/Nm"),
            self._text("Acct/Svcr/FinInstnId/BICFI") or self._text("Acct/Svcr/FinInstnId/BIC"),
            self._text("Acct/Svcr/FinInstnId/Nm"),
        )

    def begin(self) -> Iterator[Item]:
        yield self.opening
        yield from self._warnings

    @cached_property
    def opening(self) -> Opening:
        start, end = (self._text(f"FrToDt/{name}DtTm") or self._text(f"FrToDt/{name}Dt") for name in ("Fr", "To"))
        return Opening(
            file=self._file,
            format=self._root.message,
            kind=self._kind,
            account=self._account,
            statement_id=self.name,
            number=whole_number(self._text("LglSeqNb") or self._text("ElctrncSeqNb")),
            page=self._page,
            created_at=self._text("CreDtTm"),
            from_date=day_of(start) if start else None,
            to_date=day_of(end) if end else None,
            balance=self._first_balance(),
            line=self.element.sourceline or 0,
        )

    def entries(self, element: etree._Element, reader: EntryReader) -> Sequence[Entry | StatementWarning]:
        self.number += 1
        remarks: list[Remark] = []
        try:
            entries = reader.read(element, self.number, self._account, self.opening, remarks)
        except StatementError as error:
            place = f"entry {self.number}, line {element.sourceline}"
            raise error.at(self._file, self.name, place) from None
        if not entries:
            self._left_out += 1
        elif self._account.currency is None:
            self._account = self._account._replace(currency=entries[0].currency)
        for entry in entries:
            if entry.status == "posted":
                self._moved += entry.amount_minor
        if not remarks:
            return entries
        place = f"statement {self.name}, entry {self.number}, line {element.sourceline}"
        return [*(StatementWarning(place, *remark) for remark in remarks), *entries]

    def closing(self) -> Closing:
        moved, opening = self._moved, self.opening
        balance = self._with_sign(self._last_balance(), opening.balance, moved)
        adds_up = balance and opening.balance and opening.balance.amount_minor + moved == balance.amount_minor
        # The message's page number may be about another of its statements; one that adds up to its closing balance is whole.
        whole = self._last_page or (self._page_of_message and adds_up and balance and balance.code != INTERIM)
        return Closing(opening, balance, tuple(self.balances), self.number, moved, self._left_out, bool(whole))

    @cached_property
    def balances(self) -> list[Balance]:
        found = [self._balance(element) for element in self.element.findall(f"{self._space}Bal")]
        return [balance for balance in found if balance is not None]

    def _balance(self, element: etree._Element) -> Balance | None:
        """Returns None for a balance that is not needed, and without a sign."""
        remarks: list[Remark] = []
        try:
            code = self._text("Tp/CdOrPrtry/Cd", element) or self._text("Tp/CdOrPrtry/Prtry", element) or ""
            amount = element.find(f"{self._space}Amt")
            if amount is None:
                raise StatementError("A balance has no amount (Bal/Amt).")
            on = self._text("Dt/Dt", element) or self._text("Dt/DtTm", element)
            if on is None and self._kind != "booked":
                on = self._text("CreDtTm")  # some banks omit it in intraday reports
            text, indicator = (amount.text or "").strip(), self._text("CdtDbtInd", element) or ""
            sign = {"CRDT": 1, "DBIT": -1}.get(indicator)
            if sign is None and text.startswith(("-", "+")):
                text, sign = text[1:], -1 if text.startswith("-") else 1
            stated, is_rounded = nearly_minor_of(text)
            if is_rounded:
                remarks.append(
                    Remark(
                        said("The balance {amount} has more than two decimals.", amount=text),
                        "It was rounded to the cent; the entries must lead to it.",
                    )
                )
            balance = Balance(code, (sign or 1) * stated, currency_of(amount.get("Ccy")), nearly_day_of(on, remarks))
            if sign is None and stated:
                return self._without_sign(balance, remarks)
            return balance
        except StatementError as error:
            raise error.at(self._file, self.name, f"line {element.sourceline}") from None
        finally:
            place = f"statement {self.name}, line {element.sourceline}"
            self._warnings += [StatementWarning(place, *remark) for remark in remarks]

    def _without_sign(self, balance: Balance, remarks: list[Remark]) -> Balance | None:
        """A closing balance gets its sign from the entries. Others that they must lead to have none, and the rest is not needed."""
        sentence = said("The balance {code} is neither credit nor debit (Bal/CdtDbtInd).", code=balance.code)
        if balance.code == "CLBD" and self._kind == "booked":
            self._unsigned.add(balance)
            return balance
        if balance.code in _NEEDED:
            raise StatementError(sentence)
        remarks.append(Remark(sentence, "It was left out."))
        return None

    def _with_sign(self, closing: Balance | None, opening: Balance | None, moved: int) -> Balance | None:
        if closing is None or closing not in self._unsigned:
            return closing
        for sign in (1, -1):
            if opening is not None and opening.amount_minor + moved == sign * closing.amount_minor:
                signed = closing._replace(amount_minor=sign * closing.amount_minor)
                self.balances = [signed if balance == closing else balance for balance in self.balances]
                return signed
        raise StatementError(
            said("The balance {code} is neither credit nor debit (Bal/CdtDbtInd).", code=closing.code)
        ).at(self._file, self.name, f"line {self.element.sourceline}")

    def _first_balance(self) -> Balance | None:
        interim = [balance for balance in self.balances if balance.code == INTERIM]
        if (self._page or 1) > 1 and interim and (len(interim) > 1 or self._last_page):
            return interim[0]
        return self._balance_by("OPBD") or self._balance_by("PRCD")

    def _last_balance(self) -> Balance | None:
        """Ignores an intraday report's interim balance, which may include movements of an earlier report."""
        closing = self._balance_by("CLBD")
        if closing is None and self._kind == "booked" and not self._last_page:
            closing = next((balance for balance in reversed(self.balances) if balance.code == INTERIM), None)
        return closing

    def _balance_by(self, code: str) -> Balance | None:
        return next((balance for balance in self.balances if balance.code == code), None)

    @cached_property
    def _page_of_message(self) -> bool:
        return self.element.find(f"{self._space}{self._own}Pgntn") is None

    def _of_page(self, name: str) -> str | None:
        if not self._page_of_message:
            return self._text(f"{self._own}Pgntn/{name}")
        message = self.element.getparent()
        return self._text(f"GrpHdr/MsgPgntn/{name}", message) if message is not None else None

    @cached_property
    def _page(self) -> int | None:
        return whole_number(self._of_page("PgNb"))

    @cached_property
    def _last_page(self) -> bool:
        return (self._of_page("LastPgInd") or "true").strip() in {"true", "1"}

    def _text(self, path: str, element: etree._Element | None = None) -> str | None:
        """Returns the text at a path without surrounding blanks, or None if there is none."""
        base = self.element if element is None else element
        found = base.findtext(self._space + path.replace("/", f"/{self._space}"))
        return (found or "").strip() or None
