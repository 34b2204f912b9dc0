"""A call and its answer: what is sent, what is tried again, what an answer means. The same for both clients, which only wait differently.

`talk` is a generator: it yields what to do (send something, or pause), and gets back the response or the failure.
"""

from __future__ import annotations

import inspect
import os
import random
import re
import uuid
import warnings
from collections.abc import Generator, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import unquote

import httpx
import msgspec

from kontobahn_client.models.common import File
from kontobahn_client.transport.errors import ApiError, ApiWarning, NoAnswer, UnexpectedAnswer, error_of

# Of a call that is tried again: how often, and for how long in all it may pause.
RETRIES = 3
MAX_PAUSE_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 0.5
_ENCODER = msgspec.json.Encoder(decimal_format="number")
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="?next"?')
_WARNING = re.compile(r'299 \S+ "([^"]*)"')
_FILE_NAME = re.compile(r"filename\*=UTF-8''([^;]+)")


# A file to send: its content, or where it is. Of a path it is read part by part, and its name goes along.
FileBody = bytes | os.PathLike[str]


class Request(NamedTuple):
    """One call, ready to be sent."""

    method: str
    path: str
    query: dict[str, str]
    answer: Any
    body: Any = None
    file: FileBody | None = None
    idempotency_key: str | None = None


class Send(NamedTuple):
    method: str
    url: httpx.URL
    headers: dict[str, str]
    content: FileBody | None


class Pause(NamedTuple):
    seconds: float


Outcome = httpx.Response | httpx.TransportError | None
Talk = Generator[Send | Pause, Outcome, httpx.Response]


class Caller(NamedTuple):
    """The caller, and the service that is called."""

    url: httpx.URL
    headers: Mapping[str, str]
    quelle: str | None
    retries: int

    def __repr__(self) -> str:
        # The headers hold the key.
        return f"Caller({self.url})"


class Receipt(NamedTuple):
    """The cost of an answer, how many calls are left, and its name in the service's log."""

    credits: int
    # None where the service does not count.
    calls_left: int | None
    request_id: str | None
    # True if it is the stored answer to an earlier call with the same idempotency key.
    is_replay: bool
    # When the figures were asked for, if they are not of now.
    as_of: datetime | None = None


def receipt_of(response: httpx.Response) -> Receipt:
    headers = response.headers
    left = headers.get("ratelimit-remaining", "")
    return Receipt(
        credits=int(headers.get("x-credits-charged", "0")),
        calls_left=int(left) if left.isdigit() else None,
        request_id=headers.get("x-request-id"),
        is_replay=headers.get("idempotent-replayed") == "true",
        as_of=datetime.fromisoformat(as_of) if (as_of := headers.get("x-data-as-of")) else None,
    )


def advance(steps: Talk, outcome: Outcome = None) -> Send | Pause | httpx.Response:
    """Returns what to do next, or at the end the answer."""
    try:
        return steps.send(outcome)
    except StopIteration as end:
        answer: httpx.Response = end.value
        return answer


def talk(caller: Caller, request: Request) -> Talk:
    """Sends the request until there is an answer that is not to be tried again, and returns it. Raises what went wrong."""
    sent, paused = _prepare(caller, request), 0.0
    may_have_happened = False
    for attempt in range(caller.retries + 1):
        outcome = yield sent
        assert outcome is not None
        if isinstance(outcome, httpx.Response) and outcome.is_success:
            _pass_on_warnings(outcome)
            return outcome
        failure = _failure(outcome, may_have_happened)
        may_have_happened |= isinstance(failure, NoAnswer) and failure.may_have_happened
        pause = _pause_before_retry(request, outcome, failure, attempt)
        if pause is None or attempt == caller.retries or paused + pause > MAX_PAUSE_SECONDS:
            raise failure
        paused += pause
        yield Pause(pause)
    raise AssertionError("the last attempt returns or raises")


def _pass_on_warnings(response: httpx.Response) -> None:
    """Warns at the line that made the call, however deep below it we are."""
    texts = _WARNING.findall(response.headers.get("warning", ""))
    level, frame = 1, inspect.currentframe()
    while texts and frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "kontobahn_client":
        level, frame = level + 1, frame.f_back
    for text in texts:
        warnings.warn(text, ApiWarning, stacklevel=level)


