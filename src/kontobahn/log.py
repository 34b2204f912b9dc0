"""Structured logs on standard error: one JSON object per line, or a line for people at a terminal. Secrets are removed, by
field name and by their form.

Logging never fails and never waits for long: a line that cannot be written is counted, and the next that can says how many were lost.
"""

from __future__ import annotations

import os
import re
import select
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_SECRET_NAMES = re.compile(r"(^|_)(password|secret|token|api_?key|authorization|cookie|pin|tan)$", re.IGNORECASE)
_SECRET_VALUES = re.compile(
    r"\b(kb_(?:live|sess|inv|reset|chl)_[0-9A-Za-z]{4})[0-9A-Za-z]+|\b(whsec_)[0-9A-Za-z+/=]+|(://[^:/@\s]+:)[^@\s]+@"
)


MAX_TEXT = 8_000
# A pipe that says it can be written takes this much at once.
_PIPE_BYTES = 4096
# The time that a reader who is behind may keep us waiting, once; while it stays behind, lines are lost without waiting.
_PATIENCE_MILLISECONDS = 50
Form = Literal["auto", "text", "json"]
_COLOURS = {"debug": "2", "info": "36", "warning": "33", "error": "31"}
_OF_STATUS = {2: "32", 3: "36", 4: "33", 5: "31"}
# Fields that a line about a call shows in columns of its own, or leaves out because it stands in another field.
_OF_CALL = ("at", "level", "event", "status", "milliseconds", "method", "path", "endpoint")


class _State:
    threshold = LEVELS["info"]
    stream: TextIO | None = None
    lost = 0
    reader_is_behind = False
    form: Form = "auto"
    # The stream that was last looked at, and whether it is a terminal: asking the system takes longer than a call may.
    looked_at: TextIO | None = None
    is_terminal = False


def configure(level: str, stream: TextIO | None = None, *, form: Form = "auto") -> None:
    _State.threshold = LEVELS[level]
    _State.stream = stream
    _State.form = form


def is_for_people() -> bool:
    """Returns whether lines are for a person: at a terminal, unless a setting says otherwise."""
    if _State.form != "auto":
        return _State.form == "text"
    stream = _State.stream or sys.stderr
    if _State.looked_at is not stream:
        _State.looked_at, _State.is_terminal = stream, _is_terminal(stream)
    return _State.is_terminal


def lowest_status(setting: str) -> int:
    """Returns from which status on a call gets a line. A person at a terminal wants to see each one."""
    if setting == "auto":
        setting = "all" if is_for_people() else "failed"
    return {"all": 0, "failed": 500}.get(setting, sys.maxsize)


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


def debug_exception(event: str, failure: BaseException) -> None:
    """The same for those who asked to see more; others get a sentence elsewhere."""
    if LEVELS["debug"] >= _State.threshold:
        exception(event, failure)


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
        return redact(value if len(value) <= MAX_TEXT else f"{value[: MAX_TEXT // 2]} … {value[-MAX_TEXT // 2 :]}")
    if isinstance(value, dict):
        return {str(key): _clean(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(name, item) for item in value]
    return value


def _write(level: str, event: str, fields: dict[str, Any]) -> None:
    if LEVELS[level] < _State.threshold:
        return
    try:
        if _State.lost:
            _put(_line("warning", "log_lines_lost", {"lines": _State.lost}))
            _State.lost = 0
        _put(_line(level, event, fields))
    except Exception:
        # A full disk, a reader that has gone: whatever is wrong with the log, the work goes on.
        _State.lost += 1


def _line(level: str, event: str, fields: dict[str, Any]) -> str:
    record = {"at": datetime.now(UTC), "level": level, "event": event}
    record.update((name, _clean(name, value)) for name, value in fields.items())
    return (_for_people(record) if is_for_people() else _as_json(record)) + "\n"


def _put(line: str) -> None:
    stream = _State.stream or sys.stderr
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError, ValueError):
        # Not a file of the system's: a test's, or none at all.
        stream.write(line)
        stream.flush()
        return
    left = line.encode()
    while left:
        # A reader that has stopped reading must not stop us too.
        patience = 0 if _State.reader_is_behind else _PATIENCE_MILLISECONDS
        _State.reader_is_behind = not _can_write(descriptor, patience)
        if _State.reader_is_behind:
            raise BlockingIOError("the reader of the log is behind")
        left = left[os.write(descriptor, left[:_PIPE_BYTES]) :]


def _can_write(descriptor: int, milliseconds: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    return bool(waiting.poll(milliseconds))


def _as_json(record: dict[str, Any]) -> str:
    return msgspec.json.encode(record, enc_hook=str).decode("utf-8", "replace")


def _for_people(record: dict[str, Any]) -> str:
    """One line: the time here, what happened, and the fields; below it a traceback, if there is one."""
    coloured = (
        _is_terminal(_State.stream or sys.stderr)
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )

    def paint(text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if coloured else text

    parts = [paint(record["at"].astimezone().strftime("%H:%M:%S"), "2")]
    shown: tuple[str, ...] = ("at", "level", "event", "traceback")
    if record["event"] == "call":
        shown = _OF_CALL
        parts.append(paint(str(record["status"]), _OF_STATUS.get(record["status"] // 100, "0")))
        parts.append(f"{record['milliseconds']:>8.1f} ms  {_visible(record['method']):<6} {_visible(record['path'])}")
    else:
        parts.append(f"{paint(record['level'].ljust(7), _COLOURS[record['level']])}  {record['event']}")
    rest = [f"{name}={_visible(value)}" for name, value in record.items() if name not in shown and value is not None]
    if rest:
        parts.append(paint(" ".join(rest), "2"))
    trace = str(record.get("traceback", "")).splitlines()
    return "\n".join(["  ".join(parts), *(f"    {_visible(line)}" for line in trace)])


def _visible(value: Any) -> str:
    """A caller chooses some of these texts: none of them may control the terminal."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, OSError, ValueError):
        return False
