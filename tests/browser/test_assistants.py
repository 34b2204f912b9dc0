"""Connecting an assistant at a real browser: signed out at first, the page that asks, the way back to the assistant, the list."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, expect

from tests.assistants.assistant import let_in
from tests.assistants.hosted import AUTHORIZE, LOOPBACK, answer_in, making
from tests.browser.visitor import COOKIE, visiting
from tests.harness import PASSWORD, running_service
from tests.receiver import Answer, receiving

EMAIL = "erika@muster.example"


def test_a_person_connects_an_assistant_and_disconnects_it(browser: Browser, tmp_path: Path) -> None:
    with (
        running_service(tmp_path / "data", mcp=True) as service,
        making(service, tmp_path) as maker,
        receiving(lambda asked: Answer(200, {"content-type": "text/plain"}, b"done")) as own_machine,
        visiting(browser, service.base_url, locale="de") as visitor,
    ):
        owner = service.organization()
        service.user(owner, EMAIL)
        let_in(service, owner)
        back = LOOPBACK.replace("127.0.0.1", f"127.0.0.1:{own_machine.port}")
        page = visitor.open(f"{AUTHORIZE}?{urlencode(maker.request(redirect_uri=back, scope='bookkeeping'))}")
        page.fill("[name=email]", EMAIL)
        page.fill("[name=password]", PASSWORD)
        page.click("form[action$=sign-in] button")
        expect(page.locator("h1")).to_have_text("Fragefix verbinden")
        assert visitor.look_closely() == []
        token = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == COOKIE)
        with visiting(browser, service.base_url, token, locale="en") as reader:
            reader.open(page.url.removeprefix(service.base_url))
            expect(reader.page.locator("h1")).to_have_text("Connect Fragefix")
            assert reader.look_closely() == []
        page.reload()
        expect(page.locator("[type=radio][value=payments]")).to_have_count(0)
        page.check("[type=radio][value=bookkeeping]")
        page.click("button:has-text('Verbinden')")
        page.wait_for_url(f"{back}?**")
        answer = answer_in(page.url)
        assert (answer["state"], answer["iss"]) == ("xyz", service.base_url)
        made = maker.fetch_tokens(answer["code"], redirect_uri=back)
        assert made.json()["scope"] == "bookkeeping"
        visitor.open("/dashboard/assistants")
        expect(page.locator("tr[id^=g-]")).to_contain_text("Fragefix")
        assert visitor.look_closely() == []
        page.reload()
        page.click("button:has-text('Verbindung trennen')")
        expect(page.locator("tr[id^=g-]")).to_have_count(0)
        visitor.open(f"{AUTHORIZE}?{urlencode(maker.request(scope='all'))}")
        expect(page.locator("h1")).to_have_text("Fragefix lässt sich nicht verbinden")
        assert visitor.look_closely() == []
