"""Structured logs: one JSON object per line on standard error. Secrets are removed, by field name and by their form."""

from __future__ import annotations

import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_SECRET_NAMES = re.compile(r"(^|_)(password|secret|token|api_?key|authorization|cookie|pin|tan)$", re.IGNORECASE)
_SECRET_VALUES = re.compile(
    r"\b(kb_(?:live|sess|inv|reset|chl)_[0-9A-Za-z]{4})[0-9A-Za-z]+|\b(whsec_)[0-9A-Za-z+/=]+|(://[^:/@\s]+:)[^@\s]+@"
)


class _State:
    threshold = LEVELS["info"]
    stream: TextIO | None = None


def configure(level: str, stream: TextIO | None = None) -> None:
    _State.threshold = LEVELS[level]
    _State.stream = stream


def info(event: str, **fields: Any) -> None:
    _write("info", event, fields)


def warning(event: str, **fields: Any) -> None:
    _write("warning", event, fields)


def error(event: str, **fields: Any) -> None:
    _write("error", event, fields)


def exception(event: str, failure: BaseException, **fields: Any) -> None:
    """An unexpected failure with its traceback, for the operator."""
    trace = "".join(traceback.format_exception(failure))
    _write("error", event, {**fields, "exception": type(failure).__name__, "traceback": trace})


def redact(text: str) -> str:
    return _SECRET_VALUES.sub(_harmless_part, text)


def _harmless_part(match: re.Match[str]) -> str:
    key, webhook_secret, url_user = match.groups()
    if url_user:
        return f"{url_user}…@"
    return f"{key or webhook_secret}…"


def _clean(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name):
        return "…"
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {str(key): _clean(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(name, item) for item in value]
    return value


def _write(level: str, event: str, fields: dict[str, Any]) -> None:
    if LEVELS[level] < _State.threshold:
        return
    record = {"at": datetime.now(UTC), "level": level, "event": event}
    record.update((name, _clean(name, value)) for name, value in fields.items())
    line = msgspec.json.encode(record, enc_hook=str).decode("utf-8", "replace")
    stream = _State.stream or sys.stderr
    stream.write(line + "\n")
    stream.flush()
