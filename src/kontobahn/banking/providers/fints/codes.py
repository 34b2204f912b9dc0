"""What a bank's return codes mean for a connection. Banks add numbers of their own, so what is not here is judged by its class."""

from __future__ import annotations

from collections.abc import Sequence

from kontobahn.banking.provider import LOCKED, PersonNeeded, ProviderDown, ProviderRefused

# (code, text) as the bank sent them.
Codes = Sequence[tuple[str, str]]

# In this order: a locked access is also one whose PIN was wrong. No machine may try again after any of the first three lines.
_CLASSES: tuple[tuple[str, frozenset[str]], ...] = (
    (LOCKED, frozenset({"3931", "3938", "9930", "9931"})),
    ("InvalidCredentials", frozenset({"9340", "9910", "9942"})),
    ("InvalidInteractiveCredentials", frozenset({"9941", "9943"})),
    ("InteractiveTimeout", frozenset({"9951"})),
)
# The bank wants a strong confirmation, or to know this installation anew: with the person there, both are done by reconnecting.
_NEEDS_PERSON = frozenset({"9075", "9391"})
_NOT_REGISTERED = frozenset({"3078", "9078"})
_MAINTENANCE = frozenset({"9997"})


def is_failure(code: str) -> bool:
    """Whether a code is an error, or a warning that says the access is locked."""
    return code.startswith("9") or code in _CLASSES[0][1]


def failure(codes: Codes) -> Exception:
    """Returns what to raise for an answer with these codes."""
    present = {code for code, _ in codes}
    said = _said(codes)
    for error_class, members in _CLASSES:
        if present & members:
            return ProviderRefused(error_class, said, ", ".join(sorted(present & members)))
    if present & _NEEDS_PERSON:
        return PersonNeeded(said)
    if present & _NOT_REGISTERED:
        return ProviderRefused("ProviderError", f"The bank does not accept the product id (fints_product_id): {said}")
    if present & _MAINTENANCE:
        return ProviderDown(f"The bank is being maintained: {said}.")
    return ProviderRefused("ProviderError", said, ", ".join(sorted(code for code in present if is_failure(code))))


def _said(codes: Codes) -> str:
    """The bank's words about the failure, without those that only say that there was one."""
    failures = [(code, text) for code, text in codes if is_failure(code)]
    special = [item for item in failures if item[0] not in ("9050", "9800")] or failures
    return "; ".join(f"{text.strip().rstrip('.')} ({code})" for code, text in special)[:500] or "The bank refused"
