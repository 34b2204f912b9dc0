"""The bank's own codes for the state of a payment (ISO 20022), as the statuses of the contract. Pure data."""

from __future__ import annotations

from kontobahn.banking.model import PaymentStatus

# Choice 27: what a code means once the payer has authorised. One that is not here says neither success nor failure.
AFTER_AUTHORISATION: dict[str, PaymentStatus] = {
    "RCVD": "authorized",
    "PDNG": "processing",
    "PATC": "authorizing",
    "ACTC": "authorized",
    "ACCP": "authorized",
    "ACFC": "authorized",
    "ACWC": "authorized",
    "ACSP": "processing",
    "BLCK": "processing",
    "ACWP": "executed",
    "ACSC": "executed",
    "ACCC": "settled",
    "RJCT": "rejected",
    "CANC": "failed",
}
BEFORE_AUTHORISATION: dict[str, PaymentStatus] = {
    **AFTER_AUTHORISATION,
    "RCVD": "initiated",
    "PDNG": "authorizing",
    "ACTC": "authorizing",
    "ACCP": "authorizing",
    "ACFC": "authorizing",
    "ACWC": "authorizing",
}
