"""What happens to a payment at the sandbox bank, chosen by the creditor's name or the amount: a table. Pure."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.banking.provider import Template

HOUR_SECONDS, DAY_SECONDS = 3600, 86_400


class Step(NamedTuple):
    """One thing the bank does after the payer has confirmed."""

    after_seconds: int
    # None: nothing is reported.
    status: str | None
    raw_status: str = ""
    error_class: str | None = None
    error_message: str | None = None
    # Whether the debit is booked on the payer's account, and whether the bank announces new data.
    books_debit: bool = False
    notifies: bool = False
    # Only reported: asked directly, the bank gives the true status.
    is_untrue: bool = False


_PROCESSING = Step(0, "processing", "ACSP")
_SETTLED = Step(5, "settled", "ACCC", books_debit=True)
_RETURNED = ("PaymentFailed", "The receiving bank sent the payment back.")


class Plan(NamedTuple):
    name: str
    about: str
    steps: tuple[Step, ...] = (_PROCESSING, _SETTLED)
    # One more confirmation is required after the login: initiated_info_required.
    needs_extra_confirmation: bool = False
    # Every report is delivered twice, under two ids.
    repeats: bool = False
    # What happens to the call that creates it.
    creation: str = "answered"


PLANS = {
    plan.name: plan
    for plan in (
        Plan("usual", "authorizing, processing, settled after 5 seconds; the debit is booked with it"),
        Plan("at_once", "settled as soon as the payer has confirmed; so is every SEPA_INSTANT payment",
             (Step(0, "settled", "ACCC", books_debit=True),)),
        Plan("tan", "initiated_info_required until the TAN is entered, then as usual", needs_extra_confirmation=True),
        Plan("rejected", "rejected (RJCT) after the payer has confirmed",
             (Step(0, "rejected", "RJCT", "PaymentFailed", "The bank refused the payment."),)),
        Plan("refused", "the bank refuses the order at once: rejected (RJCT), there is no payment page", creation="refused"),
        Plan("returned", "executed, and failed an hour later",
             (_PROCESSING, Step(5, "executed", "ACSC"), Step(HOUR_SECONDS, "failed", "RJCT", *_RETURNED))),
        Plan("executed", "stops at executed (ACSC); a day later its debit is booked, which settles it",
             (_PROCESSING, Step(5, "executed", "ACSC"), Step(DAY_SECONDS, None, books_debit=True, notifies=True))),
        Plan("lost_answer", "the call to create it ends without an answer, though the bank has it",
             creation="created, no answer"),
        Plan("lost_order", "the call to create it ends without an answer, and the bank does not have it",
             creation="not created, no answer"),
        Plan("contradiction", "settled, and afterwards a report that it failed",
             (_PROCESSING, _SETTLED, Step(1, "failed", "RJCT", *_RETURNED, is_untrue=True))),
        Plan("repeats", "every report is delivered twice", repeats=True),
        Plan("disorder", "settled is reported first, then processing, then authorized",
             (Step(0, "settled", "ACCC", books_debit=True), Step(0, "processing", "ACSP", is_untrue=True),
              Step(0, "authorized", "ACTC", is_untrue=True))),
        Plan("unknown", "an unknown status (on_hold, BLCK), settled ten seconds later",
             (Step(0, "on_hold", "BLCK"), Step(10, "settled", "ACCC", books_debit=True))),
    )
}  # fmt: skip
# Creditors with this first word, and amounts from 13.01 on, choose a plan in the order of the table.
CREDITOR_WORD = "sandbox"
FIRST_AMOUNT_MINOR = 13_00


def amount_of(name: str) -> int:
    """Returns the amount in cents that chooses a plan."""
    return FIRST_AMOUNT_MINOR + list(PLANS).index(name)


def choose(creditor_name: str, amount_minor: int, template: Template) -> Plan:
    word, _, rest = creditor_name.strip().lower().partition(" ")
    name = rest.strip().replace(" ", "_").replace("-", "_")
    if word == CREDITOR_WORD and name in PLANS:
        return PLANS[name]
    names = list(PLANS)
    position = amount_minor - FIRST_AMOUNT_MINOR
    if 0 < position < len(names):
        return PLANS[names[position]]
    return PLANS["at_once" if template == "SEPA_INSTANT" else "usual"]
