"""The content of account statements and payment status reports, whatever format they came in.

`bank_files.read` reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from kontobahn.errors import BadRequest
from kontobahn.formats.statements.purpose import Purpose
from kontobahn.money import amount_text
from kontobahn.sentences import joined, said

# The content of account statements, whatever format they came in; whether one adds up; the one error that readers
# raise.
#
# Amounts are whole hundredths of the currency, as everywhere in Kontobahn; one with more decimals is refused, never
# rounded. Nothing here reads a file: readers and the importer share these types.


# booked: camt.053, MT940. intraday: camt.052, MT942. advice: camt.054, whose entries are (or will be) in a statement as well.
Kind: TypeAlias = Literal["booked", "intraday", "advice"]
Status: TypeAlias = Literal["posted", "pending"]


class Balance(NamedTuple):
    """`code` is that of camt (OPBD, PRCD, CLBD, ITBD, CLAV, FWAV …); MT940's balances get the code of the same meaning."""

    code: str
    amount_minor: int
    currency: str
    day: date


class StatementAccount(NamedTuple):
    """The account a statement is about. `identification` is what the file calls it, IBAN or not."""

    iban: str
    identification: str
    currency: str | None = None
    holder: str | None = None
    bic: str | None = None
    bank_name: str | None = None


class Opening(NamedTuple):
    """A statement begins, or a page of one. `balance` is what the account held before the first movement."""

    file: str
    format: str
    kind: Kind
    account: StatementAccount
    statement_id: str
    number: int | None = None
    page: int | None = None
    created_at: str | None = None
    from_date: date | None = None
    to_date: date | None = None
    balance: Balance | None = None
    line: int = 0


class Party(NamedTuple):
    """One side of a payment. `account` is an account number that is no IBAN."""

    name: str | None = None
    iban: str | None = None
    account: str | None = None
    bic: str | None = None


NOBODY = Party()


