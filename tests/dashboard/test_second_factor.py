"""Second factors without a real browser: each challenge and each code once, in its time and for its own purpose."""

from __future__ import annotations

import base64
import html
import json
import re
from typing import Any

import httpx
import pytest

from kontobahn.access import factors
from kontobahn.access.principal import Principal
from kontobahn.clock import SECOND
from kontobahn.dashboard.dispatch import SECOND_FACTOR, WITHOUT_FACTOR
from kontobahn.dashboard.pages import every_page
from kontobahn.dashboard.sign_in import CODES
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from tests.dashboard.browsing import Browser
from tests.harness import ACTOR, PASSWORD, Organization, Service
from tests.passkey import Passkey

EMAIL = "erika@muster.example"
STEP = factors.STEP_SECONDS


class Person:
    """Somebody with an app and perhaps a passkey, signed in at a browser."""

    def __init__(self, service: Service, organization: Organization, email: str = EMAIL) -> None:
        self.service, self.email = service, email
        self.user = service.user(organization, email)
        self.browser = Browser(service)
        assert self.browser.sign_in(email).status_code == 303
        self.secret, self.codes = b"", list[str]()
        origin = service.base_url.replace("127.0.0.1", "localhost")
        self.passkey = Passkey("localhost", origin)

    def code(self, steps: int = 0) -> str:
        """The code of the app, so many steps from now."""
        return factors.totp(self.secret, self.service.clock.now() // SECOND // STEP + steps)

    def add_app(self) -> httpx.Response:
        page = self.browser.get(f"{SECOND_FACTOR}/app").text
        shown = re.search(r"<code>([A-Z2-7 ]+)</code>", page)
        assert shown is not None
        text = shown[1].replace(" ", "")
        self.secret = base64.b32decode(text + "=" * (-len(text) % 8))
        sealed = _hidden(page, "secret")
        answer = self.browser.post(f"{SECOND_FACTOR}/app", {"name": "App", "code": self.code(), "secret": sealed})
        assert answer.status_code in (200, 303), answer.text
        self.codes = _codes(answer) or self.codes
        return answer

    def asked_to_make(self) -> tuple[str, Any]:
        """The ticket and the options of the page that makes a passkey."""
        page = self.browser.get(f"{SECOND_FACTOR}/passkey").text
        options = re.search(r'data-passkey-make="([^"]*)"', page)
        assert options is not None
        return _hidden(page, "ticket"), json.loads(html.unescape(options[1]))

    def make_passkey(self, ticket: str, answer: str) -> httpx.Response:
        sent = {"name": "Key", "ticket": ticket, "answer": answer}
        return self.browser.post(f"{SECOND_FACTOR}/passkey", sent)

    def add_passkey(self) -> None:
        ticket, options = self.asked_to_make()
        answer = self.make_passkey(ticket, self.passkey.make(options))
        assert answer.status_code in (200, 303), answer.text
        self.codes = _codes(answer) or self.codes

    def factor_ids(self) -> list[str]:
        return list(
            dict.fromkeys(re.findall(r"second-factor/([0-9a-f-]{36})/remove", self.browser.get(SECOND_FACTOR).text))
        )

    def password_step(self) -> str:
        """Gives the password at a new browser. Returns the ticket of the second step."""
        return _hidden(Browser(self.service).sign_in(self.email).text, "ticket")

    def enter(self, ticket: str, code: str) -> int:
        """The status of the second step: 303 if it lets one in."""
        answer = Browser(self.service).post("/dashboard/sign-in/code", {"ticket": ticket, "code": code})
        assert (answer.status_code == 303) == ("set-cookie" in answer.headers)
        return answer.status_code

    def enter_by_passkey(self, ticket: str, answer: str) -> int:
        sent = {"ticket": ticket, "answer": answer}
        return Browser(self.service).post("/dashboard/sign-in/passkey", sent).status_code

    def asked_to_sign(self) -> tuple[str, Any]:
        asked = Browser(self.service).post("/dashboard/sign-in/passkey/options").json()
        return asked["ticket"], asked["options"]

    def lets_in(self, code: str) -> bool:
        return self.enter(self.password_step(), code) == 303


def _hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]+)"', page)
    assert found is not None, page
    return html.unescape(found[1])


def _codes(answer: httpx.Response) -> list[str]:
    return re.findall(r"<code>([A-Z2-7]{4}-[A-Z2-7]{4}-[A-Z2-7]{4})</code>", answer.text)


@pytest.fixture
def muster(service: Service) -> Organization:
    return service.organization()


@pytest.fixture
def erika(service: Service, muster: Organization) -> Person:
    made = Person(service, muster)
    made.add_app()
    # The code that set it up is used.
    service.clock.advance(seconds=2 * STEP)
    return made


# --- Challenges


def test_a_step_lets_in_once(service: Service, erika: Person) -> None:
    ticket = erika.password_step()
    assert erika.enter(ticket, "000000") == 422, "a wrong code does not use it up"
    assert erika.enter(ticket, erika.code()) == 303
    service.clock.advance(seconds=STEP)
    assert erika.enter(ticket, erika.code()) == 422
    assert erika.enter(ticket, erika.codes[0]) == 422
    assert erika.lets_in(erika.code()), "the code was not used by what was refused"


