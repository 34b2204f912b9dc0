"""Every method of the Python client on a running service: one half of the calls plain, the other awaited, and lists walked by both."""

from __future__ import annotations

import asyncio
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx
import msgspec
import pytest

from kontobahn.api.declare import Endpoint
from kontobahn.webhooks import receiver
from kontobahn_client import ApiWarning, AsyncKontobahn, Kontobahn, NotFound, OutOfCredits, models, webhooks
from kontobahn_client.models.common import File
from kontobahn_client.transport import exchange
from tests import test_generated_client as recipes
from tests import test_tenancy as tenancy
from tests.bank_builder import Bank, account_id, facts, order
from tests.client.test_declarations import DOCUMENT, OURS, declared, snake
from tests.harness import PASSWORD, Organization, Service
from tests.ledger_builder import Books
from tests.openapi_samples import operation
from tests.spec_pages import on_sqlite
from tests.waiting import PATIENCE_SECONDS

Made = dict[str, Any]
exact = msgspec.json.Decoder(float_hook=Decimal)


def plain_http(**options: Any) -> httpx.Client:
    return httpx.Client(verify=False, trust_env=False, timeout=PATIENCE_SECONDS, **options)


def awaited_http(**options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(verify=False, trust_env=False, timeout=PATIENCE_SECONDS, **options)


def arguments(endpoint: Endpoint, made: Made, content: bytes | None) -> Made:
    """The document's own examples, with ids that exist."""
    given = {snake(name): value for name, value in recipes._parameters(endpoint, DOCUMENT, made).items()}
    given.pop("quelle", None)
    if endpoint.takes_upload:
        return {**given, "file": content}
    if endpoint.body is None:
        return given
    example = dict(operation(endpoint, DOCUMENT)["requestBody"]["content"]["application/json"]["example"])
    example |= {name: value for name, value in made.items() if name in endpoint.body.__struct_fields__}
    hint = get_type_hints(declared(endpoint).function)["body"]
    kind = next(item for item in (hint, *get_args(hint)) if isinstance(item, type) and issubclass(item, msgspec.Struct))
    return {**given, "body": msgspec.convert(example, kind, strict=False)}


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_null(item) for name, item in value.items() if item is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value


def call(service: Service, endpoint: Endpoint, *, awaited: bool) -> list[str]:
    """Makes the call, and returns what of its answer is missing in what the client returned."""
    owner = service.organization(role="owner")
    recipe = recipes.RECIPES.get(endpoint.name)
    made: Made = dict(recipe.make(service, owner)) if recipe else {}
    if endpoint.name in recipes.IN_BODY:
        made |= recipes.IN_BODY[endpoint.name](service, owner)
    token = tenancy._sessions.get(owner.key, owner.key)
    if token == owner.key and endpoint.caller != "anybody" and recipes.OF_A_PERSON.search(endpoint.path):
        token = service.session(service.user(owner, f"{owner.id}@muster.example", password=PASSWORD).email)
    who = {"session": token} if token.startswith("kb_sess_") else {"key": token}
    given, seen = arguments(endpoint, made, recipe.content if recipe else None), list[httpx.Response]()
    name = endpoint.handler.__name__
    if awaited:
        answer = asyncio.run(_awaited(service, who, name, given, seen))
    else:
        with plain_http(event_hooks={"response": [seen.append]}) as http:
            answer = getattr(Kontobahn(service.base_url, **who, retries=0, http=http), name)(**given)
    [response] = seen
    if isinstance(answer, File):
        return [] if answer.content == response.content and "." in answer.name else [f"{name}: not the file"]
    kept = exact.decode(exchange._ENCODER.encode(answer))
    sent = exact.decode(response.content)
    return [] if without_null(kept) == without_null(sent) else [f"{name}: {kept} is not {sent}"]


async def _awaited(service: Service, who: Made, name: str, given: Made, seen: list[httpx.Response]) -> Any:
    async def see(response: httpx.Response) -> None:
        seen.append(response)

    async with awaited_http(event_hooks={"response": [see]}) as http:
        return await getattr(AsyncKontobahn(service.base_url, **who, retries=0, http=http), name)(**given)


@on_sqlite
def test_every_call_is_made_by_the_client_and_its_answer_is_whole(service: Service) -> None:
    service.clock.advance(seconds=60 * 86_400)  # the examples are of March
    problems = [
        problem
        for number, endpoint in enumerate(OURS)
        if endpoint.name not in recipes.NOT_OURS
        for problem in call(service, endpoint, awaited=bool(number % 2))
    ]
    assert not problems, "\n".join(problems)


@pytest.fixture
def owner(service: Service) -> Organization:
    owner = service.organization(credits_granted=1_000)
    Bank(service).connected(owner, *(facts(number, f"Rechnung {number}") for number in range(1, 6)))
    return owner


@on_sqlite
def test_a_list_is_walked_over_all_its_pages(service: Service, owner: Organization) -> None:
    account = account_id(service, owner)
    with plain_http() as http:
        kb = Kontobahn(service.base_url, owner.key, http=http)
        walked = list(kb.list_transactions.iterate(account_id=account, limit=2))
        assert walked == kb.list_transactions(account_id=account, sort="id").data
        assert [row.amount for row in walked] == [Decimal(number) / 100 for number in range(1, 6)]
        # A walk by date would leave rows out.
        with pytest.raises(ValueError, match="sort"):
            next(kb.list_transactions.iterate(account_id=account, sort="made_on"))

    async def walk() -> list[models.Transaction]:
        async with awaited_http() as http:
            kb = AsyncKontobahn(service.base_url, owner.key, http=http)
            return [row async for row in kb.list_transactions.iterate(account_id=account, limit=2)]

    assert asyncio.run(walk()) == walked


class Losing(httpx.HTTPTransport):
    """Carries requests out, and loses the first answers."""

    def __init__(self, losses: int) -> None:
        super().__init__(verify=False, trust_env=False)
        self.losses = losses
        self.keys: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers.get("idempotency-key", ""))
        response = super().handle_request(request)
        if self.losses:
            self.losses -= 1
            response.close()
            raise httpx.ReadError("the answer was lost")
        return response


