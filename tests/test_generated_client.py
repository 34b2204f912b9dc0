"""A client generated from the OpenAPI document makes every call of the API, with the document's own examples, on a running service.

So three things hold at once: generating it gives no warning, every example is taken by the service, and every answer is what the
document says. Only ids are put in, as tests/test_tenancy.py makes them.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import types
from collections.abc import Callable, Iterator
from datetime import date, datetime
from enum import Enum
from io import BytesIO
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints
from uuid import UUID

import openapi_python_client
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from openapi_python_client.config import Config, ConfigFile, MetaType

from kontobahn.api.declare import Endpoint
from tests import payables_recipes, reconciliation_recipes
from tests import test_tenancy as tenancy
from tests.assistants import recipes as assistant_recipes
from tests.file_bank import FileBank
from tests.harness import PASSWORD, Organization, Service
from tests.mobility_builder import Shop
from tests.openapi_samples import REAL, build, operation
from tests.paid_invoices import Payer
from tests.spec_pages import on_sqlite

PACKAGE = "generated_kontobahn"
EMAIL = "erika@muster.example"
# Calls that no client of ours makes, and why.
NOT_OURS = {
    **dict.fromkeys(
        ("POST /v2/banking/webhooks/{provider}", "POST /v2/banking/webhooks/{provider}/{kind}"),
        "banks make it, and sign it with a secret of theirs",
    ),
    "POST /v2/banking/order-files/{id}/submission": "needs a line to a bank; see tests/providers/ebics/test_orders.py",
}
# The platform's own id; only our own store's is a UUID.
NOT_ALWAYS_UUIDS = ("mobility_invoice_id",)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Made = dict[str, Any]


class Api(NamedTuple):
    document: Any
    warnings: list[str]
    root: types.ModuleType


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("client")
    source, document = folder / "openapi.json", build(REAL)
    source.write_text(json.dumps(document))
    config = Config.from_sources(
        ConfigFile(post_hooks=[]), MetaType.NONE, source, "utf-8", overwrite=False, output_path=folder / PACKAGE
    )
    warnings = [f"{item.header}: {item.detail}" for item in openapi_python_client.generate(config=config)]
    sys.path.insert(0, str(folder))
    yield Api(document, warnings, importlib.import_module(PACKAGE))
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


def _function(endpoint: Endpoint, tag: str) -> Callable[..., Any]:
    module = importlib.import_module(f"{PACKAGE}.api.{tag.lower()}.{endpoint.handler.__name__}")
    assert module.asyncio_detailed
    return module.sync_detailed  # type: ignore[no-any-return]


# --- What a call is about


def _signed_up(service: Service, owner: Organization) -> Made:
    service.user(owner, EMAIL, password="correct horse battery staple")
    return {}


def _invited(service: Service, owner: Organization) -> Made:
    made = service.post("/v2/auth/invitations", owner.key, json={"email": "neu@muster.example"}).json()["data"]
    return {"token": made["token"]}


def _to_change(service: Service, owner: Organization) -> Made:
    return {"old_password": PASSWORD}


def _to_reset(service: Service, owner: Organization) -> Made:
    user = service.user(owner, f"{owner.id}@muster.example")
    return {"token": service.post(f"/v2/auth/users/{user.id}/password-link", owner.key).json()["data"]["token"]}


def _to_pay(service: Service, owner: Organization) -> Made:
    return tenancy._of_bank_account(service, owner)


def _to_order(service: Service, owner: Organization) -> Made:
    paid = FileBank(service, owner).pay()
    return {"payment_ids": [paid["id"]], "account_id": paid["account_id"]}


def _selling(service: Service, owner: Organization) -> Made:
    Shop(service, owner)
    return {}


def _to_match(service: Service, owner: Organization) -> Made:
    books = tenancy._books(service, owner)["connectionId"]
    return {**tenancy._of_bank_account(service, owner), "connection_id": books}


def _to_confirm(service: Service, owner: Organization) -> Made:
    return {"ids": [reconciliation_recipes.clerk(service, owner).listed(119)["best_proposal"]["id"]]}


def _to_match_by_hand(service: Service, owner: Organization) -> Made:
    lines = [{"kind": "item", "konto": "10010", "beleg": "RE-2026-00123", "amount": 119.0}]
    return {"transaction_id": reconciliation_recipes.clerk(service, owner).listed(119)["id"], "lines": lines}


def _to_hand_over(service: Service, owner: Organization) -> Made:
    desk = reconciliation_recipes.clerk(service, owner)
    assert desk.confirm(119).status_code == 201
    return {"account_id": desk.account}


def _to_confirm_iban(service: Service, owner: Organization) -> Made:
    payable_id, session = payables_recipes.stopped(service, owner)
    tenancy._sessions[owner.key] = session
    return {"id": payable_id}


def _to_run(service: Service, owner: Organization) -> Made:
    payer = Payer(service, owner)
    payer.released()
    return {"account_id": payer.account, "trial": False}


def _to_type(service: Service, owner: Organization) -> Made:
    return {"file_id": payables_recipes.unread_file(service, owner)["id"]}


# Ids that stand in a body.
def _to_confirm_session(service: Service, owner: Organization) -> Made:
    return {"password": PASSWORD}


def _to_join(service: Service, owner: Organization) -> Made:
    client, body = service.organization("Klient GmbH"), {"email": f"{owner.id}@muster.example"}
    return {"token": service.post("/v2/auth/invitations", client.key, json=body).json()["data"]["token"]}


# The paths of calls that only a signed-in person makes.
OF_A_PERSON = re.compile(r"^/v2/auth/.*(sessions|password|confirm|join)$")
IN_BODY: dict[str, Callable[[Service, Organization], Made]] = {
    "POST /v2/auth/sessions": _signed_up,
    "POST /v2/auth/sessions/confirm": _to_confirm_session,
    "POST /v2/auth/invitations/join": _to_join,
    "POST /v2/auth/invitations/accept": _invited,
    "POST /v2/auth/password": _to_change,
    "POST /v2/auth/password/reset": _to_reset,
    "POST /v2/banking/payments": _to_pay,
    "POST /v2/banking/order-files": _to_order,
    "POST /v2/banking/account-merges": reconciliation_recipes.twins,
    "PUT /v2/mobility/seller": _selling,
    "POST /v2/payables/payment-runs": _to_run,
    "POST /v2/payables/handovers": payables_recipes.to_hand_over,
    "POST /v2/payables": _to_type,
    "POST /v2/payables/{id}/confirmations": _to_confirm_iban,
    "POST /v2/payables/files/by-address": payables_recipes.at_an_address,
    "POST /v2/assistants/payments": assistant_recipes.account,
    "POST /v2/assistants/cash-entries": assistant_recipes.books,
    "PUT /v2/assistants/settings": lambda service, owner: {"enabled": False},
    "POST /v2/reconciliation/runs": _to_match,
    "POST /v2/reconciliation/confirmations": _to_confirm,
    "POST /v2/reconciliation/matches": _to_match_by_hand,
    "POST /v2/reconciliation/batches": _to_hand_over,
}
RECIPES = {name: recipe for (name, _), recipe in reversed(tenancy.RECIPES.items())}


def _is_id(name: str) -> bool:
    return bool(re.search(r"(^id|_id|Id)$", name)) or name in ("cursor", "from_id", "from_code")


def _parameters(endpoint: Endpoint, document: Any, made: Made) -> Made:
    """The document's examples, with real ids; an id that the call is not about is left out."""
    found = {
        item["name"]: made.get(item["name"], item.get("example"))
        for item in operation(endpoint, document)["parameters"]
        if item["in"] != "header" and (item["required"] or not _is_id(item["name"]) or item["name"] in made)
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _typed(hint: Any, value: Any) -> Any:
    """The value as a person would write it for this parameter."""
    kinds = [kind for kind in (get_args(hint) or (hint,)) if getattr(kind, "__name__", "") not in ("Unset", "NoneType")]
    kind = kinds[0]
    if get_origin(kind) is not None or kind is Any:
        return value
    if issubclass(kind, Enum) or kind in (UUID, int, float, bool):
        return kind(value)
    if issubclass(kind, datetime | date):
        return kind.fromisoformat(value)
    return str(value)


def _arguments(
    function: Callable[..., Any], endpoint: Endpoint, document: Any, made: Made, content: bytes | None
) -> Made:
    hints = get_type_hints(function)
    names = {_plain(name): name for name in hints}
    arguments = {
        names[_plain(name)]: _typed(hints[names[_plain(name)]], value)
        for name, value in _parameters(endpoint, document, made).items()
    }
    if "body" not in hints:
        return arguments
    kinds = get_args(hints["body"]) or (hints["body"],)
    if endpoint.takes_upload:
        file = importlib.import_module(f"{PACKAGE}.types").File
        return {**arguments, "body": file(payload=BytesIO(content or b""), file_name="file")}
    example = operation(endpoint, document)["requestBody"]["content"]["application/json"]["example"]
    example |= {name: value for name, value in made.items() if name in endpoint.body.__struct_fields__}  # type: ignore[union-attr]
    model = next(kind for kind in kinds if hasattr(kind, "from_dict"))
    return {**arguments, "body": model.from_dict(example)}


# --- The test


def _client(api: Api, service: Service, endpoint: Endpoint, token: str) -> Any:
    options: Made = {"base_url": service.base_url, "verify_ssl": False, "httpx_args": {"trust_env": False}}
    if endpoint.caller == "anybody":
        return api.root.Client(**options)
    if token.startswith("kb_sess_"):
        return api.root.AuthenticatedClient(**options, token=token)
    return api.root.AuthenticatedClient(**options, token=token, prefix="", auth_header_name="x-api-key")


def _undeclared_uuids(schema: Any, value: Any, components: Any, path: str = "$") -> Iterator[str]:
    """Lists where an answer holds a UUID that its schema does not call one."""
    while "$ref" in schema:
        schema = components[schema["$ref"].rpartition("/")[2]]
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        schema = {**schema, **options[0]}
        while "$ref" in schema:
            schema = components[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, str) and _UUID.fullmatch(value) and schema.get("format") != "uuid":
        yield path
    if isinstance(value, list):
        for item in value:
            yield from _undeclared_uuids(schema.get("items", {}), item, components, f"{path}[]")
    if isinstance(value, dict):
        for name, item in value.items():
            if name in schema.get("properties", {}) and name not in NOT_ALWAYS_UUIDS:
                yield from _undeclared_uuids(schema["properties"][name], item, components, f"{path}.{name}")


def _call(api: Api, service: Service, endpoint: Endpoint) -> list[str]:
    """Makes the call, and returns what is wrong with its answer."""
    owner = service.organization(role="owner")
    recipe = RECIPES.get(endpoint.name)
    made: Made = dict(recipe.make(service, owner)) if recipe else {}
    if endpoint.name in IN_BODY:
        made |= IN_BODY[endpoint.name](service, owner)
    token = tenancy._sessions.get(owner.key, owner.key)
    if token == owner.key and endpoint.caller != "anybody" and OF_A_PERSON.search(endpoint.path):
        token = service.session(service.user(owner, f"{owner.id}@muster.example", password=PASSWORD).email)
    function = _function(endpoint, operation(endpoint, api.document)["tags"][0])
    arguments = _arguments(function, endpoint, api.document, made, recipe.content if recipe else None)
    with _client(api, service, endpoint, token) as client:
        answer = function(client=client, **arguments)
    if int(answer.status_code) not in endpoint.statuses:
        return [f"{endpoint.name}: {int(answer.status_code)} {answer.content[:300]!r}"]
    if answer.parsed is None:
        return [f"{endpoint.name}: the client could not read the answer"]
    if endpoint.media_types:
        return [] if answer.parsed.payload.read() else [f"{endpoint.name}: an empty file"]
    schema = operation(endpoint, api.document)["responses"][str(int(answer.status_code))]["content"][
        "application/json"
    ]["schema"]
    whole = {**schema, "components": api.document["components"]}
    body = json.loads(answer.content)
    problems = [
        f"{endpoint.name}: {error.message[:200]} at {error.json_path}"
        for error in Draft202012Validator(whole, format_checker=FormatChecker()).iter_errors(body)
    ]
    components = api.document["components"]["schemas"]
    return problems + [f"{endpoint.name}: {path} is a UUID" for path in _undeclared_uuids(schema, body, components)]


def test_a_client_is_generated_without_a_warning(api: Api) -> None:
    assert api.warnings == []


@on_sqlite
def test_every_call_is_made_by_the_client_with_the_examples_of_the_document(api: Api, service: Service) -> None:
    service.clock.advance(seconds=60 * 86_400)  # the examples are of March
    problems = [
        problem for endpoint in REAL if endpoint.name not in NOT_OURS for problem in _call(api, service, endpoint)
    ]
    assert not problems, "\n".join(problems)
    events = service.db.read_now(lambda tx: [json.loads(body) for (body,) in tx.all("SELECT body FROM webhook_events")])
    told = {event["event"]: event for event in events if event["event"] in api.document["webhooks"]}
    assert {"connection_destroyed", "payment_update"} <= told.keys()
    for name, event in told.items():
        content = api.document["webhooks"][name]["post"]["requestBody"]["content"]["application/json"]
        whole = {**content["schema"], "components": api.document["components"]}
        assert [error.message for error in Draft202012Validator(whole).iter_errors(event)] == [], name
