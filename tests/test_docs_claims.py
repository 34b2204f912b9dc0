"""Sentences of the documentation that state a fact of the code, beside that fact."""

from __future__ import annotations

import re
from pathlib import Path

from kontobahn.app import all_endpoints
from kontobahn.banking.connections.rules import TRANSITIONS, TRIGGERS
from kontobahn.db.sqlite import BUSY_TIMEOUT_MS
from tests.tidy_rules import ROOT, files


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / name).read_text("utf-8").split())


def test_the_calls_that_answer_with_a_file_are_listed() -> None:
    match = re.search(r"These calls answer with a file: (.*?)\. -", page("spec/README.md"))
    assert match is not None
    listed = re.findall(r"`(GET [^`]+)`", match[1])
    assert sorted(listed) == sorted(endpoint.name for endpoint in all_endpoints() if endpoint.media_types)


def test_how_long_writes_wait_for_another_process_is_said() -> None:
    assert f"up to {BUSY_TIMEOUT_MS // 1000} seconds, then they answer 503" in page("operating.md")


def test_a_revoked_consent_does_what_the_states_say() -> None:
    assert "or the consent revoked | `disabled`" in page("spec/states.md")
    assert TRANSITIONS["active", TRIGGERS["AispConsentRevoked"]] == "disabled"


def test_every_test_that_is_said_to_hold_something_exists() -> None:
    said = set(re.findall(r"`(test_\w+)`", page("testing.md")))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    assert len(said) > 20
    assert said - there == set()
    holds = {"pack", "scan", "trials", "events", "agents", "payments", "killed_and_retried", "one_receiver"}
    tried = (ROOT / "scripts" / "test_n8n_node.py").read_text("utf-8")
    assert holds <= set(re.findall(r"^def (\w+)", tried, re.M))


def test_the_architecture_names_modules_as_they_are() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    source, named = ROOT / "src" / "kontobahn", dict[str, set[Path]]()
    for room, rows in re.findall(r"^\| Where in `([\w/]+)/` .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        found = named.setdefault(room, set())
        for row in rows.splitlines():
            folder = source / room
            for name in re.findall(r"`([\w/.]+(?:\.py|/))`", row.split("|")[1]):
                place = source / room / name if "/" in name.rstrip("/") else folder / name
                folder = place.parent
                assert place.exists(), f"{room}/: there is no {name}"
                found.add(place)
    # Where most readers begin, nothing is left out.
    for room in ("api", "db"):
        modules = {place for place in (source / room).glob("*.py") if place.name != "__init__.py"}
        assert modules - named[room] == set(), f"{room}/ has more than the page names"


def test_files_of_the_project_that_the_documentation_or_a_comment_names_exist() -> None:
    paths = [Path(name) for name, _ in files(ROOT, ".py", ".sh", ".sql", ".typ")]
    # Whoever names a file may leave out the folders above it.
    there = {"/".join(path.parts[start:]) for path in paths for start in range(len(path.parts))}
    in_pages = re.compile(r"(?<![\w./*-])[a-z][\w/.-]*\.(?:py|sh|sql|typ)\b(?![\w./-]*\w)")
    in_source = re.compile(r"(?<![\w./*\"-])[a-z][\w/.-]*\.py\b(?![\w./\"-]*[\w\"])")
    named = {(page, path) for page, text in files(ROOT, ".md") for path in in_pages.findall(text)}
    assert len(named) > 300
    named |= {
        (page, path) for page, text in files(ROOT, ".py", ".html", under="src") for path in in_source.findall(text)
    }
    assert sorted((page, path) for page, path in named if path not in there) == []
