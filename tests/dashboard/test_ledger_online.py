"""Connecting DATEV in the browser: there and back, the light and what is missing, another client, requests, disconnecting."""

from __future__ import annotations

import html
from collections.abc import Iterator

import httpx
import pytest

from kontobahn.clock import HOUR
from kontobahn.dashboard.pages import every_page
from simulators.datev import DOCUMENTS, EXPORT, Datev
from tests.api.ledger.files import INVOICE, file
from tests.dashboard.browsing import Browser
from tests.dashboard.provider_guest import audited, led_to
from tests.harness import START, Service
from tests.providers.datev.office import CLIENT, Office, running_datev

LIST = "/dashboard/ledger/connections"


class Admin(Browser):
    def __init__(self, office: Office) -> None:
        super().__init__(office.service)
        self.office = office
        office.service.user(office.owner, "anna@muster.example", "admin")
        assert self.sign_in("anna@muster.example").status_code == 303

    @property
    def path(self) -> str:
        return f"{LIST}/{self.office.connection_id}"

    def there_and_back(self, address: str) -> httpx.Response:
        back = self.office.datev.sign_in.sign_in(address)
        return self.get(back.removeprefix(self.service.base_url))

    def connect(self) -> httpx.Response:
        return self.there_and_back(led_to(self.post(f"{LIST}/connect", {"provider": "datev"})))

    def shown(self, path: str = "") -> str:
        answer = self.get(path or self.path)
        assert answer.status_code == 200, answer.text
        return html.unescape(answer.text)


@pytest.fixture
def admin(service: Service) -> Iterator[Admin]:
    with running_datev() as datev:
        datev.add(CLIENT).feed(file(INVOICE))
        office = Office(service, datev, is_begun=False)
        yield Admin(office)
        service.run(office.provider.close())
        assert datev.faults == []


def datev_of(admin: Admin) -> Datev:
    return admin.office.datev


def test_an_admin_connects_and_sees_who_until_when_and_which_client(admin: Admin) -> None:
    assert "Connect DATEV" in admin.shown(LIST)
    back = admin.connect()
    assert back.status_code == 303
    assert back.headers["location"] == admin.path
    page = admin.shown()
    assert "Sabine Beispiel" in page
    assert "Musterholz (29098-55003)" in page
    # 11 hours after 2 March 2026, 10:00 in Berlin.
    assert (START + 11 * HOUR) // HOUR % 24 == 20
    assert "21:00" in page
    assert "https://apps.datev.de/tokrevui" in page
    assert [entry.action for entry in audited(admin.service, admin.office.owner, "ledger_connection.sign_in")]


def test_reconnect_leads_to_datev_and_never_just_says_that_it_works(admin: Admin) -> None:
    admin.connect()
    datev_of(admin).sign_in.end_sessions()
    assert admin.office.get("opos").status_code == 409
    away = admin.post(f"{admin.path}/reconnect")
    assert admin.office.ref.status == "revoked"
    assert admin.there_and_back(led_to(away)).status_code == 303
    assert admin.office.ref.status == "connected"


def test_a_missing_service_is_named_with_whom_to_ask(admin: Admin) -> None:
    datev_of(admin).companies[CLIENT].services = [DOCUMENTS]
    admin.connect()
    page = admin.shown()
    assert f"has not booked “{EXPORT}”. Ask your tax adviser" in page
    assert admin.office.ref.status == "error"
    datev_of(admin).companies[CLIENT].services.append(EXPORT)
    assert admin.post(f"{admin.path}/look-again").status_code == 303
    assert admin.office.ref.status == "connected"


def test_another_client_is_chosen(admin: Admin) -> None:
    datev_of(admin).add("29098-7", "Zweite GmbH")
    admin.connect()
    assert admin.post(f"{admin.path}/client", {"client": "29098-7"}).status_code == 303
    assert "Zweite GmbH (29098-7)" in admin.shown()
    assert admin.post(f"{admin.path}/client", {"client": "29098-9"}).status_code == 404


