"""A booking as it was reported, and what takes long about it: how it is recognised, and the text of its answer.

None of it needs the database, so a long import makes it before its transaction, for which others wait.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import NamedTuple

from kontobahn.banking.provider import TransactionFacts, TransactionStatus
from kontobahn.banking.transactions.wire import DescriptionParsed, Transaction, TransactionExtra
from kontobahn.formats import purpose
from kontobahn.json_text import encode
from kontobahn.money import from_minor

_BLANKS = re.compile(r"\s+")
_NEVER = datetime.min.replace(tzinfo=UTC)
# What stands around the text of an answer while it is not stored yet.
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
    # None if they are yet to be made.
    texts: Texts | None
    facts: Callable[[], TransactionFacts]


def reported(facts: TransactionFacts) -> Reported:
    booked_on = None if facts.statement is None else (facts.extra.get("posting_date") or facts.made_on).isoformat()
    return Reported(
        facts.made_on, facts.amount_minor, facts.status, facts.provider_ref, facts.end_to_end_id, facts.duplicated,
        facts.statement, None if facts.statement is None else facts.balance_minor, booked_on, fingerprint_of(facts), None,
        lambda: facts,
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
    text = purpose.parse(facts.description)
    parsed = {name: getattr(text, name) for name in DescriptionParsed.__struct_fields__}
    parsed |= {name: value for name, value in facts.parsed.items() if value is not None and name in parsed}
    end_to_end_id = facts.end_to_end_id or text.end_to_end_id
    extra = TransactionExtra(**{**facts.extra, "end_to_end_id": end_to_end_id})
    return end_to_end_id, DescriptionParsed(**parsed), extra


def fingerprint_of(facts: TransactionFacts) -> str:
    return fingerprint(facts.made_on, facts.amount_minor, facts.currency_code, facts.description, facts.end_to_end_id)


def fingerprint(
    made_on: date, amount_minor: int, currency_code: str, description: str, end_to_end_id: str | None
) -> str:
    """A digest of a booking's content that survives different line breaks."""
    content = (made_on.isoformat(), str(amount_minor), currency_code, _normalised(description), end_to_end_id or "")
    return hashlib.blake2b("\x1f".join(content).encode(), digest_size=16).hexdigest()


def _normalised(text: str) -> str:
    return _BLANKS.sub("", text).casefold()
