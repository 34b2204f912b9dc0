"""Typed input: exact money, and messages that name the field wherever it lies."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from kontobahn.api.declare import collect
from kontobahn.api.exchange import Routes
from kontobahn.api.wire import Body, BodyDecoder, Query, QueryDecoder
from kontobahn.errors import BadRequest, TooLarge
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
    entry = DECODER.decode(b'{"betrag": 0.3, "zeilen": [{"betrag": 0.1}, {"betrag": 0.20, "skonto": 1e1}]}')
    assert isinstance(entry, Entry)
    assert sum(line.betrag for line in entry.zeilen) == entry.betrag
    assert encode(entry.zeilen) == b'[{"betrag":0.10,"skonto":null},{"betrag":0.20,"skonto":10.00}]'


@pytest.mark.parametrize(
    ("body", "message", "field"),
    [
        (b'{"betrag": 1.001, "zeilen": []}', "The field `betrag` must have at most two decimals.", "betrag"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1}, {"betrag": 1e400}]}', "must lie between", "zeilen[1].betrag"),
        (b'{"betrag": "NaN", "zeilen": []}', "`betrag` must be a finite number", "betrag"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1}, {"betrag": "1"}]}', "must be a number, not a string", "zeilen[1].betrag"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1, "skonto": "1"}]}', "must be a number, not a string", "zeilen[0].skonto"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1, "skonto": 0.005}]}', "`zeilen[0].skonto`", "zeilen[0].skonto"),
        (b'{"betrag": 1, "zeilen": [{}]}', "`zeilen[0].betrag` is required", "zeilen[0].betrag"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1, "scnto": 1}]}', "Did you mean `skonto`?", "zeilen[0].scnto"),
        (b'{"betrag": true, "zeilen": []}', "`betrag` must be a number, not a boolean", "betrag"),
        (b'{"betrag": 1, "zeilen": {}}', "`zeilen` must be an array, not an object", "zeilen"),
        (b'{"betrag": 1, "zeilen": [], "felder": {"a": {"b": ["x\\u0000"]}}}', "contains a NUL", "felder.a.b[0]"),
        (b'{"betrag": 1, "zeilen": [], "felder": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, "nested too", None),
        (b'{"betrag": 1, "zeilen": [], "felder": {"a": 1e400}}', "felder", "felder[...]"),
        (b'{"betrag": 1e99999999, "zeilen": []}', "`betrag` must lie between", "betrag"),
        (b'{"betrag": 1e-99999999, "zeilen": []}', "`betrag` must have at most two decimals", "betrag"),
        (b'{"betrag": 1, "zeilen": [], "felder": {"a\\u0000": 1}}', "contains a NUL", "felder.(a key)"),
        (b'{"betrag": 1, "zeilen": [], "felder": ' + b'{"a":' * 500 + b'"\\u0000"' + b"}" * 501, "nested too", None),
        (b'{"betrag": 1, "zeilen": [], "felder": ' + b'{"a":' * 99 + b'"\\u0000"' + b"}" * 100, "NUL", ("felder" + ".a" * 99)[:200]),
        (b'{"betrag": 1, "zeilen": [], "felder": {"a": [%s1]}}' % (b"[]," * 50_000), "50000 objects and arrays", None),
        (b'{"betrag": 1, "betrag": 2, "zeilen": []}', "`betrag` is given twice", "betrag"),
        (b'{"betrag": 1, "zeilen": [], "zeilen" : []}', "`zeilen` is given twice", "zeilen"),
        (b'{"betrag": 1, "zeilen": [], "felder": {"x": {"a": "b:c", "\\u0061": 2}}}', "`a` is given twice", "a"),
        (b'{"betrag": 1, "zeilen": [{"betrag": 1, "skonto": 1, "skonto": 2}]}', "`skonto` is given twice", "skonto"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field(body: bytes, message: str, field: str | None) -> None:
    with pytest.raises(BadRequest) as refusal:
        DECODER.decode(body)
    assert message in str(refusal.value)
    assert refusal.value.extra.get("field") == field


@pytest.mark.parametrize(
    "felder",
    [
        {"a": 'x": y', "b": 'says "a": 1', "c": "18:00:00", "d": {"a": 1, "b": {"a": [{"a": 1}, {"a": 2}]}}},
        {'a": ': 1, 'a": b': {"": {"": 1}}, "\\": "\\", '\\"': ":", "ü:": "ü"},
        {"tief": [[[[[[[[[[1]]]]]]]]]], "leer": {}, "nichts": None},
    ],
)
def test_a_name_may_stand_in_many_objects_and_in_texts(felder: dict[str, Any]) -> None:
    for text in (json.dumps(felder), json.dumps(felder, indent=1), json.dumps(felder, separators=(" , ", " : "))):
        entry = DECODER.decode(b'{"betrag": 1, "zeilen": [], "felder": %s}' % text.encode())
        assert isinstance(entry, Entry)
        assert entry.felder == felder


JSON_VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(':"\\{}, a', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(':"\\a', max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
@settings(deadline=None)
def test_no_body_without_a_repeated_name_is_refused(value: Any) -> None:
    entry = DECODER.decode(b'{"betrag": 1, "zeilen": [], "felder": {"x": %s}}' % json.dumps(value).encode())
    assert isinstance(entry, Entry)
    assert entry.felder == {"x": value}


class Counted(Body):
    anzahl: Annotated[int, Meta(ge=0, le=10**6)] = 0
    satz: Literal[0, 7, 19] | None = None


class Counts(Counted):
    betrag: Decimal = Decimal(0)
    felder: dict[str, Any] | None = None
    weitere: list[Counted] | None = None


@given(
    st.integers(0, 10**6),
    st.sampled_from([0, 7, 19]),
    st.sampled_from(["{}", "{}.0", "{}.000", "{}e0", "{}.00e-0", "{}.0E+0"]),
)
@settings(deadline=None)
def test_an_integer_is_one_however_it_is_written(number: int, rate: int, form: str) -> None:
    """For JSON Schema, and so for the published document, 6300.0 and 6300 are the same number."""
    written = form.format(number)
    inner = f'{{"anzahl": {written}, "satz": {form.format(rate)}}}'
    body = f'{{"anzahl": {written}, "betrag": 1.10, "felder": {{"anzahl": 1.0}}, "weitere": [{inner}]}}'
    decoded = BodyDecoder(Counts).decode(body.encode())
    assert isinstance(decoded, Counts)
    assert decoded.weitere is not None
    for one in (decoded, *decoded.weitere):
        assert one.anzahl == number
        assert isinstance(one.anzahl, int)
    assert decoded.weitere[0].satz == rate
    # What is no integer's field stays as it was sent.
    assert (decoded.betrag, decoded.felder) == (Decimal("1.10"), {"anzahl": 1.0})
    assert encode(decoded.felder) == b'{"anzahl":1.0}'


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("6300.5", "must be an integer, not a number"),
        ("1e-1", "must be an integer, not a number"),
        ("1e7", "<= 1000000"),
        ("-1.0", ">= 0"),
        ("1e30", "must be an integer, not a number"),
        ('"6300"', "not a string"),
        ('"6300.0"', "not a string"),
        ("true", "not a boolean"),
    ],
)
def test_nothing_else_is_an_integer(written: str, message: str) -> None:
    for body in (f'{{"anzahl": {written}}}', f'{{"weitere": [{{"satz": 7.0}}, {{"anzahl": {written}}}]}}'):
        with pytest.raises(BadRequest, match=message) as refusal:
            BodyDecoder(Counts).decode(body.encode())
        assert refusal.value.extra["field"].endswith("anzahl")


def test_a_name_given_twice_is_refused_beside_an_integer_with_decimals() -> None:
    with pytest.raises(BadRequest, match="`anzahl` is given twice"):
        BodyDecoder(Counts).decode(b'{"anzahl": 1.0, "anzahl": 2.0}')


class Large(Body):
    art: Literal["beleg"] = "beleg"
    name: Annotated[str, Meta(max_length=10)] = ""
    content: str = ""
    zahlen: list[int] | None = None


def test_what_a_caller_chose_is_cut_in_messages() -> None:
    decoder, long = BodyDecoder(Large), b"x" * 900_000
    for body in (
        b'{"%s": 1}' % long,
        b'{"art": "%s"}' % long,
        b'{"name": "%s"}' % long,
        b'{"name": "%s"}' % (long * 20),
    ):
        with pytest.raises(BadRequest) as refusal:
            decoder.decode(body)
        assert len(encode({"error": str(refusal.value), **refusal.value.extra})) < 400
    with pytest.raises(BadRequest) as refusal:
        QueryDecoder(Search).decode(b"from_" + b"x" * 8_000 + b"=1")
    assert len(str(refusal.value)) < 200
    with pytest.raises(BadRequest, match="8192 bytes"):
        QueryDecoder(Search).decode(b"x" * 8_193)


def test_beyond_five_mebibytes_a_body_may_have_nothing_but_files() -> None:
    decoder, image = BodyDecoder(Large), b"QUJD\\/+" * 1_000_000
    taken = decoder.decode(b'{"content": "%s", "name": "a\\"b"}' % image)
    assert isinstance(taken, Large)
    assert (len(taken.content), taken.name) == (6 * 1_000_000, 'a"b')
    for body in (
        b'{"zahlen": [%s1]}' % (b"1," * 2_700_000),
        b'{"content": "%s"}' % (b"\\u00e4" * 900_000),
        b'{"content": "%s"}' % ("ä" * 2_700_000).encode(),
        b'{"%s": 1}' % (b"x" * 5_300_000),
    ):
        with pytest.raises(TooLarge, match="5242880 bytes"):
            decoder.decode(body)
    with pytest.raises(BadRequest, match="`name` is given twice"):
        decoder.decode(b'{"content": "%s", "name": "a", "name": "b"}' % image)
    with pytest.raises(BadRequest, match="not valid JSON"):
        decoder.decode(b'{"content": "%s' % image)


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
