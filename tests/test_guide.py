"""The guide's pages: every file of docs/ is one, links and anchors on them lead somewhere, nothing runs, nothing else is served."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from urllib.parse import unquote, urljoin

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette

from kontobahn import __version__
from kontobahn.guide import library, search
from kontobahn.guide.library import ROOT, Source, render
from kontobahn.guide.routes import guide_routes, passages
from tests.test_docs_page import Page
from tests.tidy_rules import ROOT as PROJECT

# Pages of the service that are not the guide's.
OTHERS = ("/docs", "/dashboard", "/openapi.json", "/static/docs/")


def fetch(path: str, **headers: str) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=guide_routes()))
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(run())


@cache
def page(address: str) -> Page:
    answer = fetch(address)
    assert answer.status_code == 200, address
    return Page(answer.text)


ADDRESSES = [library.address(name) for name in library.sources()]


def test_every_file_of_the_documentation_is_a_page_and_can_be_reached_from_the_start() -> None:
    written = {
        library.page_name(path.relative_to(PROJECT / "docs").as_posix()) for path in (PROJECT / "docs").rglob("*.md")
    }
    assert set(library.sources()) == written
    reached, waiting = {library.address("")}, [library.address("")]
    while waiting:
        address = waiting.pop()
        for target in page(address).values("href"):
            found = urljoin(address, target).partition("#")[0]
            if found in ADDRESSES and found not in reached:
                reached.add(found)
                waiting.append(found)
    assert reached == set(ADDRESSES)


def test_links_and_anchors_of_every_page_lead_somewhere() -> None:
    wrong = [f"{address}: an id twice" for address in ADDRESSES if repeated(page(address).values("id"))]
    for address in ADDRESSES:
        wrong += [
            f"{address}: {target}" for target in page(address).values("href", "src") if leads_nowhere(address, target)
        ]
    assert wrong == []


def repeated(values: list[str]) -> bool:
    return len(values) != len(set(values))


def leads_nowhere(address: str, target: str) -> bool:
    found, _, anchor = urljoin(address, target).partition("#")
    if re.match("https?:", found) or found in OTHERS or found.startswith(OTHERS[-1]):
        return False
    if found in ADDRESSES:
        return bool(anchor) and unquote(anchor) not in page(found).values("id")
    return status(found) != 200


@cache
def status(address: str) -> int:
    return fetch(address).status_code


def test_the_menu_marks_the_page_it_shows_and_lists_its_sections() -> None:
    text = fetch(f"{ROOT}/operating").text
    assert re.search(rf'href="{ROOT}/operating" aria-current="page"', text)
    assert text.count("aria-current") == 1
    assert 'href="#backup-and-restore"' in text
    assert __version__ in text


def test_pages_are_sent_with_strict_headers_and_kept_by_browsers() -> None:
    answer = fetch(f"{ROOT}/operating")
    assert answer.headers["content-security-policy"] == (
        "default-src 'none'; style-src 'self'; script-src 'none'; connect-src 'none'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-encoding"] == "gzip"
    etag = answer.headers["etag"]
    assert fetch(f"{ROOT}/operating", **{"If-None-Match": etag}).status_code == 304
    assert fetch(f"{ROOT}/webhooks", **{"If-None-Match": etag}).status_code == 200
    style = next(value for value in page(f"{ROOT}/operating").values("href") if "guide.css" in value)
    assert "immutable" in fetch(style).headers["cache-control"]
    assert fetch(style.partition("?")[0]).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("address", [ROOT, f"{ROOT}/operating", f"{ROOT}/search?q=backup", f"{ROOT}/nothing"])
def test_a_page_has_no_script_nothing_inline_and_nothing_from_elsewhere(address: str) -> None:
    shown = Page(fetch(address).text)
    for tag, attributes in shown.tags:
        assert tag not in ("script", "style", "iframe")
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    assert all(value.startswith("/") for value in shown.values("src"))


@pytest.mark.parametrize(
    "path",
    [
        "nothing", "../README.md", "..%2fpyproject.toml", "%2e%2e/pyproject.toml", "pictures/..%2f..%2fpyproject.toml", "/etc/passwd",
        "..%2f..%2f..%2fetc/passwd", "operating/", "library.py", "..\\README.md", "pictures", "%00", "static/guide.css",
    ],
)  # fmt: skip
def test_what_is_not_a_page_is_not_served(path: str) -> None:
    answer = fetch(f"{ROOT}/{path}")
    assert answer.status_code == 404
    assert "build-backend" not in answer.text
    assert answer.headers.get("content-type", "").startswith(("text/html", "text/plain"))


def test_an_address_of_the_repository_leads_to_the_page() -> None:
    assert fetch(f"{ROOT}/spec/errors.md").headers["location"] == f"{ROOT}/spec/errors"
    assert fetch(f"{ROOT}/README.md").headers["location"] == ROOT
    assert fetch(f"{ROOT}/").headers["location"] == ROOT
    assert fetch(f"{ROOT}/pictures/overview.png").headers["content-type"] == "image/png"


def shown(text: str) -> Page:
    return Page(str(render(Source("a", "a.md", "A", text)).html))


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "<script>alert(1)</script>", "[a](vbscript:b)",
        "[a](../src/kontobahn/app.py)", "<!-- a\nb -->", "[a](data:text/html,b)",
    ],
)  # fmt: skip
def test_markdown_brings_nothing_that_runs_onto_the_page(text: str) -> None:
    assert {tag for tag, _ in shown(text).tags} <= {"p"}


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_whatever_a_text_says_it_makes_no_element_that_markdown_does_not_know(text: str) -> None:
    for tag, attributes in shown(text).tags:
        assert tag in {
            "p", "a", "img", "em", "strong", "code", "pre", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
            "br", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "div", "wbr",
        }  # fmt: skip
        assert set(attributes) <= {
            "href",
            "title",
            "rel",
            "src",
            "alt",
            "id",
            "start",
            "class",
            "tabindex",
            "data-label",
        }


def test_headings_that_repeat_have_ids_of_their_own() -> None:
    assert shown("# A\n\n## Über `x` uns!\n\n## B\n\n## B\n").values("id") == ["a", "über-x-uns", "b", "b-1"]


def test_links_and_boxes_are_shown_as_people_write_them() -> None:
    page = shown(
        "See [operating.md](operating.md#keys), [keys](operating.md), [../LICENSE](../LICENSE).\n\n- [ ] done?\n- b\n"
    )
    assert "See Operating, keys, ../LICENSE." in page.text
    # The box is the marker of its entry.
    assert [dict(attributes) for tag, attributes in page.tags if tag == "li"] == [{"class": "task"}, {}]
    assert "[ ]" not in page.text
    assert "done?" in page.text


def test_a_figure_stays_beside_what_it_counts_and_a_day_beside_its_month() -> None:
    kept = ["19 %", "1.234,56 €", "8 MB", "1. Januar", "20 March"]
    parted = ["in 2026 May", "3 Bücher", "5 seconds"]
    text = shown(" and ".join([*kept, *parted, "`19 %`"])).text
    for one in kept:
        assert one.replace(" ", "\N{NO-BREAK SPACE}") in text
    assert [one for one in [*parted, "19 %"] if one not in text] == []


def test_a_long_name_is_parted_between_its_parts() -> None:
    html = str(render(Source("a", "a.md", "A", "`.venv/v2/transactions?limit_to=5&sort=id`, `short/name`")).html)
    assert "<code>.venv/<wbr>v2/<wbr>transactions?<wbr>limit_<wbr>to=<wbr>5&amp;<wbr>sort=<wbr>id</code>" in html
    assert "<code>short/name</code>" in html


def test_an_option_stays_with_its_dashes() -> None:
    html = str(render(Source("a", "a.md", "A", "`doctor --books` and `-wal`, `a b`")).html)
    assert '<code>doctor <span class="whole">--books</span></code>' in html
    assert '<code><span class="whole">-wal</span></code>' in html
    assert "<code>a b</code>" in html


def test_a_table_without_titles_has_no_head() -> None:
    page = shown("| | |\n|---|---|\n| a | b |\n\n| C | |\n|---|---|\n| d | e |\n")
    assert [tag for tag, _ in page.tags if tag in ("thead", "th", "tr")] == ["tr", "thead", "tr", "th", "th", "tr"]


def test_no_line_of_a_page_is_an_entry_of_a_list_because_it_begins_with_a_number() -> None:
    """Markdown takes “401. And so on” at the beginning of a line for the 401st entry of a list."""
    found = [
        (name, start)
        for name, page in library.sources().items()
        for start in re.findall(r'<ol start="(\d+)"', str(render(page).html))
        if int(start) > 20
    ]
    assert found == []


def results(query: str) -> list[tuple[str, str]]:
    answer = fetch(f"{ROOT}/search?q={query}")
    assert answer.status_code == 200
    listed = answer.text.partition('class="results"')[2]
    return re.findall(r'<li>\s*<a href="([^"]+)">([^<]+)</a>', listed)


@cache
def some() -> search.Index:
    return search.Index(passages("en")[:200])


# Questions as people ask them, with the pages of which one has to come first.
QUESTIONS = {
    "how do I get new transactions without missing any?": ("curl", "python", "n8n", "make"),
    "what does 402 mean?": ("reference/errors", "spec/errors"),
    "what does it cost?": ("spec/limits", "choices"),
    "how do I undo an import?": ("operating",),
    "how do I verify the signature of a webhook?": ("webhooks",),
    "how long are events kept?": ("reference/settings", "spec/events"),
    "create an api key": ("reference/commands", "operating"),
    "repeat a call without doing it twice": ("curl",),
    "which tax keys are known?": ("choices",),
    "install with docker": ("install",),
    "move another machine": ("backup",),
    "upgrades": ("operating", "several-machines"),
    "payment limit": ("restricted-keys", "spec/scopes"),
    "idempotency key": ("curl", "choices"),
    "rate limit": ("choices", "spec/limits"),
    "prometheus metrics": ("operating",),
    "import a bank statement": ("operating",),
    "connect a bank": ("banks",),
    "restore": ("backup", "operating"),
    "KONTOBAHN_IDLE_SECONDS": ("reference/settings",),
    "Umsätze": ("curl", "python", "n8n", "make", "dashboard"),
    "Kontoauszug": ("operating", "dashboard"),
    "Kontoauszüge hochladen": ("operating", "curl"),
    "Signatur prüfen": ("webhooks",),
    "Datensicherung": ("backup", "operating"),
    "Passwort vergessen": ("operating",),
    "Rechnung zuordnen": ("reconciliation",),
    "Storno im Kassenbuch": ("operating",),
    "wie verbinde ich meine Bank?": ("banks",),
    "offene Posten": ("spec/endpoints", "spec/resources", "choices", "tour", "dashboard"),
    "kassenminusprüfung": ("glossary",),
    "Fehler 409": ("reference/errors", "spec/errors"),
    "429": ("reference/errors", "spec/errors"),
    "how do I rotate an API key?": ("operating", "reference/commands", "dashboard"),
    "what happens if my receiver is down?": ("webhooks",),
    "how do I run it behind nginx?": ("operating",),
    "how do I add a provider?": ("adding-a-provider",),
    "how do I write a provider?": ("adding-a-provider",),
    "which bank formats can I import?": ("operating",),
    "what happens when a webhook fails?": ("webhooks",),
    "was passiert, wenn ein Webhook fehlschlägt?": ("webhooks",),
    "Python client": ("python",),
    "what is an agency key?": ("choices", "operating"),
    "Wie importiere ich DATEV?": ("operating", "dashboard"),
    "zweiter Faktor": ("dashboard", "go-live", "operating"),
    "Kassenbuch Eintrag stornieren": ("operating",),
    "Webhook einrichten": ("webhooks",),
    "Rechnung zu Zahlung zuordnen": ("reconciliation",),
    "Mandant anlegen": ("reference/commands", "operating"),
}


def test_a_question_finds_the_page_that_answers_it_first() -> None:
    first = {query: (results(query) or [("", "")])[0][0].partition("#")[0] for query in QUESTIONS}
    wrong = {
        query: first[query]
        for query, pages in QUESTIONS.items()
        if first[query] not in {f"{ROOT}/{page}" for page in pages}
    }
    assert wrong == {}


def test_a_section_is_found_by_the_words_that_it_has() -> None:
    assert results("move another machine")[0][0] == f"{ROOT}/backup#move-to-another-machine"
    assert results("xyzzyplugh") == []
    assert results("what is the") == [], "words that every page has"
    assert len(results("the transactions of a payment at a bank")) == search.MAX_RESULTS
    # Pages that say what to do come before the records of decisions.
    addresses = [found for found, _ in results("lanes of a receiver")]
    assert not addresses[0].startswith(f"{ROOT}/decisions/")
    assert any(found.startswith(f"{ROOT}/decisions/") for found in addresses)


def test_what_was_searched_for_is_text_on_the_page() -> None:
    text = fetch(f"{ROOT}/search?q=%3Cscript%3Ealert(1)%3C/script%3E").text
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "Please search for 100 characters at most." in fetch(f"{ROOT}/search?q={'a' * 101}").text
    assert "Type some words" in fetch(f"{ROOT}/search?q=%20").text
    assert 'value="a&#34;b"' in fetch(f"{ROOT}/search?q=a%22b").text


@given(st.text(max_size=60))
def test_any_words_are_searched_for_without_failing_and_a_snippet_is_a_piece_of_its_section(query: str) -> None:
    for result in some().search(query):
        assert "".join(result.snippet).removeprefix("… ").removesuffix(" …") in result.passage.text
