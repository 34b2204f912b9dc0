"""Forms keep what was typed and say what is wrong beside the field; lists are cut by keyset and filtered by their address."""

from __future__ import annotations

import html
import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from kontobahn.dashboard import charts, words
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE, Filters
from kontobahn.dashboard.page_templates import environment
from kontobahn.errors import BadRequest, Conflict, Unavailable


class Order(Struct):
    name: Annotated[str, Meta(min_length=2, max_length=5)]
    amount: Decimal
    day: date | None = None
    kind: Literal["a", "b"] = "a"
    count: Annotated[int, Meta(ge=1)] = 1
    instant: bool = False
    tags: list[str] = []


@pytest.fixture(autouse=True)
def _english() -> None:
    words.speak("en")


def sent(**fields: str) -> Form:
    return Form({name: [value] for name, value in fields.items()})


def test_what_is_wrong_is_listed_by_the_labels_of_the_fields_below_it() -> None:
    fields = {"a": "First & last", "b": "Purpose", "c": "Kind", "d": "File"}
    form = sent()
    for name in fields:
        form.fail(name, "Wrong.")
    page = (
        environment("en")
        .from_string(
            '{% import "parts.html" as parts %}{% call parts.checked(form) %}{{ parts.field(form, "a", a) }}'
            '{{ parts.area(form, "b", b) }}{{ parts.select(form, "c", c, []) }}{{ parts.file(form, "d", d) }}{% endcall %}'
        )
        .render(form=form, **fields)
    )
    listed = re.findall(r'<a href="#f-(\w)">([^<]+)</a>', page)
    assert {name: html.unescape(text) for name, text in listed} == {
        name: f"{label}: Wrong." for name, label in fields.items()
    }
    assert page.index("</ul>") < page.index("<label")


def test_a_form_is_read_as_people_type() -> None:
    words.speak("de")
    form = Form(
        {"name": [" Max "], "amount": ["1.234,50 €"], "day": ["2026-03-01"], "instant": ["1"], "tags": ["x", "", "y"]}
    )
    assert form.read(Order) == Order("Max", Decimal("1234.50"), date(2026, 3, 1), "a", 1, True, ["x", "y"])
    assert form.is_good


