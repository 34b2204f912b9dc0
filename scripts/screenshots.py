"""Takes pictures of the dashboard's pages: `make screenshots`. For looking at before a release, and for the README.

Starts the demo in a temporary directory, fills what it lacks, signs in, and visits every page that links lead to, or those named
as arguments, at 390 and 1280 pixels, light and dark. With `docs` it takes the few that stand in the documentation, and
one of an invoice (by pdftoppm); with `docs assistants` those of assistants alone; with `docs n8n` those of the editor of n8n, which
`make test-n8n` has installed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
from playwright.sync_api import Browser, Page, sync_playwright

from scripts import test_n8n_node
from tests.assistants.hosted import AUTHORIZE, REDIRECT, TOKEN, VERIFIER, challenge_of, code_in
from tests.browser.visitor import COOKIE, launched, session_token
from tests.dashboard.full_demo import NOBODY, fill, let_an_assistant_prepare
from tests.dashboard.walking import walk
from tests.journeys.process import ServerProcess, serving
from tests.receiver import Answer, receiving

TARGET = Path("data/screenshots")
WIDTHS = (390, 1280)
THEMES = ("light", "dark")
OUTSIDE = ("/dashboard/sign-in", "/dashboard/forgotten-password", "/dashboard/nowhere")
# Name, page, width, height, theme.
PICTURES = (
    ("overview", "/dashboard", 1280, 860, "light"),
    ("open-items", "/dashboard/open-items", 1280, 860, "dark"),
    ("trial-balance", "/dashboard/trial-balance", 1280, 860, "light"),
    ("cash-book", "/dashboard/cash-book", 390, 860, "light"),
    ("payables", "/dashboard/payables", 1280, 860, "light"),
)
PICTURE_FOLDER = Path("docs/pictures")


def main() -> None:
    arguments = sys.argv[1:]
    language = arguments.pop(0) if arguments and arguments[0] in ("de", "en") else "de"
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), webhook_allow=NOBODY) as demo:
        token = session_token(demo.facts["base_url"], **demo.facts["user"])
        with sync_playwright() as playwright:
            browser = launched(playwright)
            if arguments == ["docs"]:
                _take_pictures(browser, demo.facts, token)
                _take_pictures_of_assistants(browser)
            elif arguments == ["docs", "assistants"]:
                _take_pictures_of_assistants(browser)
            elif arguments == ["docs", "n8n"]:
                _take_pictures_of_n8n(browser, demo)
            else:
                fill(demo)
                with httpx.Client(base_url=demo.facts["base_url"], cookies={COOKIE: token}, timeout=30) as client:
                    paths = arguments or list(filter(None, walk(client).values()))
                _visit_all(browser, demo.facts, token, paths, language)
            browser.close()


def _take_pictures(browser: Browser, facts: dict[str, Any], token: str) -> None:
    PICTURE_FOLDER.mkdir(parents=True, exist_ok=True)
    for name, path, width, height, theme in PICTURES:
        page = _open(browser, facts, token, "en")
        _look(page, width, theme, height)
        page.goto(path)
        page.screenshot(path=PICTURE_FOLDER / f"{name}.png")
        page.context.close()
    _take_invoice(facts)


def _take_pictures_of_assistants(browser: Browser) -> None:
    """From a demo of its own: with the setting, and a maker of assistants on this machine."""
    described: dict[str, Any] = {}
    with (
        receiving(lambda asked: Answer(200, {}, msgspec.json.encode(described))) as maker,
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), webhook_allow=maker.allow, mcp="1") as demo,
    ):
        asked = {
            "client_id": f"http://{maker.allow}/assistant.json", "redirect_uri": REDIRECT, "response_type": "code",
            "code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256", "scope": "bookkeeping", "state": "1",
        }  # fmt: skip
        described |= {"client_id": asked["client_id"], "client_name": "Fragefix", "redirect_uris": [REDIRECT]}
        let_an_assistant_prepare(demo)
        page = _open(browser, demo.facts, session_token(demo.facts["base_url"], **demo.facts["user"]), "en")
        _look(page, 960, "light", 1000)
        page.goto(f"{AUTHORIZE}?{urlencode(asked)}")
        page.screenshot(path=PICTURE_FOLDER / "assistant-consent.png")
        _connect(page, demo.facts["base_url"], asked)
        page.goto("/dashboard/assistants")
        page.screenshot(path=PICTURE_FOLDER / "assistants.png", full_page=True)
        page.click("main td a[href^='/dashboard/assistants/']")
        page.screenshot(path=PICTURE_FOLDER / "assistant-payment.png", full_page=True)
        page.context.close()


def _connect(page: Page, base_url: str, asked: dict[str, str]) -> None:
    """Agrees on the page that is open, and fetches the tokens, as the assistant does."""
    page.route(f"{REDIRECT}?**", lambda route: route.fulfill(body="done"))
    page.click("button[value=agree]")
    page.wait_for_url(f"{REDIRECT}?**")
    form = {name: asked[name] for name in ("client_id", "redirect_uri")}
    form |= {"grant_type": "authorization_code", "code": code_in(page.url), "code_verifier": VERIFIER}
    httpx.post(f"{base_url}{TOKEN}", data=form, timeout=60).raise_for_status()


def _take_pictures_of_n8n(browser: Browser, demo: ServerProcess) -> None:
    """The editor with a workflow that pays what is due, and with the node that prepares the payments."""
    bench = test_n8n_node.Bench()
    bench.install()
    with tempfile.TemporaryDirectory() as folder:
        current, packed = bench.versions()[0], test_n8n_node.pack(bench, Path(folder))
        with test_n8n_node.N8n(bench, current, packed, Path(folder)):
            editor = test_n8n_node.Editor(current)
            workflow, opened = test_n8n_node.pay_what_is_due(editor, demo.facts)
            context = browser.new_context(base_url=editor.base, viewport={"width": 1200, "height": 760})
            context.add_cookies(
                [{"name": one.name, "value": one.value or "", "url": editor.base} for one in editor.jar]
            )
            page = context.new_page()
            page.set_default_timeout(120_000)
            for name, address, shown in (
                ("n8n-workflow", f"/workflow/{workflow}", "Create a payment"),
                ("n8n-payment", f"/workflow/{workflow}/{opened}", "Creditor IBAN"),
            ):
                page.goto(address)
                page.get_by_text(shown).first.wait_for()
                page.wait_for_load_state("networkidle")
                page.screenshot(path=PICTURE_FOLDER / f"{name}.png")
            context.close()


def _take_invoice(facts: dict[str, Any]) -> None:
    """The first page of the invoice that the README's third call makes."""
    key = {"x-api-key": facts["api_key"]}
    address = f"{facts['base_url']}/v2/mobility/customers/{facts['mobility']['customer_id']}/invoice"
    url = httpx.post(address, headers=key, timeout=60).raise_for_status().json()["invoice_pdf_url"]
    pdf = httpx.get(url, headers=key, timeout=60).raise_for_status().content
    options = ["-png", "-r", "80", "-f", "1", "-singlefile", "-"]
    subprocess.run(["pdftoppm", *options, str(PICTURE_FOLDER / "invoice")], input=pdf, check=True)


def _visit_all(browser: Browser, facts: dict[str, Any], token: str, paths: list[str], language: str) -> None:
    for visited, key in ((OUTSIDE, ""), (paths, token)):
        page = _open(browser, facts, key, language)
        for path in visited:
            page.goto(path)
            for width in WIDTHS:
                for theme in THEMES:
                    _look(page, width, theme)
                    name = path.partition("?")[0].strip("/").replace("/", "-")
                    page.screenshot(path=TARGET / f"{name}-{width}-{theme}.png", full_page=True)
        page.context.close()


def _open(browser: Browser, facts: dict[str, Any], token: str, language: str) -> Page:
    context = browser.new_context(base_url=facts["base_url"], locale=language)
    if token:
        context.add_cookies([{"name": COOKIE, "value": token, "url": facts["base_url"]}])
    return context.new_page()


def _look(page: Page, width: int, theme: str, height: int = 900) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")


if __name__ == "__main__":
    main()