def test_disconnecting_revokes_there_and_forgets_here(admin: Admin) -> None:
    admin.connect()
    assert "Disconnect from DATEV?" in admin.shown(f"{admin.path}/disconnect")
    assert admin.post(f"{admin.path}/close").headers["location"] == f"{admin.path}/disconnect"
    assert admin.office.ref.status == "connected"
    datev_of(admin).breaks = [("/revoke", "502")]
    assert admin.post(f"{admin.path}/disconnect").status_code == 503
    assert admin.office.ref.status == "connected"
    assert admin.post(f"{admin.path}/disconnect").status_code == 303
    assert datev_of(admin).sign_in.alive == 0
    assert admin.office.ref.status == "revoked"


def test_requests_are_listed_with_the_ids_of_datev(admin: Admin) -> None:
    admin.connect()
    page = admin.shown(f"{admin.path}/requests")
    assert "/token" in page
    kept = admin.office.service.run(admin.office.provider.sent_requests(admin.office.ref, None, 100))
    assert all(one.transaction_id in page for one in kept)
    assert [secret for secret in datev_of(admin).sign_in.secrets if secret and secret in page] == []


def test_a_refusal_leads_to_the_page_of_datev_about_it(admin: Admin) -> None:
    admin.connect()
    datev_of(admin).denied = {"exchange"}
    answer = admin.get(f"/dashboard/trial-balance?connection={admin.office.connection_id}")
    assert answer.status_code == 403
    assert 'href="https://apps.datev.de/help-center/documents/1008829"' in answer.text


def test_somebody_elses_answer_connects_nothing(admin: Admin) -> None:
    address = led_to(admin.post(f"{LIST}/connect", {"provider": "datev"}))
    other = Browser(admin.service)
    other.sign_in("anna@muster.example")
    back = datev_of(admin).sign_in.sign_in(address).removeprefix(admin.service.base_url)
    assert other.get(back).status_code == 409
    assert admin.get(back).status_code == 409
    assert admin.get("/dashboard/ledger/sign-in").status_code == 409
    assert admin.post(f"{LIST}/connect", {"provider": "books"}).status_code == 404
    assert admin.office.service.db.read_now(lambda tx: tx.all("SELECT connection_id FROM datev_sessions")) == []


@pytest.mark.parametrize("chart", [3, 42])
def test_every_page_works_with_books_at_datev_or_says_what_it_cannot(admin: Admin, chart: int) -> None:
    datev_of(admin).companies[CLIENT].ledger.told_skr = chart
    admin.connect()
    found = {}
    for page in every_page():
        if page.method == "GET" and "{" not in page.path and page.caller == "user":
            found[page.path] = admin.get(page.path).status_code
    assert {path: status for path, status in found.items() if status >= 500} == {}
    works = ["open-items", "open-items/due", "trial-balance", "reports/journal"] + ["reports/profit-and-loss"] * (
        chart == 3
    )
    assert [path for path in works if found[f"/dashboard/{path}"] != 200] == []


# The text that a page shows of the one invoice, or says that it cannot; and whether it tells as of when the postings are.
SHOWN = [
    ("open-items", "Firma Eins", True),
    ("open-items/due", "119", True),
    ("open-items/100100000", "RE-1", True),
    ("open-items/100100000/document?beleg=RE-1", "Rechnung K\u00e4se", True),
    ("trial-balance", "8400", False),
    ("trial-balance/100100000", "RE-1", True),
    ("trial-balance/84000000", "does not offer this", False),
    ("reports/journal", "Rechnung K\u00e4se", True),
    ("reports/profit-and-loss", "100.00", False),
    ("reports/vat", "does not offer this", False),
    ("partners", "Firma Eins", False),
    ("partners/100100000", "Firma Eins", False),
    ("partners/terms", "", False),
    ("search?q=RE-1", "RE-1", False),
]


def test_pages_show_what_is_at_datev_and_as_of_when(admin: Admin) -> None:
    datev_of(admin).companies[CLIENT].ledger.captions["100100000"] = "Firma Eins"
    admin.connect()
    for place, text, is_dated in SHOWN:
        answer = admin.get(f"/dashboard/{place}")
        page = html.unescape(answer.text)
        assert answer.status_code < 500, place
        assert text in page, f"{place} {answer.status_code}"
        assert ("Fetched from the accounting provider on 2\xa0Mar\xa02026, 10:00" in page) == is_dated, place