@pytest.mark.parametrize(
    ("fields", "wrong", "said"),
    [
        ({"amount": "1"}, "name", "fill this in"),
        ({"name": "  ", "amount": "1"}, "name", "fill this in"),
        ({"name": "x", "amount": "1"}, "name", "at least 2 characters"),
        ({"name": "xxxxxx", "amount": "1"}, "name", "at most 5 characters"),
        ({"name": "xx", "amount": "much"}, "amount", "1234.56"),
        ({"name": "xx", "amount": "1.005"}, "amount", "1234.56"),
        ({"name": "xx", "amount": "1", "day": "31.02.2026"}, "day", "day of the calendar"),
        ({"name": "xx", "amount": "1", "kind": "c"}, "kind", "choose one"),
        ({"name": "xx", "amount": "1", "count": "0"}, "count", "whole number"),
        ({"name": "x\0x", "amount": "1"}, "name", "cannot be stored"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(fields: dict[str, str], wrong: str, said: str) -> None:
    form = sent(**fields)
    assert form.read(Order) is None
    assert list(form.errors) == [wrong]
    assert said in form.errors[wrong]
    assert form.text("name") == fields.get("name", "")


def test_what_an_area_refuses_is_said_beside_its_field_or_above() -> None:
    form = sent(name="xx", amount="1")
    with form.refusals(creditor_name="name"):
        raise BadRequest("Too long.", field="creditor_name")
    with form.refusals():
        raise Conflict("Not now.")
    assert form.errors == {"name": "Too long.", "": "Not now."}
    with pytest.raises(Unavailable), form.refusals():
        raise Unavailable("Down.")


class Wanted(Struct):
    q: str = ""
    from_date: date | None = None
    to_date: date | None = None
    status: Literal["open", "done"] | None = None


def filters(**fields: str) -> Filters[Wanted]:
    return Filters("/list", Wanted, {name: [value] for name, value in fields.items()})


def test_a_filter_is_an_address_and_a_chip() -> None:
    found = filters(q="a & b", status="open", other="ignored", from_date="")
    assert found.wanted == Wanted(q="a & b", status="open")
    assert found.url() == "/list?q=a+%26+b&status=open"
    assert found.url(status=None, after=7) == "/list?q=a+%26+b&after=7"
    chips = found.chips({"q": "Search", "status": "Status"})
    assert [(chip.label, chip.value, chip.without) for chip in chips] == [
        ("Search", "a & b", "/list?status=open"),
        ("Status", "open", "/list?q=a+%26+b"),
    ]
    assert found.is_set
    assert not filters(other="x").is_set


def test_a_chip_shows_a_day_as_people_write_it() -> None:
    for typed in ("20261231", "2026-13-01"):
        chips = filters(from_date="2026-12-31", q=typed).chips({"from_date": "From", "q": "Search"})
        assert {chip.label: chip.value for chip in chips} == {"From": "31 Dec 2026", "Search": typed}


def test_a_filter_that_makes_no_sense_is_said_and_left_out() -> None:
    found = filters(q="x", from_date="yesterday")
    assert found.wanted == Wanted(q="x")
    assert "from_date" in found.form.errors
    assert found.url() == "/list?q=x"


def test_a_list_is_cut_by_keyset() -> None:
    full = filters(q="x").first_page(list(range(PAGE_SIZE + 1)), key=lambda row: row)
    assert full.rows == list(range(PAGE_SIZE))
    assert full.next_url == f"/list?q=x&after={PAGE_SIZE - 1}"
    assert full.first_url is None
    last = filters(q="x", after="49").first_page(list(range(PAGE_SIZE)), key=lambda row: row)
    assert last.next_url is None
    assert last.first_url == "/list?q=x"


def test_spans_of_days_are_links() -> None:
    spans = filters(from_date="2026-03-01", to_date="2026-03-02").days(date(2026, 3, 2))
    assert ("This month", "/list?from_date=2026-03-01&to_date=2026-03-02", True) in spans
    assert [is_here for *_, is_here in spans].count(True) == 1
    assert ("7 days", "/list?from_date=2026-02-24&to_date=2026-03-02", False) in spans


def test_a_chart_escapes_what_it_says_and_has_no_styles() -> None:
    points = [charts.Point("<b>", value, "&") for value in (-5, 0, 10)]
    drawn = (
        charts.line(points, "<title>")
        + charts.course(points, [], "<i>", str)
        + charts.bars([charts.Bar("<b>", (1, 0, 3), "x")], "<i>")
    )
    assert "<b>" not in drawn
    assert "<i>" not in drawn
    assert "style=" not in drawn
    assert charts.line(points[:1], "t") == ""
    assert charts.bars([], "t") == ""
    assert "<li>100</li>" in charts.course([charts.Point("a", 0, "0")] * 2, [], "t", str)
    flat = charts.line([charts.Point("a", 7, "7"), charts.Point("b", 7, "7")], "t")
    assert "NaN" not in flat


def test_a_scale_has_round_steps_also_where_nothing_changes() -> None:
    assert charts.scale(112_000_00, 165_000_00) == [100_000_00, 120_000_00, 140_000_00, 160_000_00, 180_000_00]
    assert charts.scale(8_400_00, 8_400_00) == [8_000_00, 8_500_00]
    assert charts.scale(0, 0) == [0, 1]


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("The field `date` must not be in the past.", "This must not be in the past."),
        ("The field `bankkonten`: only one account can be the main one.", "Only one account can be the main one."),
        ("Diese Nummer gibt es schon.", "Diese Nummer gibt es schon."),
    ],
)
def test_beside_a_field_nobody_reads_its_name_in_a_call(told: str, shown: str) -> None:
    form = Form()
    form.fail("date", told)
    form.fail("", told)
    assert form.errors == {"date": shown, "": told}


def test_what_is_wrong_is_listed_in_the_order_of_the_fields() -> None:
    form = Form()
    for name in ("", "hidden", "text", "amount"):
        form.fail(name, "Wrong.")
    for name in ("day", "amount", "text"):
        form.labelled(name, name)
    assert [name for name, _ in form.wrong] == ["amount", "text", "", "hidden"]