class Amount(NamedTuple):
    """An amount beside the entry's own, in the currency that the file names with it."""

    amount_minor: int
    currency: str | None

    @property
    def text(self) -> str:
        return f"{amount_text(self.amount_minor)} {self.currency}"


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One movement. `amount_minor` is negative for a debit.

    `description` is the bank's purpose text, unchanged but for joined lines; `purpose` is what it and the structured fields
    say together, structured fields first. `counterparty` is whichever of payer and payee is not the account itself.
    `batch_size` is the number of payments in a batch. If the bank lists them with amounts that make up the whole, each is
    an entry of its own, with `part` from 1 to `batch_size`. Otherwise the batch is one entry and `part` is 0.

    A struct, because it is made for every movement: naming its fields costs less than with a tuple.
    """

    status: Status
    amount_minor: int
    currency: str
    booking_date: date
    value_date: date | None
    description: str
    purpose: Purpose
    counterparty: Party
    payer: Party
    payee: Party
    booking_text: str | None = None  # the bank's name for it: FOLGELASTSCHRIFT
    bank_reference: str | None = None  # AcctSvcrRef; MT940 after //
    entry_reference: str | None = None  # NtryRef
    customer_reference: str | None = None  # InstrId; MT940 before //
    transaction_id: str | None = None  # TxId
    payment_information_id: str | None = None  # PmtInfId
    transaction_code: str | None = None  # PMNT-RCDT-ESCT, or MT940's NTRF
    gvc: str | None = None  # German Geschäftsvorfallcode, three digits
    primanota: str | None = None
    reversal: bool = False
    return_reason: str | None = None  # AC04, MS03 …
    original_amount: Amount | None = None
    charges: Amount | None = None
    batch_size: int = 1
    part: int = 0
    number: int = 0  # of the entry in its statement, from 1
    line: int = 0

    @property
    def end_to_end_id(self) -> str | None:
        return self.purpose.end_to_end_id


class Closing(NamedTuple):
    """A statement ended, and its movements lead from the opening balance to the closing one.

    `moved_minor` is the sum of the posted entries. `left_out` counts entries that only inform (status INFO).
    `last_page` is False for a page with more of the statement to follow. `adds_up` is False for a statement that was taken
    although its movements do not lead to `balance`, or although it has none: its balances prove nothing.
    """

    opening: Opening
    balance: Balance | None
    balances: tuple[Balance, ...]
    entries: int
    moved_minor: int
    left_out: int = 0
    last_page: bool = True
    adds_up: bool = True


class Reason(NamedTuple):
    code: str | None
    text: str | None


class ReportedStatus(NamedTuple):
    """A bank's report about one transaction, a whole payment instruction or a whole file we sent.

    `status` is the bank's code: ACTC, ACSC, RJCT … `level` says what it is about; the ids of the levels above are set too.
    """

    level: Literal["group", "payment", "transaction"]
    status: str
    message_id: str
    payment_information_id: str | None
    end_to_end_id: str | None
    instruction_id: str | None
    transaction_id: str | None
    reasons: tuple[Reason, ...]
    accepted_at: str | None = None
    amount: Amount | None = None
    line: int = 0
    # The payee as we named them, and the payee's account.
    creditor_name: str | None = None
    creditor_iban: str | None = None
    # The number of transactions with each status, where the bank lists not all of them.
    counts: tuple[tuple[str, int], ...] = ()


class StatusReport(NamedTuple):
    """A pain.002 file: what happened to the payments of one file we sent."""

    file: str
    format: str
    message_id: str
    original_message_id: str
    created_at: str | None
    items: tuple[ReportedStatus, ...]


class StatementWarning(NamedTuple):
    """Something in a file that is not as it should be, and how it was taken nevertheless."""

    place: str
    found: str
    done: str


Item: TypeAlias = Opening | Entry | Closing | StatusReport | StatementWarning


class StatementError(BadRequest):
    """A file that cannot be read or imported: which file, where in it, and what is wrong, in one sentence."""

    def __init__(self, sentence: str, *, file: str = "", statement: str | None = None, place: str = "") -> None:
        self.sentence = sentence
        self.file = file
        self.statement = statement
        self.place = place
        where = [part for part in (said("statement {id}", id=statement) if statement else "", place) if part]
        super().__init__(joined(": ", [part for part in (file, joined(", ", where), sentence) if part]))

    def without_file(self, file: str) -> str:
        """Returns the message for where the file is named anyway; inside an archive, the file in it stays named."""
        inside = "" if self.file == file else self.file.removeprefix(f"{file}/")
        return str(StatementError(self.sentence, file=inside, statement=self.statement, place=self.place))

    def at(self, file: str, statement: str | None = None, place: str = "") -> StatementError:
        """Returns the same error with whatever is not yet known of its place filled in."""
        return StatementError(
            self.sentence,
            file=self.file or file,
            statement=self.statement or statement,
            place=self.place or place,
        )


# --- Adding a statement up

INTERIM = "ITBD"
NEVERTHELESS = "Imported nevertheless, as was asked for."
TRIFLE = "Imported nevertheless: such a difference comes from rounding."
UNBALANCED = "Say --unbalanced (in a call: unbalanced=true) if it is to be imported as it is."
ALLOW_GAPS = "Say --allow-gaps (in a call: allow_gaps=true) if it is to be imported nevertheless."


class Tally:
    """Checks the statements of one file against their balances as they are read.

    `unbalanced` takes statements that do not add up, with a warning.
    """

    def __init__(self, *, unbalanced: bool = False) -> None:
        self.unbalanced = unbalanced
        # For pages without balances of their own: the balance after the page before.
        self._carried: dict[tuple[str, str | None], int] = {}

    def close(self, closing: Closing) -> Iterator[StatementWarning | Closing]:
        """Raises StatementError if opening balance and movements do not make the closing balance."""
        opening = closing.opening
        key = _key(opening)
        starts = [opening.balance.amount_minor] if opening.balance else []
        if (opening.page or 1) > 1 and key in self._carried:
            starts.append(self._carried[key])
        ends = [start + closing.moved_minor for start in starts]
        wrong = closing.balance and ends and closing.balance.amount_minor not in ends
        # A page may repeat the closing balance of the whole statement; only the last page must match it.
        if wrong and closing.balance and (closing.last_page or closing.balance.code == INTERIM):
            sentence = _does_not_add_up(closing, starts[0])
            is_trifle = (
                opening.format.startswith("camt") and min(abs(closing.balance.amount_minor - end) for end in ends) <= 1
            )
            if not is_trifle and not self.unbalanced:
                raise _error(opening, joined(" ", [sentence, UNBALANCED]))
            yield StatementWarning(place_of(opening), sentence, TRIFLE if is_trifle else NEVERTHELESS)
            closing = closing._replace(adds_up=False)
        self._carried.pop(key, None)
        if not closing.last_page and ends:
            self._carried[key] = ends[-1]
        yield closing


def _key(opening: Opening) -> tuple[str, str | None]:
    return opening.account.iban, opening.account.currency


def _does_not_add_up(closing: Closing, start: int) -> str:
    assert closing.balance is not None
    stated, found = closing.balance.amount_minor, start + closing.moved_minor
    return said(
        "The balances do not add up: {amount} at the beginning and {amount_moved} in {count} entries"
        " make {amount_found} {currency}, but the statement closes with {amount_stated}, which is"
        " {amount_difference} {more}.",
        amount=amount_text(start),
        amount_moved=amount_text(closing.moved_minor),
        count=closing.entries,
        amount_found=amount_text(found),
        currency=closing.balance.currency,
        amount_stated=amount_text(stated),
        amount_difference=amount_text(abs(stated - found)),
        more="more" if stated > found else "less",
    )


def place_of(opening: Opening) -> str:
    return f"statement {opening.statement_id}, line {opening.line}"


def _error(opening: Opening, sentence: str) -> StatementError:
    return StatementError(sentence, file=opening.file, statement=opening.statement_id, place=f"line {opening.line}")
