"""Return codes in words: EBICS has six digits, of which most mean nothing to the person who reads them."""

from __future__ import annotations

from kontobahn.sentences import said

OK = "000000"
RECEIVED, NOT_RECEIVED = "011000", "011001"
NOTHING_THERE = "090005"
RESUME = "061101"
NO_RIGHT = "090003"
NEW_BANK_KEYS = "091008"
# The order went through, and the bank has something to add.
NOTICES = frozenset({OK, RECEIVED, NOT_RECEIVED, "011301", "031001"})
# The same may pass in a while.
PASSING = frozenset({"061099", "091119"})
# The bank does not know the user, has not activated or has locked it.
USER_STATE = frozenset({"091002", "091003", "091004"})
# The bank has no such order for us; it knew us well enough to say so.
NOT_OFFERED = frozenset({NO_RIGHT, "091005", "091006"})
# The keys that a request was signed with are not those that the bank has.
NOT_ACCEPTED = USER_STATE | {"061001"}
KNOWN_KEYS = "091218"
# The transaction is lost; a new one may begin.
LOST_TRANSACTION = frozenset({"091101", "091102", "091103", "091104", "091105", "011101"})

WORDS = {
    "061001": "The bank does not accept our signature: the keys that it has are not ours, or the user is not activated",
    "061002": "The bank does not understand the request",
    "061099": "The bank has a problem of its own",
    NO_RIGHT: "The bank has not given this user the right to this order",
    "090004": "The bank cannot read the order's data",
    NOTHING_THERE: "There is nothing new at the bank",
    "090006": "The bank does not do this with this order",
    "091001": "The bank hands this out to signers only",
    "091002": "The bank does not know this user, has not activated it, or has locked it",
    "091003": "The bank does not know this user",
    "091004": "The bank has not activated this user yet, or has locked it",
    "091005": "The bank does not know this kind of order",
    "091006": "The bank does not offer this kind of order",
    "091007": "The user may not sign this order",
    NEW_BANK_KEYS: "The bank has new keys, which somebody must compare first",
    "091009": "A part of the order is too large for the bank",
    "091010": "The bank cannot read the request",
    "091011": "The bank does not know this host id",
    "091101": "The bank no longer knows the transaction",
    "091102": "The bank has ended the transaction",
    "091103": "The bank takes the request for a repetition",
    "091111": "The signature of the order has a form that the bank does not read",
    "091112": "The bank does not accept the parameters of the order",
    "091113": "The bank does not accept the content of the request",
    "091114": "The bank does not know this order",
    "091115": "The bank has this order already",
    "091116": "The bank could not process the order",
    "091117": "The order is larger than the bank accepts",
    "091118": "The order has more parts than the bank accepts",
    "091119": "Too many transactions are open at the bank",
    "091120": "The signature belongs to another customer",
    "091121": "The bank does not accept this kind of signature for the order",
    "091201": "The bank does not support this version of the signature key",
    "091202": "The bank does not support this version of the authentication key",
    "091203": "The bank does not support this version of the encryption key",
    "091204": "The signature key has a length that the bank does not accept",
    "091205": "The authentication key has a length that the bank does not accept",
    "091206": "The encryption key has a length that the bank does not accept",
    "091207": "The bank does not support certificates",
    "091208": "The certificate has expired",
    "091209": "The certificate is not valid yet",
    "091210": "The certificate is for another purpose",
    "091217": "The bank takes keys with certificates only",
    KNOWN_KEYS: "The bank knows these keys already",
    "091219": "The bank does not accept the certificates",
    "091301": "The signature of the order is wrong",
    "091302": "The user may not use this account",
    "091303": "The amount is above the user's limit",
    "091304": "The bank does not know the signer",
    "091305": "The signer is not activated or locked",
    "091306": "This person has signed already",
}


def in_words(code: str, text: str = "") -> str:
    """Returns our sentence for a code, or the bank's words if it has none, always with the code."""
    words = WORDS.get(code) or text.strip().rstrip(".")[:200] or "The bank refused"
    return said("{words} ({code})", words=words, code=code)