@pytest.mark.either_engine
def test_guesses_at_a_code_are_counted_by_the_person_whatever_step_they_come_with(
    service: Service, muster: Organization, erika: Person
) -> None:
    steps = [erika.password_step() for _ in range(2)]
    for number in range(CODES.requests):
        assert erika.enter(steps[number % 2], "000000") == 422
    assert erika.enter(steps[0], erika.code(1)) == 422, "the right one comes too late"
    other = Person(service, muster, "max@muster.example")
    other.add_app()
    assert other.enter(other.password_step(), other.code(1)) == 303


@pytest.mark.parametrize("late", [False, True])
def test_a_step_lets_in_for_five_minutes(service: Service, erika: Person, late: bool) -> None:
    erika.add_passkey()
    ticket = erika.password_step()
    signing, options = erika.asked_to_sign()
    making, to_make = erika.asked_to_make()
    service.clock.advance(seconds=5 * 60 if late else 5 * 60 - 1)
    assert erika.enter(ticket, erika.code()) == (422 if late else 303)
    assert erika.enter_by_passkey(signing, erika.passkey.sign(options)) == (422 if late else 303)
    other = Passkey("localhost", service.base_url.replace("127.0.0.1", "localhost"))
    erika.make_passkey(making, other.make(to_make))
    assert len(erika.factor_ids()) == (2 if late else 3)


@pytest.mark.either_engine
def test_a_challenge_is_good_for_what_it_was_made_for(service: Service, muster: Organization, erika: Person) -> None:
    erika.add_passkey()
    step = erika.password_step()
    signing, to_sign = erika.asked_to_sign()
    making, to_make = erika.asked_to_make()
    for ticket in (signing, making):
        assert erika.enter(ticket, erika.code()) == 422
    # Signed is in each case what the ticket's own challenge says.
    assert erika.enter_by_passkey(making, erika.passkey.sign(to_make)) == 422
    assert erika.enter_by_passkey(step, erika.passkey.sign({"challenge": ""})) == 422
    second = Passkey("localhost", service.base_url.replace("127.0.0.1", "localhost"))
    assert erika.make_passkey(signing, second.make(to_sign)).status_code == 422
    # Nor is it good for somebody else.
    max_ = Person(service, muster, "max@muster.example")
    theirs, options = erika.asked_to_make()
    assert max_.make_passkey(theirs, second.make(options)).status_code == 422
    assert (len(erika.factor_ids()), max_.factor_ids()) == (2, [])
    assert erika.enter(step, erika.code()) == 303


@pytest.mark.either_engine
def test_what_a_passkey_signed_lets_in_once_and_only_if_it_knows_the_person(service: Service, erika: Person) -> None:
    erika.add_passkey()
    ticket, options = erika.asked_to_sign()
    signed = erika.passkey.sign(options)
    assert erika.enter_by_passkey(ticket, signed) == 303
    assert erika.enter_by_passkey(ticket, signed) == 422
    again, _ = erika.asked_to_sign()
    assert erika.enter_by_passkey(again, signed) == 422, "it is the answer to another challenge"
    ticket, options = erika.asked_to_sign()
    erika.passkey.verified = False
    assert erika.enter_by_passkey(ticket, erika.passkey.sign(options)) == 422
    erika.passkey.verified, erika.passkey.counter = True, 0
    ticket, options = erika.asked_to_sign()
    assert erika.enter_by_passkey(ticket, erika.passkey.sign(options)) == 422, "a copy, which has counted less"


def test_a_form_that_no_script_has_signed_says_why_there_is_no_passkey(service: Service, erika: Person) -> None:
    shown = erika.browser.get(SECOND_FACTOR).text
    assert shown.count("button main") == 1, "one main button in a head"
    ticket, _ = erika.asked_to_make()
    answer = erika.browser.post(f"{SECOND_FACTOR}/passkey", {"name": "Key", "ticket": ticket, "answer": ""})
    assert answer.status_code == 422
    assert answer.text.count("Passkeys need JavaScript") == 2, "above the form, and for whom no script runs"
    assert "Please fill this in." not in answer.text


@pytest.mark.either_engine
def test_a_passkey_is_made_once_by_one_challenge(service: Service, erika: Person) -> None:
    ticket, options = erika.asked_to_make()
    origin = service.base_url.replace("127.0.0.1", "localhost")
    one, other = Passkey("localhost", origin), Passkey("localhost", origin)
    assert erika.make_passkey(ticket, one.make(options)).status_code == 303
    assert erika.make_passkey(ticket, other.make(options)).status_code == 422
    assert len(erika.factor_ids()) == 2
    for elsewhere in (Passkey("localhost", "https://evil.example"), Passkey("evil.example", origin)):
        ticket, options = erika.asked_to_make()
        assert erika.make_passkey(ticket, elsewhere.make(options)).status_code == 422


# --- Codes


