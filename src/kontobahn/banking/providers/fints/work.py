"""A piece of work at a bank: the first contact, and reading everything in one dialog, with pauses where the bank wants its person.

Blocking, in a thread of its own. Between two pauses nothing is held but what `Work` says, which goes into the sealed state.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from fints.client import NeedRetryResponse
from fints.exceptions import FinTSUnsupportedOperation
from fints.formals import DescriptionRequired
from fints.models import SEPAAccount

from kontobahn.banking.providers.fints.client import NeedTANResponse, Post, StrictClient
from kontobahn.banking.providers.fints.documents import Documents
from kontobahn.banking.providers.fints.model import Challenge, Doing, Method, SeenAccount, Work
from kontobahn.money import to_minor


def _client(work: Work, post: Post) -> StrictClient:
    login = work.login
    return StrictClient(
        post, blz=login.blz, url=login.url, user=login.user, customer=login.customer, pin=work.pin, product_id=work.product_id,
        data=login.data,
    )  # fmt: skip


# --- First contact


def find_methods(work: Work, post: Post) -> list[Method]:
    """Asks the bank which ways to confirm the person has."""
    client = _client(work, post)
    client.is_first_contact = True
    client.fetch_tan_mechanisms()
    methods = [Method(code, str(found.name)) for code, found in client.get_tan_mechanisms().items() if code != "999"]
    work.login.data = client.deconstruct(including_private=True)
    return methods


def find_devices(work: Work, post: Post, method: str) -> list[str]:
    """Chooses a method, and asks for the devices if one has to be named."""
    client = _client(work, post)
    if method:
        client.set_tan_mechanism(method)
    names: list[str] = []
    chosen = client.get_tan_mechanisms().get(client.get_current_tan_mechanism())
    must = getattr(chosen, "description_required", None) == DescriptionRequired.MUST
    if chosen is not None and must and (getattr(chosen, "supported_media_number", None) or 0) > 1:
        names = client.find_devices()
    work.login.data = client.deconstruct(including_private=True)
    return names


def choose_device(work: Work, post: Post, name: str) -> None:
    client = _client(work, post)
    client.selected_tan_medium = name
    work.login.data = client.deconstruct(including_private=True)


# --- Reading


def read(work: Work, post: Post) -> Challenge | Documents:
    """Reads everything in one dialog. Returns what the bank wants confirmed on the way, or what it has handed out."""
    client, documents = _client(work, post), Documents()
    with _quietly_left(client):
        if client.init_tan_response is not None:
            request, client.init_tan_response = client.init_tan_response, None
            work.doing = "start"
            return _pause(work, client, documents, request)
        return _read_on(work, client, documents)


def go_on(work: Work, post: Post, tan: str) -> Challenge | Documents:
    """Goes on from a pause, with a TAN or with a question whether it was confirmed elsewhere."""
    client, documents = _client(work, post), Documents(work.documents)
    request = NeedRetryResponse.from_data(work.request)
    # The library forgets this.
    request.decoupled = work.is_decoupled
    with _quietly_left(client.resume_dialog(work.dialog)):
        if work.doing == "bookings":
            _begin_bookings(work, client, documents)
        result = client.send_tan(request, tan)
        if work.doing == "bookings" and isinstance(result, str):
            result = client.read_bookings(result)
        if isinstance(result, NeedTANResponse):
            return _pause(work, client, documents, result)
        if work.doing != "start":
            _store(work, client, result)
        return _read_on(work, client, documents)


def give_up(work: Work, post: Post) -> None:
    """Ends a dialog that waits for the person."""
    if work.dialog:
        with _client(work, post).resume_dialog(work.dialog):
            pass


@contextmanager
def _quietly_left(dialog: AbstractContextManager[Any]) -> Iterator[None]:
    """A dialog whose end does not matter: everything was said before."""
    dialog.__enter__()
    try:
        yield
    finally:
        with suppress(Exception):
            dialog.__exit__(None, None, None)


def _read_on(work: Work, client: StrictClient, documents: Documents) -> Challenge | Documents:
    while True:
        work.doing = _next(work)
        if not work.doing:
            work.login.data = client.deconstruct(including_private=True)
            return documents
        result = _ask(work, client, documents)
        if isinstance(result, NeedTANResponse):
            return _pause(work, client, documents, result)
        _store(work, client, result)


def _next(work: Work) -> Doing:
    if work.accounts is None:
        return "accounts"
    for account in work.accounts:
        if not account.has_balance:
            return "balance"
        if not account.has_bookings:
            return "bookings"
    return ""


def _current(work: Work) -> SeenAccount:
    return next(account for account in work.accounts or [] if not (account.has_balance and account.has_bookings))


def _sepa(account: SeenAccount) -> SEPAAccount:
    return SEPAAccount(account.iban, account.bic, account.number, account.sub, account.blz)


def _ask(work: Work, client: StrictClient, documents: Documents) -> Any:
    try:
        if work.doing == "accounts":
            return client.get_sepa_accounts()
        if work.doing == "balance":
            return client.get_balance(_sepa(_current(work)))
        _begin_bookings(work, client, documents)
        return client.read_bookings()
    except FinTSUnsupportedOperation:
        # A bank that does not offer this for any account: a depot, a card.
        return None


def _begin_bookings(work: Work, client: StrictClient, documents: Documents) -> None:
    account = _current(work)
    number = (work.accounts or []).index(account)

    def keep(booked: list[bytes], pending: list[bytes]) -> None:
        for found, is_pending in ((booked, False), (pending, True)):
            for document in found:
                documents.add(number, document, is_pending=is_pending)

    client.begin_bookings(_sepa(account), work.since, keep)


def _store(work: Work, client: StrictClient, result: Any) -> None:
    if work.doing == "accounts":
        work.accounts = _accounts(client, result or [])
    elif work.doing == "balance":
        account = _current(work)
        account.has_balance = True
        if result is not None:
            account.balance_minor = to_minor(result.amount.amount)
    else:
        _current(work).has_bookings = True


def _accounts(client: StrictClient, found: list[SEPAAccount]) -> list[SeenAccount]:
    known = {one["iban"]: one for one in client.get_information()["accounts"]}
    seen = []
    for account in found:
        facts = known.get(account.iban) or {}
        seen.append(
            SeenAccount(
                iban=account.iban, bic=account.bic or "", number=account.accountnumber, sub=account.subaccount or "",
                blz=account.blz, name=str(facts.get("product_name") or ""), holder=" ".join(facts.get("owner_name") or []) or None,
                type=int(facts.get("type") or 1), currency=str(facts.get("currency") or "EUR"),
            )
        )  # fmt: skip
    return seen


def _pause(work: Work, client: StrictClient, documents: Documents, request: NeedTANResponse) -> Challenge:
    work.documents = documents.pack()
    work.is_decoupled = bool(request.decoupled)
    work.request = request.get_data()
    work.dialog = client.pause_dialog()
    work.login.data = client.deconstruct(including_private=True)
    image_type, image = request.challenge_matrix or (None, None)
    method = client.get_tan_mechanisms().get(client.get_current_tan_mechanism())

    def told(name: str, default: int) -> int:
        value = getattr(method, name, None)
        return default if value is None else int(value)

    return Challenge(
        text=str(request.challenge or ""),
        is_decoupled=work.is_decoupled,
        flicker=_flicker(request.challenge_hhduc),
        image_type=image_type,
        image=image,
        max_polls=max(1, told("decoupled_max_poll_number", 60)),
        first_seconds=max(1, told("wait_before_first_poll", 5)),
        next_seconds=max(1, told("wait_before_next_poll", 3)),
        by_itself=bool(getattr(method, "automated_polling_allowed", True)),
        by_hand=bool(getattr(method, "manual_confirmation_allowed", True)),
    )


def _flicker(code: str | None) -> str | None:
    """Returns the code for an optical generator as the bars show it; None if there is none, or it cannot be read."""
    if not code:
        return None
    from fints.hhd import flicker

    try:
        return str(flicker.parse(code).render())
    except Exception:
        # The person can still type the code from the text into the generator.
        return None
