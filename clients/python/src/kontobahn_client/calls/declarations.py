"""Declarations of calls: `@get(path)` on a signature, which is a plain method of one client and an awaited one of the other.

A parameter named in the path goes there; `body` and `file` are what is sent; `idempotency_key` is a header; all others are the query.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import date
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload
from urllib.parse import quote

from kontobahn_client.transport.connections import AsyncConnection, Connection
from kontobahn_client.transport.exchange import Request

P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")
_NOT_QUERY = ("self", "body", "file", "idempotency_key")


class Declared(Generic[P, A]):
    """Turns arguments into a request; shared by both kinds of declaration."""

    def __init__(self, method: str, path: str, function: Callable[Concatenate[Any, P], A]) -> None:
        self.method = method
        self.path = path
        self.function = function
        self.signature = inspect.signature(function)
        self.__doc__ = function.__doc__

    @functools.cached_property
    def answer(self) -> Any:
        return get_type_hints(self.function)["return"]

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request:
        given = self.signature.bind(None, *args, **kwargs).arguments
        path, query = self.path, dict[str, str]()
        for name, value in given.items():
            if "{" + name + "}" in self.path:
                path = path.replace("{" + name + "}", quote(str(value), safe=""))
            elif name not in _NOT_QUERY and value is not None:
                query[name] = _text(value)
        if any(part in ("", ".", "..") for part in path.split("/")[1:]):
            raise ValueError(f"A part of the path {self.path} is empty or a dot.")
        return Request(
            self.method, path, query, self.answer, given.get("body"), given.get("file"), given.get("idempotency_key")
        )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


class Call(Declared[P, A]):
    @overload
    def __get__(self, client: None, owner: object) -> Call[P, A]: ...
    @overload
    def __get__(self, client: Connection, owner: object) -> Callable[P, A]: ...
    @overload
    def __get__(self, client: AsyncConnection, owner: object) -> Callable[P, Awaitable[A]]: ...
    def __get__(self, client: Any, owner: object) -> Any:
        if client is None:
            return self

        @functools.wraps(self.function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self.request(*args, **kwargs))

        return call


class Pages(Declared[P, A], Generic[P, A, T]):
    """A list that comes in pages."""

    def __init__(self, path: str, item: type[T], walking: dict[str, Any], function: Callable[..., A]) -> None:
        super().__init__("GET", path, function)
        self.item = item
        # The query of a walk through all pages, unless the caller says otherwise.
        self.walking = walking

    @overload
    def __get__(self, client: None, owner: object) -> Pages[P, A, T]: ...
    @overload
    def __get__(self, client: Connection, owner: object) -> BoundPages[P, A, T]: ...
    @overload
    def __get__(self, client: AsyncConnection, owner: object) -> AsyncBoundPages[P, A, T]: ...
    def __get__(self, client: Any, owner: object) -> Any:
        if client is None:
            return self
        return AsyncBoundPages(self, client) if isinstance(client, AsyncConnection) else BoundPages(self, client)

    def walk_request(self, *args: P.args, **kwargs: P.kwargs) -> Request:
        request = self.request(*args, **kwargs)
        for name, value in self.walking.items():
            if request.query.setdefault(name, str(value)) != str(value) and name == "sort":
                raise ValueError(f"A walk through all pages goes with sort={value!r} only.")
        return request


class BoundPages(Generic[P, A, T]):
    """A list of a client: called, it is one page; `iterate` walks all of them."""

    def __init__(self, pages: Pages[P, A, T], client: Connection) -> None:
        self._pages, self._client = pages, client
        self.__doc__ = pages.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> A:
        answer: A = self._client.send(self._pages.request(*args, **kwargs))
        return answer

    def iterate(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        """Every row of every page, each page asked for when the one before is used up: a call that costs its price each time."""
        request: Request | None = self._pages.walk_request(*args, **kwargs)
        while request is not None:
            answer, request = self._client.send_for_page(request)
            yield from answer.data


class AsyncBoundPages(Generic[P, A, T]):
    """The same, awaited."""

    def __init__(self, pages: Pages[P, A, T], client: AsyncConnection) -> None:
        self._pages, self._client = pages, client
        self.__doc__ = pages.__doc__

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> A:
        answer: A = await self._client.send(self._pages.request(*args, **kwargs))
        return answer

    async def iterate(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """Every row of every page, each page asked for when the one before is used up: a call that costs its price each time."""
        request: Request | None = self._pages.walk_request(*args, **kwargs)
        while request is not None:
            answer, request = await self._client.send_for_page(request)
            for row in answer.data:
                yield row


def get(path: str) -> Callable[[Callable[Concatenate[Any, P], A]], Call[P, A]]:
    return lambda function: Call("GET", path, function)


def post(path: str) -> Callable[[Callable[Concatenate[Any, P], A]], Call[P, A]]:
    return lambda function: Call("POST", path, function)


def put(path: str) -> Callable[[Callable[Concatenate[Any, P], A]], Call[P, A]]:
    return lambda function: Call("PUT", path, function)


def delete(path: str) -> Callable[[Callable[Concatenate[Any, P], A]], Call[P, A]]:
    return lambda function: Call("DELETE", path, function)


def pages(path: str, item: type[T], **walking: Any) -> Callable[[Callable[Concatenate[Any, P], A]], Pages[P, A, T]]:
    return lambda function: Pages(path, item, walking, function)
