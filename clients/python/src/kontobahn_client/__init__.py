"""The Python client of Kontobahn: `Kontobahn` to be called, `AsyncKontobahn` to be awaited, `webhooks.verify` for what arrives."""

from kontobahn_client import models, webhooks
from kontobahn_client.client import AsyncKontobahn, Kontobahn
from kontobahn_client.transport.errors import (
    ApiError,
    ApiWarning,
    BadRequest,
    Conflict,
    Forbidden,
    KeyReused,
    KontobahnError,
    NoAnswer,
    NotFound,
    OutOfCredits,
    RateLimited,
    ServerError,
    TooLarge,
    Unauthorized,
    UnexpectedAnswer,
    WebhookError,
)

__all__ = [
    "ApiError",
    "ApiWarning",
    "AsyncKontobahn",
    "BadRequest",
    "Conflict",
    "Forbidden",
    "KeyReused",
    "Kontobahn",
    "KontobahnError",
    "NoAnswer",
    "NotFound",
    "OutOfCredits",
    "RateLimited",
    "ServerError",
    "TooLarge",
    "Unauthorized",
    "UnexpectedAnswer",
    "WebhookError",
    "models",
    "webhooks",
]
__version__ = "1.0.0"