@on_sqlite
def test_a_client_knows_what_its_calls_cost(service: Service, owner: Organization) -> None:
    account = account_id(service, owner)

    async def awaited() -> AsyncKontobahn:
        async with awaited_http() as http:
            kb = AsyncKontobahn(service.base_url, owner.key, http=http)
            assert [row async for row in kb.list_transactions.iterate(account_id=account, limit=2)]
            await kb.list_bank_accounts()
        return kb

    def plain() -> Kontobahn:
        with plain_http() as http:
            kb = Kontobahn(service.base_url, owner.key, http=http)
            assert kb.credits_spent == 0
            assert len(list(kb.list_transactions.iterate(account_id=account, limit=2))) == 5
            assert kb.receipt is not None
            assert kb.receipt.credits == 1
            with pytest.raises(NotFound):
                kb.get_transaction(id="777", account_id=account)
            kb.list_bank_accounts()
        return kb

    for walk in (plain, lambda: asyncio.run(awaited())):
        before = service.balance(owner).available
        kb = walk()
        assert kb.credits_spent == before - service.balance(owner).available == 3, "each page is a call"
        assert kb.receipt is not None
        assert kb.receipt.credits == 0, "the list of accounts is free"
        assert kb.receipt.calls_left is not None
        assert kb.receipt.request_id is not None


@on_sqlite
def test_what_the_service_warns_of_is_warned_at_the_line_that_called(service: Service, owner: Organization) -> None:
    account = account_id(service, owner)

    async def awaited() -> None:
        async with awaited_http() as http:
            await AsyncKontobahn(service.base_url, owner.key, http=http).list_transactions(
                account_id=account, from_id="0"
            )

    with plain_http() as http:
        kb = Kontobahn(service.base_url, owner.key, http=http)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(list(kb.list_transactions.iterate(account_id=account, from_id="0"))) == 5
        for call in (lambda: kb.list_transactions(account_id=account, from_id="0"), lambda: asyncio.run(awaited())):
            with pytest.warns(ApiWarning, match="sort=id") as told:
                call()
            assert [warned.filename for warned in told] == [__file__]


@on_sqlite
def test_a_payment_whose_answer_was_lost_is_made_once(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "FIRST_PAUSE_SECONDS", 0.0)
    transport = Losing(losses=2)
    with httpx.Client(transport=transport) as http:
        kb = Kontobahn(service.base_url, owner.key, http=http)
        body = msgspec.convert(order(account_id(service, owner)), models.NewPayment, strict=False)
        paid = kb.create_payment(body).data
        assert [payment.id for payment in kb.list_payments().data] == [paid.id]
    assert len(set(transport.keys[:3])) == 1
    assert transport.keys[0]


@on_sqlite
def test_errors_are_of_their_kind_and_name_the_request(service: Service, owner: Organization) -> None:
    poor = service.organization(credits_granted=0)
    with plain_http() as http:
        with pytest.raises(NotFound) as missing:
            Kontobahn(service.base_url, owner.key, http=http).get_transaction("999", "999")
        assert missing.value.request_id
        assert missing.value.request_id in str(missing.value)
        connection = Books(service, poor).connection_id
        with pytest.raises(OutOfCredits) as refused:
            Kontobahn(service.base_url, poor.key, http=http).get_opos(connection)
        assert (refused.value.needed, refused.value.available) == (5, 0)


@on_sqlite
def test_a_file_is_sent_by_its_path_with_its_name(service: Service, owner: Organization, tmp_path: Path) -> None:
    path = tmp_path / "Umsätze März.sta"
    path.write_bytes(recipes.RECIPES["POST /v2/banking/statements"].content or b"")

    async def send() -> str:
        async with awaited_http() as http:
            return (await AsyncKontobahn(service.base_url, owner.key, http=http).import_statements(path)).data.file

    assert asyncio.run(send()) == path.name
    second = service.organization()
    with plain_http() as http:
        assert Kontobahn(service.base_url, second.key, http=http).import_statements(path).data.file == path.name


def test_what_the_service_signs_is_verified() -> None:
    data = b'{"payment_id":"17","status":"initiated_info_required"}'
    body = b'{"event":"payment_progress","data":%s,"received_at":"2026-03-31T09:30:00Z"}' % data
    old, new = receiver.new_secret(), receiver.new_secret()
    headers = receiver.signed_headers("evt_1", 1_000_000, body, [receiver.key_of(new), receiver.key_of(old)])
    for secrets in ((old,), (new,), (receiver.new_secret(), old)):
        event = webhooks.verify(body, headers, *secrets, now=lambda: 1_000_100.0)
        assert (event.id, event.event) == ("evt_1", "payment_progress")
        assert isinstance(event.data, models.PaymentProgress)
        assert event.data.payment_id == "17"
