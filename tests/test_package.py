"""The release: one version, stated once; a wheel that holds all that the service needs, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

import pytest

import kontobahn_client
from kontobahn import __version__, settings
from kontobahn.errors import SetupError
from tests.tidy_rules import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    assert path.name == f"kontobahn-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_has_every_file_of_the_package_and_of_the_guide(wheel: zipfile.ZipFile) -> None:
    package = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "kontobahn").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    guide = {f"kontobahn/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "docs").rglob("*") if path.is_file()}
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == package | guide


def test_the_metadata_is_complete(wheel: zipfile.ZipFile) -> None:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = HeaderParser().parsestr(wheel.read(name).decode())
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) >= {"postgres", "redis"}
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text("utf-8")
    assert name.replace("METADATA", "licenses/LICENSE") in wheel.namelist()


def test_the_client_is_released_with_the_service_under_the_same_licence_and_version() -> None:
    client = ROOT / "clients" / "python"
    described = tomllib.loads((client / "pyproject.toml").read_text("utf-8"))
    assert kontobahn_client.__version__ == __version__
    assert described["tool"]["hatch"]["version"]["path"] == "src/kontobahn_client/__init__.py"
    assert (client / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    same = ("license", "license-files", "requires-python", "authors")
    assert {name: described["project"][name] for name in same} == {name: PROJECT["project"][name] for name in same}
    assert described["build-system"] == PROJECT["build-system"]


def test_the_changelog_begins_with_this_version_and_what_comes_after_it() -> None:
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if versions[0] == "Unreleased":
        del versions[0]
    assert versions[0] == __version__
    assert versions == sorted(versions, key=lambda text: [int(part) for part in text.split(".")], reverse=True)


def test_the_locks_are_made_for_everything_the_package_may_need() -> None:
    needs = [*PROJECT["project"]["dependencies"]]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        needs += extra
    names = {re.split(r"[<>=!~]", need)[0].strip() for need in needs}
    # Thirty packages for the few that want assistants: installed by its extra, locked for the tests.
    assert _named("requirements.in") == (names - {"mcp"}) | {"hatchling"}
    assert "mcp" in _named("requirements-dev.in")


def _named(file: str) -> set[str]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    return {re.split(r"[<>=!~]", line)[0].strip() for line in lines if line and not line.startswith(("#", "-"))}


@pytest.mark.parametrize(
    ("name", "value", "extra"),
    [("KONTOBAHN_DATABASE_URL", "postgresql://a/b", "postgres"), ("KONTOBAHN_REDIS_URL", "redis://a", "redis")],
)
def test_a_setting_says_which_extra_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, extra: str
) -> None:
    environ = {"KONTOBAHN_DATA": str(tmp_path), name: value}
    assert settings.load(environ).data == str(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    with pytest.raises(SetupError, match=re.escape(f"pip install 'kontobahn[{extra}]'")):
        settings.load(environ)
    assert settings.load({"KONTOBAHN_DATA": str(tmp_path)}).data == str(tmp_path)