@pytest.mark.parametrize(("steps", "taken"), [(-10, False), (-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_a_code_is_good_for_its_time_and_a_step_around_it(
    service: Service, erika: Person, steps: int, taken: bool
) -> None:
    service.clock.advance(seconds=20 * STEP)
    assert erika.lets_in(erika.code(steps)) is taken
    sent = {"email": EMAIL, "password": PASSWORD, "code": erika.code(steps)}
    assert service.post("/v2/auth/sessions", json=sent).status_code == 401, "used, or never good"
    # Setting another app up takes the code of its own time too.
    page = erika.browser.get(f"{SECOND_FACTOR}/app").text
    text = re.search(r"<code>([A-Z2-7 ]+)</code>", page)[1].replace(" ", "")  # type: ignore[index]
    erika.secret = base64.b32decode(text + "=" * (-len(text) % 8))
    new = {"name": "Other", "code": erika.code(steps), "secret": _hidden(page, "secret")}
    assert erika.browser.post(f"{SECOND_FACTOR}/app", {**new, "_password": PASSWORD}).status_code == (
        303 if taken else 422
    )


def test_a_code_before_the_last_one_used_is_not_taken(service: Service, erika: Person) -> None:
    assert erika.lets_in(erika.code(1))
    for steps in (-1, 0, 1):
        assert not erika.lets_in(erika.code(steps))
    service.clock.advance(seconds=STEP)
    assert erika.lets_in(erika.code(1))


# --- Recovery codes


def test_new_recovery_codes_end_the_old_ones(service: Service, muster: Organization, erika: Person) -> None:
    other = Person(service, muster, "max@muster.example")
    other.add_app()
    old = erika.codes
    assert len(old) == 10
    new = _codes(erika.browser.post(f"{SECOND_FACTOR}/recovery-codes"))
    assert len({*old, *new}) == 20
    assert [erika.lets_in(code) for code in (*old[:2], old[-1])] == [False] * 3
    assert [erika.lets_in(code) for code in (new[0], new[-1], new[0])] == [True, True, False]
    assert not other.lets_in(new[1]), "they are one person's"
    assert other.lets_in(other.codes[0]), "and nobody else's have ended"


def test_recovery_codes_end_with_the_last_factor(service: Service, muster: Organization, erika: Person) -> None:
    other = Person(service, muster, "max@muster.example")
    other.add_app()
    erika.add_passkey()
    old = erika.codes
    first, last = erika.factor_ids()
    assert erika.browser.post(f"{SECOND_FACTOR}/{first}/remove").status_code == 303
    assert erika.lets_in(old[0]), "there is another factor, and this is the way around it"
    assert erika.browser.post(f"{SECOND_FACTOR}/{last}/remove").status_code == 303
    assert erika.add_app().status_code == 200, "with new ones"
    assert erika.codes != old
    assert not erika.lets_in(old[1])
    assert erika.lets_in(erika.codes[0])
    assert other.lets_in(other.codes[0])


# --- Required for everybody


@pytest.mark.either_engine
def test_without_the_required_factor_no_page_and_no_form_is_taken(
    service: Service, muster: Organization, erika: Person
) -> None:
    max_ = Person(service, muster, "max@muster.example")
    assert erika.browser.post(f"{SECOND_FACTOR}/require", {"required": "1"}).status_code == 303
    before = service.db.read_now(lambda tx: tx.all("SELECT COUNT(*) FROM audit_log"))
    for page in every_page():
        path = page.path.replace("{", "").replace("}", "")
        if page.caller != "user" or path.startswith(WITHOUT_FACTOR):
            continue
        answer = max_.browser.get(path) if page.method == "GET" else max_.browser.post(path, {"name": "x"})
        assert (answer.status_code, answer.headers.get("location")) == (303, SECOND_FACTOR), (page.method, path)
    assert service.db.read_now(lambda tx: tx.all("SELECT COUNT(*) FROM audit_log")) == before
    assert max_.add_app().status_code == 200
    assert max_.browser.get("/dashboard/keys").status_code == 200
    # The last one cannot be removed.
    [last] = max_.factor_ids()
    assert max_.browser.post(f"{SECOND_FACTOR}/{last}/remove").status_code == 409
    assert max_.browser.get("/dashboard/keys").status_code == 200


@pytest.mark.parametrize(
    ("seconds", "code"),
    [
        (59, "287082"), (1111111109, "081804"), (1111111111, "050471"), (1234567890, "005924"), (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)  # fmt: skip
def test_codes_are_those_of_rfc_6238(seconds: int, code: str) -> None:
    assert factors.totp(b"12345678901234567890", seconds // factors.STEP_SECONDS) == code


def test_a_passkey_belongs_to_one_person(service: Service, erika: Person) -> None:
    user = erika.user
    principal = Principal(user.organization_id, "owner", (user.organization_id,), user_id=user.id)

    def add(tx: Tx) -> factors.Factor:
        return factors.add_passkey(tx, principal, "Key", ACTOR, credential_id="c", public_key=b"k", counter=0)

    service.db.write_now(add)
    with pytest.raises(Conflict, match="already registered"):
        service.db.write_now(add)