def _prepare(caller: Caller, request: Request) -> Send:
    query = dict(request.query)
    if caller.quelle is not None:
        query.setdefault("quelle", caller.quelle)
    path = caller.url.raw_path.rstrip(b"/") + request.path.encode("ascii")
    url = caller.url.copy_with(raw_path=path)
    headers = {**caller.headers, "accept": "*/*"}
    if request.method in ("POST", "PUT"):
        # One key for all attempts: whatever got lost, the call is carried out once.
        headers["idempotency-key"] = request.idempotency_key or str(uuid.uuid4())
    content: FileBody | None = request.file
    if request.file is not None:
        headers["content-type"] = "application/octet-stream"
    elif request.body is not None:
        headers["content-type"] = "application/json"
        content = _ENCODER.encode(request.body)
    return Send(request.method, url.copy_merge_params(query) if query else url, headers, content)


def _failure(outcome: httpx.Response | httpx.TransportError, earlier: bool) -> ApiError | NoAnswer | UnexpectedAnswer:
    if isinstance(outcome, httpx.TransportError):
        never_sent = isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        words = str(outcome) or type(outcome).__name__
        return NoAnswer(f"The service did not answer: {words}", may_have_happened=earlier or not never_sent)
    try:
        body = msgspec.json.decode(outcome.content, type=dict[str, Any])
    except msgspec.DecodeError:
        body = None
    request_id = outcome.headers.get("x-request-id")
    if body is None or "error" not in body or outcome.status_code < 400:
        words = f"The service answered {outcome.status_code} with something that is not of the API."
        return UnexpectedAnswer(words, status=outcome.status_code, request_id=request_id)
    return error_of(outcome.status_code, body, request_id, _retry_after(outcome))


def _pause_before_retry(
    request: Request, outcome: httpx.Response | httpx.TransportError, failure: Exception, attempt: int
) -> float | None:
    """The pause before the next attempt; None if there must be none."""
    repeatable = request.method != "DELETE"
    if isinstance(failure, NoAnswer):
        # What never left may be sent again, whatever it is.
        again = repeatable or isinstance(outcome, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return _backoff(attempt) if again else None
    assert isinstance(outcome, httpx.Response)
    told = _retry_after(outcome)
    match outcome.status_code:
        case 429:  # refused before anything was done
            return _backoff(attempt) if told is None else told
        case 409:  # the first attempt is still running: the service says so by saying when to come back
            return told if repeatable else None
        case 502 | 503 | 504:
            return None if not repeatable else _backoff(attempt) if told is None else told
    return None


def _backoff(attempt: int) -> float:
    return FIRST_PAUSE_SECONDS * 2.0**attempt * random.uniform(0.5, 1.5)


def _retry_after(response: httpx.Response) -> float | None:
    text: str = response.headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"[0-9]{1,6}", text, re.ASCII) else None


def decoded(request: Request, response: httpx.Response) -> Any:
    """Returns the answer by its type."""
    if request.answer is File:
        name = _FILE_NAME.search(response.headers.get("content-disposition", ""))
        media_type = response.headers.get("content-type", "application/octet-stream")
        return File(response.content, unquote(name[1]) if name else "download", media_type)
    try:
        return msgspec.json.decode(response.content, type=request.answer)
    except msgspec.MsgspecError as error:
        request_id = response.headers.get("x-request-id")
        words = f"The answer to {request.method} {request.path} is not what this version of the client knows: {error}"
        raise UnexpectedAnswer(words, status=response.status_code, request_id=request_id) from error


def next_page(request: Request, response: httpx.Response, caller: Caller) -> Request | None:
    """The request for the page that the `Link` header names. Only its path and query count: the key goes nowhere else."""
    found = _NEXT.search(response.headers.get("link", ""))
    if found is None:
        return None
    url = httpx.URL(found[1])
    own = caller.url.path.rstrip("/") + request.path
    if url.path != own:
        raise UnexpectedAnswer(
            f"The next page of {request.path} is said to be at {url.path}.",
            status=response.status_code,
            request_id=response.headers.get("x-request-id"),
        )
    return request._replace(query=dict(url.params))
