"""Style as a test. Each rule of tidy_rules.py holds for the project, and finds its offence in a tree that breaks it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.tidy_rules import LONGEST_FILE, LONGEST_FUNCTION, LONGEST_TEMPLATE_LINE, PLACES, REGISTRIES, ROOT, RULES


def test_the_project_is_tidy() -> None:
    """All rules in one test: each file is read and parsed once."""
    # So many nodes are made, and all of them kept, that looking for garbage among them would take as long again.
    gc.disable()
    try:
        offences = {name: found for name, rule in RULES.items() if (found := rule(ROOT))}
    finally:
        gc.enable()
    assert offences == {}


_BODY = "\n".join(["    x = 1"] * LONGEST_FUNCTION)
_STEPS = "src/kontobahn/db/migrations/"
# Rule, file and a text that breaks it there.
OFFENCES = [
    ("no_long_functions", "tests/test_a.py", f"def f():\n{_BODY}\n"),
    ("no_long_files", "src/kontobahn/a.py", "x = 1\n" * (LONGEST_FILE + 1)),
    ("modules_open_with_a_short_docstring", "src/kontobahn/a.py", "x = 1\n"),
    ("wide_rows_are_read_by_name", "src/kontobahn/a.py", "a, b, c, d, e, f, g, h, i = row\n"),
    ("wide_rows_are_read_by_name", "src/kontobahn/a.py", "x = [a for a, b, c, d, e, f, g, h, i in rows]\n"),
    (
        "modules_open_with_a_short_docstring",
        "src/kontobahn/a.py",
        f'"""A.\n{"b" + chr(10)}{chr(10).join("cdefghi")}"""\n',
    ),
    ("no_empty_names", "src/kontobahn/a.py", "class KeyManager: ...\n"),
    ("no_empty_names", "src/kontobahn/key_utils.py", ""),
    ("no_empty_names", "src/kontobahn/base/a.py", ""),
    ("comments_begin_with_a_verb_or_the_thing", "src/kontobahn/a.py", "x = 1\n# What x is for.\ny = x\n"),
    ("comments_begin_with_a_verb_or_the_thing", "src/kontobahn/a.py", "x = 1  # how many\n"),
    ("comments_begin_with_a_verb_or_the_thing", "src/kontobahn/a.py", 'def f():\n    """Which row it is."""\n'),
    ("comments_begin_with_a_verb_or_the_thing", "tests/unit/test_a.py", '"""What holds."""\n'),
    ("modules_are_nouns", "src/kontobahn/deciding.py", ""),
    ("modules_are_nouns", "src/kontobahn/hiding/a.py", ""),
    ("nothing_left_to_do", "scripts/a.sh", "# " + "TO" + "DO: later\n"),
    ("only_the_command_line_prints", "src/kontobahn/a.py", "print('x')\n"),
    ("only_two_modules_reach_the_network", "src/kontobahn/a.py", "def f():\n    from urllib import request\n"),
    ("only_two_modules_reach_the_network", "src/kontobahn/a.py", "import aiohttp.client\n"),
    ("british_spelling", "src/kontobahn/a.py", "x = 1  # the color of it\n"),
    ("british_spelling", "src/kontobahn/a.py", 'def f():\n    """Its behavior."""\n'),
    ("british_spelling", "docs/a.md", "An organization.\n"),
    (
        "no_registry_and_no_place_of_one_machine",
        "requirements.lock",
        "--index-url https://" + REGISTRIES[0] + "/simple\n",
    ),
    ("no_registry_and_no_place_of_one_machine", "docs/a.md", "See " + PLACES[0] + "main.\n"),
    ("no_registry_and_no_place_of_one_machine", ".ci/run", "cd ~ || cd /ro" + "ot\n"),
    ("links_lead_somewhere", "docs/a.md", "[b](b.md)\n"),
    ("links_lead_somewhere", "docs/a.md", "# A\n\n[b](#b)\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "import time\n\ntime.sleep(1)\n"),
    ("tests_wait_for_facts", "tests/unit/test_a.py", "from time import sleep\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "async def f():\n    await asyncio.sleep(0.1)\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "until = time.monotonic() + 5\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "@settings(deadline=200)\ndef f(): ...\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "assert begun.wait(5)\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "subprocess.run(command, timeout=20)\n"),
    ("no_long_lines_in_templates", "src/kontobahn/a.html", "a" * (LONGEST_TEMPLATE_LINE + 1)),
    ("tables_label_their_cells", "src/kontobahn/a.html", '<td data-label="A">1</td>\n'),
    ("decisions_have_a_status_and_stand_in_the_index", "docs/decisions/0001-a.md", "# 1. A\n\n**Status.** Accepted.\n"),
    ("decisions_have_a_status_and_stand_in_the_index", "docs/decisions/0001-a.md", "# 1. A\n\n**Context.** B.\n"),
    ("migrations_are_numbered_without_gaps", _STEPS + "0002_a.sql", ""),
    ("migrations_are_numbered_without_gaps", _STEPS + "0001_a.sqlite.sql", ""),
]


@pytest.mark.parametrize(("name", "file", "text"), OFFENCES, ids=[offence[0] for offence in OFFENCES])
def test_each_rule_finds_its_offence(tmp_path: Path, name: str, file: str, text: str) -> None:
    assert RULES[name](tmp_path) == []
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text, "utf-8")
    found = RULES[name](tmp_path)
    assert found != []
    assert file in found[0] or name == "migrations_are_numbered_without_gaps"


def test_a_given_up_word_is_found(tmp_path: Path) -> None:
    rule = RULES["given_up_words_stay_away"]
    (tmp_path / "docs").mkdir()
    glossary = "# Glossary\n\n## Words we gave up\n\n| Given up | Instead |\n|---|---|\n| `Seam` | interface |\n"
    (tmp_path / "docs" / "glossary.md").write_text(glossary, "utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("seamless = 'Seams'\n", "utf-8")
    assert rule(tmp_path) == []
    (tmp_path / "src" / "b.py").write_text("class Seam: ...\n", "utf-8")
    assert rule(tmp_path) == ["src/b.py:1 Seam"]


def test_two_decisions_of_one_number_are_found(tmp_path: Path) -> None:
    rule, folder = RULES["decisions_have_a_status_and_stand_in_the_index"], tmp_path / "docs" / "decisions"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"0001-{name}.md").write_text(f"# 1. {name}\n\n**Status.** Accepted.\n", "utf-8")
    (folder / "README.md").write_text("- [1. a](0001-a.md)\n- [1. b](0001-b.md)\n", "utf-8")
    assert rule(tmp_path) == [f"docs/decisions/0001-{name}.md shares its number" for name in ("a", "b")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("one/__init__.py", "if TYPE_CHECKING:\n    from kontobahn.one.two import x\n"),
        ("top.py", "def f():\n    import kontobahn.one.two.three\n"),
        ("one/below.py", "from kontobahn.one import two\n"),
    ],
)
def test_a_circle_is_found_between_folders_too(tmp_path: Path, name: str, text: str) -> None:
    rule, folder = RULES["no_circle_between_modules_or_folders"], tmp_path / "src" / "kontobahn"
    (folder / "one" / "two").mkdir(parents=True)
    (folder / "one" / "two" / "__init__.py").write_text("from kontobahn.one.two.three import x\n", "utf-8")
    (folder / "one" / "two" / "three.py").write_text("import kontobahn.top\nfrom kontobahn.one import y\n", "utf-8")
    for empty in ("__init__.py", "top.py", "one/__init__.py", "one/below.py"):
        (folder / empty).write_text("", "utf-8")
    assert rule(tmp_path) == []
    (folder / name).write_text(text, "utf-8")
    assert rule(tmp_path) != []


def test_every_rule_is_tried() -> None:
    elsewhere = {"given_up_words_stay_away", "no_circle_between_modules_or_folders"}
    assert {offence[0] for offence in OFFENCES} | elsewhere == set(RULES)


# Rule, file and a text that looks like an offence and is none.
INNOCENT = [
    (
        "modules_open_with_a_short_docstring",
        "src/kontobahn/a.py",
        f'"""A tree:\n\n{chr(10).join(["    x"] * 30)}\n"""\n',
    ),
    ("no_empty_names", "src/kontobahn/db/database.py", "class Database: ...\n"),
    ("comments_begin_with_a_verb_or_the_thing", "src/kontobahn/a.py", "# Whatever is sent, and\n# how it is read.\n"),
    ("modules_are_nouns", "src/kontobahn/enable_banking/posting.py", ""),
    ("only_the_command_line_prints", "src/kontobahn/cli/a.py", "print('x')\n"),
    ("only_two_modules_reach_the_network", "src/kontobahn/outbound.py", "import aiohttp\n"),
    ("only_two_modules_reach_the_network", "src/kontobahn/a.py", "from urllib.parse import quote\n"),
    (
        "british_spelling",
        "src/kontobahn/a.py",
        "organization = color  # `organization`, organization_id, cli/organizations.py\n",
    ),
    ("british_spelling", "docs/a.md", "```\norganization\n```\n\nSend `Authorization: Bearer`.\n"),
    ("no_registry_and_no_place_of_one_machine", "docs/a.md", "In /var/lib/kontobahn, homework/home/work and $HOME.\n"),
    ("tests_wait_for_facts", "tests/waiting.py", "time.sleep(1)\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "begun.wait()\nthread.join(PATIENCE_SECONDS)\n', '.join(words)\n"),
    ("tests_wait_for_facts", "tests/test_a.py", "await asyncio.sleep(0)\ntook = time.monotonic() - began\n"),
    ("links_lead_somewhere", "docs/a.md", "# A b: c\n\n[b](#a-b-c) [c](https://muster.example/x) `[d](d.md)`\n"),
]


@pytest.mark.parametrize(("name", "file", "text"), INNOCENT, ids=[row[0] for row in INNOCENT])
def test_a_rule_leaves_the_innocent_alone(tmp_path: Path, name: str, file: str, text: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text, "utf-8")
    assert RULES[name](tmp_path) == []
