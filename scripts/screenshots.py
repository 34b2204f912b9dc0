"""Takes pictures of the dashboard's pages: `make screenshots`. For looking at before a release, and for the README.

Starts the demo in a temporary directory, signs in, and visits the pages of the menu, or those named as arguments, at 390 and
1280 pixels, light and dark. With `docs` it takes the few that stand in the documentation, and one of an invoice (by pdftoppm).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

TARGET = Path("data/screenshots")
WIDTHS = (390, 1280)
THEMES = ("light", "dark")
# Name, page, width, height, theme.
PICTURES = (
    ("overview", "/dashboard", 1280, 860, "light"),
    ("open-items", "/dashboard/open-items", 1280, 860, "dark"),
    ("trial-balance", "/dashboard/trial-balance", 1280, 860, "light"),
    ("cash-book", "/dashboard/cash-book", 390, 860, "light"),
)
PICTURE_FOLDER = Path("docs/pictures")


def main() -> None:
    arguments = sys.argv[1:]
    language = arguments.pop(0) if arguments and arguments[0] in ("de", "en") else "de"
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        served = subprocess.Popen(
            [sys.executable, "-m", "kontobahn", "serve", "--demo", "--port", "0", "--data", folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            facts = _facts(Path(folder) / "demo.json", served)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                if arguments == ["docs"]:
                    _take_pictures(browser, facts)
                else:
                    for width in WIDTHS:
                        for theme in THEMES:
                            _visit(browser, facts, arguments, width, theme, language)
                browser.close()
        finally:
            served.terminate()
            served.wait()


def _facts(path: Path, served: subprocess.Popen[bytes]) -> dict[str, Any]:
    while served.poll() is None:
        if path.exists():
            facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
            if facts["base_url"]:
                return facts
        time.sleep(0.1)
    raise SystemExit("The demo did not start.")


def _take_pictures(browser: Browser, facts: dict[str, Any]) -> None:
    PICTURE_FOLDER.mkdir(parents=True, exist_ok=True)
    for name, path, width, height, theme in PICTURES:
        page = _open(browser, facts, width, height, theme, "en")
        _sign_in(page, facts)
        page.goto(path)
        page.screenshot(path=PICTURE_FOLDER / f"{name}.png")
        page.context.close()
    _take_invoice(facts)


def _take_invoice(facts: dict[str, Any]) -> None:
    """The first page of the invoice that the README's third call makes."""
    key = {"x-api-key": facts["api_key"]}
    address = f"{facts['base_url']}/v2/mobility/customers/{facts['mobility']['customer_id']}/invoice"
    with urllib.request.urlopen(urllib.request.Request(address, method="POST", headers=key)) as answer:
        url = json.load(answer)["invoice_pdf_url"]
    with urllib.request.urlopen(urllib.request.Request(url, headers=key)) as answer:
        pdf = answer.read()
    options = ["-png", "-r", "80", "-f", "1", "-singlefile", "-"]
    subprocess.run(["pdftoppm", *options, str(PICTURE_FOLDER / "invoice")], input=pdf, check=True)


def _open(browser: Browser, facts: dict[str, Any], width: int, height: int, theme: str, language: str) -> Page:
    context = browser.new_context(
        base_url=facts["base_url"],
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        locale=language,
    )
    return context.new_page()


def _sign_in(page: Page, facts: dict[str, Any]) -> None:
    page.goto("/dashboard/sign-in")
    page.fill("[name=email]", facts["user"]["email"])
    page.fill("[name=password]", facts["user"]["password"])
    page.click("form[action$=sign-in] button")
    page.wait_for_url("**/dashboard")


def _visit(browser: Browser, facts: dict[str, Any], wanted: list[str], width: int, theme: str, language: str) -> None:
    page = _open(browser, facts, width, 900, theme, language)
    page.goto("/dashboard/sign-in")
    _take(page, "sign-in", width, theme)
    _sign_in(page, facts)
    paths = wanted or page.eval_on_selector_all(
        ".contents a[href^='/dashboard']", "links => links.map(link => link.getAttribute('href'))"
    )
    for path in paths:
        page.goto(path)
        _take(page, path.strip("/").replace("/", "-"), width, theme)
    page.context.close()


def _take(page: Page, name: str, width: int, theme: str) -> None:
    page.screenshot(path=TARGET / f"{name}-{width}-{theme}.png", full_page=True)


if __name__ == "__main__":
    main()
