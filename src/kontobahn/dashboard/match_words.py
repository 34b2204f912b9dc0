"""Words for what reconciliation says: kinds of lines, classes of evidence, reasons; and a purpose with what was found in it marked."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from kontobahn.dashboard.words import N_, _
from kontobahn.reconciliation.wire import MatchProposal, MatchReason

STATES = {
    "proposed": (N_("to confirm"), "warn"),
    "open": (N_("unmatched"), "bad"),
    "matched": (N_("matched"), "good"),
    "ignored": (N_("left out"), "plain"),
    "booked": (N_("in the books"), "plain"),
}
KINDS = {
    "item": N_("Document"),
    "skonto": N_("Skonto"),
    "fee": N_("Fee"),
    "difference": N_("Difference"),
    "on_account": N_("On account"),
    "return": N_("Return"),
    "transfer": N_("Transfer between own accounts"),
    "ledger_account": N_("Ledger account"),
}
CLASSES = {
    "A1": N_("A payment that you ordered here"),
    "A2": N_("Number, amount and payer fit"),
    "A3": N_("Number and payer fit, less Skonto in time"),
    "A4": N_("Several numbers, and their sum fits"),
    "A5": N_("The return of a payment that was matched"),
    "B1": N_("The number fits, something else does not"),
    "B2": N_("A known payer, and one amount that fits"),
    "B3": N_("A known payer, and one sum that fits"),
    "B4": N_("Only a name, or a number with a slip"),
    "C": N_("Candidates, rules, transfers between own accounts"),
}
# The evidence that a proposal rests on, by the reason that says so, where the class does not tell.
_CAUSES = {
    "occasion": N_("The month or the object, the amount and the payer fit"),
    "everything": N_("Everything that is open, and the payer fits"),
    "credit_note": N_("The number fits, less a credit note"),
    "rule": N_("Proposed by one of your rules"),
    "own_account": N_("A transfer between your own accounts"),
}
_REASONS = {
    "number": N_("number %(value)s"),
    "number_labelled": N_("%(value)s, which the text calls something else"),
    "number_shared": N_("others have the number %(value)s too"),
    "amount": N_("the open amount"),
    "amount_less_skonto": N_("the open amount less Skonto"),
    "amount_only": N_("only the amount"),
    "sum": N_("the exact sum"),
    "part": N_("a part of it"),
    "over": N_("more than is open"),
    "occasion": N_("it says “%(value)s”"),
    "everything": N_("all %(value)s open documents"),
    "credit_note": N_("less credit note %(value)s"),
    "named_before": N_("an earlier payment names %(value)s too"),
    "paid_before": N_("%(value)s is paid already"),
    "other_direction": N_("the money goes the other way"),
    "skonto_late": N_("Skonto, but too late"),
    "twins": N_("%(value)s items of the same amount"),
    "iban": N_("IBAN …%(value)s"),
    "iban_seen": N_("IBAN seen before …%(value)s"),
    "mandate": N_("mandate %(value)s"),
    "customer_number": N_("customer number %(value)s"),
    "name": N_("name %(value)s"),
    "end_to_end_id": N_("your order %(value)s"),
    "return_of": N_("return of transaction %(value)s"),
    "reference": N_("reference %(value)s"),
    "own_account": N_("your own account …%(value)s"),
    "other_side": N_("its other side is transaction %(value)s"),
    "rule": N_("one of your rules"),
}
_MAX_SHOWN = 60


def evidence(proposal: MatchProposal) -> str:
    causes = [_CAUSES[found.signal] for found in proposal.reasons if found.signal in _CAUSES]
    if causes:
        return _(causes[0])
    return _(CLASSES[proposal.evidence_class]) if proposal.evidence_class != "C" else _("One of several candidates")


def reason(found: MatchReason) -> str:
    words = _REASONS.get(found.signal)
    value = found.value[:_MAX_SHOWN]
    return _(words, value=value) if words else _("similar number %(value)s", value=value)


def marked(text: str, reasons: Sequence[MatchReason]) -> Markup:
    """The purpose, with the places marked that reasons point to."""
    spans = sorted({(it.start, it.end) for it in reasons if it.field == "svwz" and it.start is not None and it.end})
    parts, at = [], 0
    for start, end in spans:
        if at <= (start or 0) < (end or 0) <= len(text):
            parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
            at = end or 0
    return Markup("").join([*parts, escape(text[at:])])
