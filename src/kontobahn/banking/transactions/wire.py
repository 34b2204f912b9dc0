"""Transactions on the wire; and from a booking as it was reported to the text of its answer.

A transaction is also stored in this form, so listing it costs no more than joining texts. None of it needs the database, so a long
import does the slow part of each booking before its transaction, for which others wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from kontobahn.api.wire import Answer, ListQuery, Query, Timestamp, form
from kontobahn.banking.provider import Mode, TransactionFacts, TransactionStatus
from kontobahn.banking.wire import ConnectionId, FromId, NumericId
from kontobahn.formats.statements import purpose
from kontobahn.json_text import encode
from kontobahn.money import from_minor


class DescriptionParsed(Answer, gc=False):
    # Named and in order as in a Purpose, which has more behind them.
    cred: str | None = None
    mref: str | None = None
    kref: str | None = None
    debt: str | None = None
    svwz: str | None = None
    abwa: str | None = None
    abwe: str | None = None
    bic: str | None = None
    oamt: str | None = None
    coam: str | None = None
    purp: str | None = None


class TransactionDetail(Answer):
    """A payment of a batch that the bank booked as one sum."""

    amount: Decimal
    description: str
    name: str | None
    account: str | None
    end_to_end_id: str | None


class TransactionExtra(Answer, gc=False):
    time: str | None = None
    payee: str | None = None
    payer: str | None = None
    additional: str | None = None
    merchant_id: str | None = None
    posting_date: date | None = None
    end_to_end_id: str | None = None
    payee_information: str | None = None
    payer_information: str | None = None
    account_balance_snapshot: Decimal | None = None
    categorization_confidence: Decimal | None = None
    # Choice 40: null means not known. These four come from statement files.
    bank_reference: str | None = None
    gvc: str | None = None
    primanota: str | None = None
    return_reason: str | None = None
    details: (
        Annotated[
            list[TransactionDetail],
            Meta(description="The payments of a batch that is booked as one sum; left out for all others."),
        ]
        | UnsetType
    ) = UNSET


class Transaction(Answer, gc=False):
    id: str
    account_id: str
    payment_id: str | None
    duplicated: bool
    mode: Mode
    status: TransactionStatus
    made_on: date
    amount: Decimal
    currency_code: str
    description: str
    description_parsed: DescriptionParsed
    category: str
    extra: TransactionExtra
    created_at: Timestamp
    updated_at: Timestamp


# --- Lists


# More in one answer would be hundreds of megabytes: asked for without a limit, it is refused rather than truncated.
MAX_ROWS = 100_000


class TransactionsQuery(Query):
    connection_id: Annotated[ConnectionId, Meta(description="All accounts of this connection.")] | None = None
    account_id: Annotated[NumericId, Meta(description="This account only.")] | None = None
    # Choice 20: `to_date` is inclusive, as `from_date` is.
    from_date: Annotated[date, Meta(description="First value date.")] | None = None
    to_date: Annotated[date, Meta(description="Last value date.")] | None = None
    from_id: FromId | None = None
    sort: Annotated[
        Literal["made_on", "id"],
        Meta(description="`made_on`: by value date, then id. `id`: by id, for a running sync with `from_id`."),
    ] = "made_on"
    limit: (
        Annotated[
            int,
            Meta(
                ge=1, le=MAX_ROWS, description="The most to return; all when omitted, up to 100,000.", examples=[1000]
            ),
        ]
        | None
    ) = None


class TransactionQuery(Query, kw_only=True):
    account_id: Annotated[NumericId, Meta(description="The account it belongs to.")]


# --- Changes


class ChangesQuery(ListQuery):
    cursor: Annotated[
        str,
        form("a cursor", r"^[0-9]{0,18}$", description="The `cursor` of the answer before; empty for the beginning."),
    ] = ""
    connection_id: Annotated[ConnectionId, Meta(description="Only accounts of this connection.")] | None = None
    account_id: Annotated[NumericId, Meta(description="Only this account.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class Change(Answer):
    """A change of a transaction since the cursor; several changes are reported as one."""

    change: Literal["added", "modified", "removed"]
    id: str
    account_id: str
    # Null when it was removed.
    transaction: Transaction | None


class ChangesAnswer(Answer):
    data: list[Change]
    # For the next call; the same as before when nothing has changed.
    cursor: str
    has_more: bool


# --- Bookings as they were reported


_NEVER = datetime.min.replace(tzinfo=UTC)
# The parts around the text of an answer while it is not stored yet.
_HEAD = b'{"id":"","account_id":"","payment_id":null,"duplicated":false,'
_TAIL = b',"created_at":%s,"updated_at":%s}' % (encode(_NEVER), encode(_NEVER))


class Texts(NamedTuple):
    # That of the bank, or else of the description.
    end_to_end_id: str | None
    # The answer without what is known when it is stored: ids, payment, times, and whether it is a duplicate.
    answer: str

    def stored(self, number: int, account_id: int, payment_id: int | None, time: str, *, is_duplicate: bool) -> str:
        """The whole answer; `time` is the instant as JSON."""
        payment = "null" if payment_id is None else f'"{payment_id}"'
        duplicated = "true" if is_duplicate else "false"
        return (
            f'{{"id":"{number}","account_id":"{account_id}","payment_id":{payment},"duplicated":{duplicated},'
            f'{self.answer},"created_at":{time},"updated_at":{time}}}'
        )


class Reported(NamedTuple):
    """The fields have the names and the meaning of those of the facts."""

    made_on: date
    amount_minor: int
    status: TransactionStatus
    provider_ref: str | None
    end_to_end_id: str | None
    duplicated: bool | None
    statement: str | None
    balance_minor: int | None
    # The day on which the statement has it.
    booked_on: str | None
    fingerprint: str
    # Of the parts of one batch, the same for all of them in the delivery.
    batch: str | None
    # None if they are yet to be made.
    texts: Texts | None
    facts: Callable[[], TransactionFacts]


def reported(facts: TransactionFacts) -> Reported:
    booked_on = None if facts.statement is None else (facts.extra.get("posting_date") or facts.made_on).isoformat()
    return Reported(
        facts.made_on, facts.amount_minor, facts.status, facts.provider_ref, facts.end_to_end_id, facts.duplicated,
        facts.statement, None if facts.statement is None else facts.balance_minor, booked_on, fingerprint_of(facts),
        facts.batch, None, lambda: facts,
    )  # fmt: skip


def texts_of(facts: TransactionFacts) -> Texts:
    end_to_end_id, parsed, extra = parse_description(facts)
    text = encode(
        Transaction(
            id="",
            account_id="",
            payment_id=None,
            duplicated=False,
            mode=facts.mode,
            status=facts.status,
            made_on=facts.made_on,
            amount=from_minor(facts.amount_minor),
            currency_code=facts.currency_code,
            description=facts.description,
            description_parsed=parsed,
            category=facts.category,
            extra=extra,
            created_at=_NEVER,
            updated_at=_NEVER,
        )
    )
    return Texts(end_to_end_id, text[len(_HEAD) : -len(_TAIL)].decode())


def parse_description(facts: TransactionFacts) -> tuple[str | None, DescriptionParsed, TransactionExtra]:
    """Parses the description. Fields that the bank sent separately take precedence."""
    text, sent = purpose.parse(facts.description), facts.parsed
    parsed = [
        said if (own := sent.get(name)) is None else own
        for name, said in zip(DescriptionParsed.__struct_fields__, astuple(text), strict=False)
    ]
    end_to_end_id = facts.end_to_end_id or text.end_to_end_id
    extra = TransactionExtra(**{**facts.extra, "end_to_end_id": end_to_end_id})
    return end_to_end_id, DescriptionParsed(*parsed), extra


def fingerprint_of(facts: TransactionFacts) -> str:
    return fingerprint(facts.made_on, facts.amount_minor, facts.currency_code, facts.description, facts.end_to_end_id)


def fingerprint(
    made_on: date, amount_minor: int, currency_code: str, description: str, end_to_end_id: str | None
) -> str:
    """A digest of a booking's content that survives different line breaks."""
    content = (made_on.isoformat(), str(amount_minor), currency_code, _normalised(description), end_to_end_id or "")
    return hashlib.blake2b("\x1f".join(content).encode(), digest_size=16).hexdigest()


def _normalised(text: str) -> str:
    return "".join(text.split()).casefold()
