"""Every error that Kontobahn raises on purpose.

An error carries one sentence for the caller (``str(error)``) and, where it helps, one for the operator (``operator``),
which goes to the log and never on the wire. HTTP knows only this tree.

    KontobahnError
    ├── Refusal                    the caller must change something; nothing was written
    │   ├── BadRequest         400 malformed or missing input; names the field
    │   ├── Unauthorized       401 missing or invalid API key
    │   ├── OutOfCredits       402 benoetigt, verfuegbar
    │   ├── Forbidden          403 known, but not allowed
    │   ├── NotFound           404 not there, or another organisation's
    │   ├── MethodNotAllowed   405 allow
    │   ├── Conflict           409 contradicts the current state
    │   │   └── StillRunning       the first call with an idempotency key, or a large import; retry_after_seconds
    │   ├── TooLarge           413
    │   ├── WrongMediaType     415
    │   ├── DoesNotAddUp       422 amounts that must sum to another and do not; names both
    │   ├── KeyReused          422 an idempotency key with another body
    │   ├── Unreadable         422 a file that holds nothing of what it was sent for
    │   └── TooManyRequests    429
    ├── Unavailable            503 transient; retry_after_seconds
    │   ├── DatabaseUnavailable
    │   └── OutcomeUnknown         it may have been written
    └── SetupError                 the installation cannot work; one sentence says what to do
"""

# Choice 3: which status says what.

from __future__ import annotations

from typing import Any, ClassVar, Self

from kontobahn.sentences import said


class KontobahnError(Exception):
    """The root; ``extra`` holds the further fields of the error body."""

    status: ClassVar[int] = 500
    # A refusal is also the answer to repeats of the call, unless its cause can be removed meanwhile.
    is_final = True

    def __init__(self, message: str, /, *, operator: str | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.operator = operator
        self.extra = extra


class Refusal(KontobahnError):
    """The caller asked for something that will not be done."""

    def retryable(self) -> Self:
        """Marks that the same call may succeed later, so the refusal is not stored under its idempotency key."""
        self.is_final = False
        return self


class BadRequest(Refusal):
    status = 400


class Unauthorized(Refusal):
    status = 401


class OutOfCredits(Refusal):
    status = 402

    def __init__(self, *, benoetigt: int, verfuegbar: int) -> None:
        super().__init__(
            said(
                "Not enough credits: this call needs {needed}, {left} are available.", needed=benoetigt, left=verfuegbar
            ),
            benoetigt=benoetigt,
            verfuegbar=verfuegbar,
        )


class Forbidden(Refusal):
    status = 403


class NotFound(Refusal):
    status = 404


class MethodNotAllowed(Refusal):
    status = 405

    def __init__(self, allowed: tuple[str, ...]) -> None:
        super().__init__(said("This path takes {methods}.", methods=", ".join(allowed)))
        self.allowed = allowed


class Conflict(Refusal):
    status = 409


class StillRunning(Conflict):
    """Unlike other conflicts this one passes: the same call with the same key succeeds later, or gets the first one's answer."""

    is_final = False

    def __init__(self, message: str, *, retry_after_seconds: int = 1) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class TooLarge(Refusal):
    status = 413


class WrongMediaType(Refusal):
    status = 415


class DoesNotAddUp(Refusal):
    status = 422


class KeyReused(Refusal):
    status = 422


class Unreadable(Refusal):
    status = 422


class TooManyRequests(Refusal):
    status = 429

    def __init__(self, message: str, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(KontobahnError):
    """Something we depend on is down; the same call may succeed a little later."""

    status = 503

    def __init__(
        self, message: str, /, *, retry_after_seconds: int = 5, operator: str | None = None, **extra: Any
    ) -> None:
        super().__init__(message, operator=operator, **extra)
        self.retry_after_seconds = retry_after_seconds


class DatabaseUnavailable(Unavailable):
    def __init__(self, operator: str) -> None:
        # A call may have written something before, and a connection may be lost while it commits: more is not known.
        super().__init__(
            "The database cannot be reached at the moment.",
            operator=operator,
            message="Repeat the call. A write that carries an Idempotency-Key happens once, however often it is repeated.",
        )


class OutcomeUnknown(Unavailable):
    """The connection was lost while the database committed."""

    def __init__(self, operator: str) -> None:
        super().__init__(
            "The database did not answer. It is not known whether this was written: look before you send it again,"
            " or send it again with the same Idempotency-Key.",
            operator=operator,
        )


class SetupError(KontobahnError):
    """Raised at start or by a command: a setting, a file or a version that cannot work."""
