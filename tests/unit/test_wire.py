"""Typed input: exact money, and messages that name the field wherever it lies."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kontobahn.api.declare import collect
from kontobahn.api.server import Routes
from kontobahn.api.wire import Body, BodyDecoder, Query, QueryDecoder
from kontobahn.errors import BadRequest
from kontobahn.json_text import encode
from tests.unit import sample_endpoints


class Line(Body):
    betrag: Decimal
    skonto: Decimal | None = None


class Entry(Body):
    betrag: Decimal
    zeilen: list[Line]
    felder: dict[str, Any] | None = None


class Search(Query):
    from_id: int | None = None
    geschaeftsjahr_start_datum: str | None = None


DECODER = BodyDecoder(Entry)


def test_money_is_exact_from_the_wire_and_back() -> None:
    entry = DECODER.decode(b'{"betrag": 0.3, "zeilen": [{"betrag": 0.1}, {"betrag": "0.20", "skonto": 1e1}]}')
    assert isinstance(entry, Entry)
    assert sum(line.betrag for line in entry.zeilen) == entry.betrag
    assert encode(entry.zeilen) == b'[{"betrag":0.10,"skonto":null},{"betrag":0.20,"skonto":10.00}]'


@pytest.mark.parametrize(
    ("body", "message", "field"),
    [
        (b'{"betrag": 1.001, "zeilen": []}', "The field `betrag` must have at most two decimals.", "betrag"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1}, {"betrag": 1e400}]}', "must lie between", "zeilen[1].betrag"),
        (b'{"betrag": "NaN", "zeilen": []}', "`betrag` must be a finite number", "betrag"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1, "skonto": 0.005}]}', "`zeilen[0].skonto`", "zeilen[0].skonto"),
        (b'{"betrag": 1, "zeilen": [{}]}', "`zeilen[0].betrag` is required", "zeilen[0].betrag"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1, "scnto": 1}]}', "Did you mean `skonto`?", "zeilen[0].scnto"),
        (b'{"betrag": true, "zeilen": []}', "`betrag` must be a number, not a boolean", "betrag"),
        (b'{"betrag": 1, "zeilen": {}}', "`zeilen` must be an array, not an object", "zeilen"),
        (b'{"betrag": 1, "zeilen": [], "felder": {"a": {"b": ["x\\u0000"]}}}', "contains a NUL", "felder.a.b[0]"),
        (b'{"betrag": 1, "zeilen": [], "felder": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, "nested too", None),
        (b'{"betrag": 1, "zeilen": [], "felder": {"a": 1e400}}', "felder", "felder[...]"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field(body: bytes, message: str, field: str | None) -> None:
    with pytest.raises(BadRequest) as refusal:
        DECODER.decode(body)
    assert message in str(refusal.value)
    assert refusal.value.extra.get("field") == field


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    entry = DECODER.decode(b'{"betrag": 1, "zeilen": [], "felder": {"a": "\\\\u0000"}}')
    assert isinstance(entry, Entry)
    assert entry.felder == {"a": "\\u0000"}


def test_query_names_match_whatever_their_case_and_underscores() -> None:
    decoder = QueryDecoder(Search)
    for name in (b"from_id", b"fromId", b"FROMID", b"From_Id"):
        decoded = decoder.decode(name + b"=7")
        assert isinstance(decoded, Search)
        assert decoded.from_id == 7


def test_a_number_that_says_null_is_no_missing_filter() -> None:
    with pytest.raises(BadRequest, match="`from_id` must not be null"):
        QueryDecoder(Search).decode(b"from_id=null")


def test_paths_with_parameters_are_told_apart() -> None:
    routes = Routes(collect(sample_endpoints))
    found = routes.find("/v2/things/7/parts")
    assert found is not None
    assert (set(found[0]), found[1]) == ({"GET"}, {"id": "7"})
    plain = routes.find("/v2/things/changes")
    assert plain is not None
    assert plain[0]["GET"].summary == "A plain path wins over a parameter."
    by_id = routes.find("/v2/things/8")
    assert by_id is not None
    assert (set(by_id[0]), by_id[1]) == ({"GET", "DELETE"}, {"id": "8"})
    assert routes.find("/v2/things//parts") is None
    assert routes.find("/v2/things/7/8/9") is None


def test_an_endpoint_is_declared_once() -> None:
    endpoints = collect(sample_endpoints)
    with pytest.raises(ValueError, match="declared twice"):
        Routes([*endpoints, endpoints[0]])
