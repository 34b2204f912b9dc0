"""Settings of the identity provider: what contradicts itself is said at the start and by the doctor, without the secret."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kontobahn.access import identity_provider
from kontobahn.clock import SystemClock
from kontobahn.errors import SetupError
from kontobahn.settings import load
from simulators.identity_provider import Provider, Trouble, running
from tests.command_line import CommandLine
from tests.dashboard.provider_guest import settings_for

ISSUER = {"oidc_issuer": "https://login.muster.example/realms/x", "oidc_client_id": "kontobahn"}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running(Provider(lambda: int(time.time()))) as made:
        yield made


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"oidc_issuer": "http://login.muster.example"}, "must begin with https://"),
        ({"oidc_issuer": "https://10.0.0.1/x"}, "not public. See oidc_allow"),
        ({"oidc_issuer": "https://login.muster.example/?x=1"}, "must not have a query"),
        ({"oidc_client_id": ""}, "needs oidc_client_id"),
        ({"oidc_scopes": "profile"}, "must contain openid"),
        ({"oidc_name": " "}, "oidc_name must not be empty"),
        ({"oidc_role_claim": "groups"}, "oidc_role_claim and oidc_roles need each other"),
        ({"oidc_roles": {"a": "admin"}, "oidc_organization": "x"}, "oidc_role_claim and oidc_roles need each other"),
        ({"oidc_roles": {"a": "admin"}, "oidc_role_claim": "groups"}, "oidc_roles needs oidc_organization"),
        ({"oidc_new_people": True}, "oidc_new_people needs oidc_organization"),
        ({"oidc_link_by_email": True}, "oidc_link_by_email needs oidc_organization"),
        ({"oidc_client_secret": "s3cret", "oidc_client_secret_file": "/x"}, "not both"),
        ({"oidc_client_secret_file": "/nowhere/secret"}, "cannot be read"),
        ({"oidc_allow": "login"}, "The setting oidc_allow names “login”"),
        ({"oidc_roles": {"a": "owner"}}, "oidc_roles"),
        ({"oidc_roles": "nonsense"}, "KONTOBAHN_OIDC_ROLES must be a JSON object"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError) as refused:
        identity_provider.set_up(load({}, **{**ISSUER, **settings}), SystemClock())
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_the_secret_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for content, is_good in (("s3cret\n", True), ("\n", False)):
        file.write_text(content)
        settings = load({}, **ISSUER, oidc_client_secret_file=str(file))
        if is_good:
            assert identity_provider.set_up(settings, SystemClock())._secret == "s3cret"
            continue
        with pytest.raises(SetupError, match="is empty"):
            identity_provider.set_up(settings, SystemClock())


def test_without_an_issuer_there_is_no_provider() -> None:
    assert not identity_provider.set_up(load({}), SystemClock()).is_set_up


def findings(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> list[dict[str, str]]:
    for name, value in settings.items():
        monkeypatch.setenv(f"KONTOBAHN_{name.upper()}", str(value))
    said = cli.run("doctor", "--json")
    assert settings["oidc_client_secret"] not in said.out + said.err
    shown = cli.run("doctor", "--settings")
    assert settings["oidc_client_secret"] not in shown.out + shown.err
    return [item for item in said.json if item["area"] == "sign-in"]


def test_the_doctor_asks_the_provider(cli: CommandLine, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    organization = cli.facts("organizations", "create", "--name", "Muster GmbH")["organization_id"]
    settings = settings_for(provider, base_url="https://books.muster.example", oidc_organization=organization)
    [found] = findings(cli, monkeypatch, **settings)
    assert found["state"] == "ok"
    assert f"https://books.muster.example{identity_provider.CALLBACK}" in found["finding"]
    missing, _ = findings(cli, monkeypatch, **{**settings, "oidc_organization": "another"})
    assert (missing["state"], missing["what_to_do"]) == ("failed", "Run: kontobahn organizations list")


@pytest.mark.parametrize(
    ("trouble", "said"),
    [("wrong issuer in discovery", "set oidc_issuer to exactly that"), ("no keys", "no key"), ("500", "answered 500")],
)
def test_the_doctor_says_what_is_wrong_with_the_provider(
    cli: CommandLine, provider: Provider, monkeypatch: pytest.MonkeyPatch, trouble: Trouble, said: str
) -> None:
    provider.trouble = trouble
    [found] = findings(cli, monkeypatch, **settings_for(provider))
    assert found["state"] == "failed"
    assert said in found["finding"]
