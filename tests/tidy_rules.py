"""The rules of tests/test_tidy.py: how long, how named, how spelt, and what must stand nowhere.

A rule is a function from a tree of files to the list of its offences, so the same rule is tried here on a tree that breaks it.
"""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Container, Iterator
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FUNCTION = 50
LONGEST_FILE = 700
WIDEST_UNPACKING = 8
LONGEST_DOCSTRING = 8
TEXT_FILES = (".py", ".md", ".sql", ".sh", ".toml", ".in", ".lock", ".html", ".css", ".js", ".txt", ".yml", ".yaml", "")

Rule = Callable[[Path], list[str]]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    RULES[function.__name__] = function
    return function


def files(root: Path, *suffixes: str, under: str = "") -> Iterator[tuple[str, str]]:
    """Name and text of the project's files, without what .gitignore leaves out."""
    ignore = root / ".gitignore"
    patterns = [*ignore.read_text("utf-8").split(), ".git"] if ignore.exists() else [".git"]
    for folder, subfolders, names in os.walk(root / under):
        here = Path(folder).relative_to(root)
        subfolders[:] = sorted(name for name in subfolders if not _is_ignored(here / name, patterns))
        for path in (here / name for name in sorted(names)):
            if path.suffix in (suffixes or TEXT_FILES) and not _is_ignored(path, patterns):
                yield path.as_posix(), (root / path).read_text("utf-8")


def _is_ignored(path: Path, patterns: list[str]) -> bool:
    """The folders above were asked before."""
    return any(
        fnmatch(path.as_posix() if pattern.startswith("/") else path.name, pattern.strip("/")) for pattern in patterns
    )


parse = cache(ast.parse)


@cache
def walk(tree: ast.Module) -> list[ast.AST]:
    """Every node of a module but those that say whether a name is read or set: many rules look at them, and `ast.walk` takes
    longer to find them than parsing does."""
    found: list[ast.AST] = [tree]
    for node in found:
        for name in node._fields:
            if name == "ctx":
                continue
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return found


def modules(root: Path, *folders: str) -> Iterator[tuple[str, str, ast.Module]]:
    for folder in folders or ("src",):
        for name, text in files(root, ".py", under=folder):
            yield name, text, parse(text)


@rule
def no_long_functions(root: Path) -> list[str]:
    return [
        f"{name}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for name, _, tree in modules(root, "src", "tests", "clients")
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= LONGEST_FUNCTION
    ]


@rule
def no_long_files(root: Path) -> list[str]:
    lengths = {name: len(text.splitlines()) for name, text, _ in modules(root, "src", "tests", "clients")}
    return [f"{name} has {length} lines" for name, length in lengths.items() if length > LONGEST_FILE]


@rule
def no_circle_between_modules_or_folders(root: Path) -> list[str]:
    """Imports for types alone and inside functions count as well. The topmost folder is none of them: it holds all the others."""
    found = []
    for under in ("src", "clients/python/src"):
        texts = {name.removeprefix(f"{under}/"): text for name, text in files(root, ".py", under=under)}
        packages = {_module(name) for name in texts if name.endswith("/__init__.py")}
        trees = {_module(name): parse(text) for name, text in texts.items()}
        imports = {module: _imported(tree, trees) - {module} for module, tree in trees.items()}
        folders: dict[str, set[str]] = {}
        for module, others in imports.items():
            here = _folder(module, packages)
            folders.setdefault(here, set()).update({_folder(other, packages) for other in others} - {here})
        found += [circle for graph in (imports, folders) for circle in _circle(graph)]
    return found


def _module(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _folder(module: str, packages: set[str]) -> str:
    """The folder of a module, or the module itself if that is the topmost."""
    folder = module if module in packages else module.rpartition(".")[0]
    return folder if "." in folder else module


def _imported(tree: ast.Module, known: Container[str]) -> set[str]:
    found = set()
    for node in walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in inner}
    return {name for name in found if name in known}


def _circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" imports ".join(reversed(error.args[1]))]
    return []


@rule
def wide_rows_are_read_by_name(root: Path) -> list[str]:
    """Nobody counts to fifteen: a row of more than eight columns goes into a NamedTuple made from its column list."""
    return [
        f"{name}:{node.lineno} takes {len(node.elts)} values by position"
        for name, _, tree in modules(root)
        for node in walk(tree)
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store) and len(node.elts) > WIDEST_UNPACKING
    ]


@rule
def modules_open_with_a_short_docstring(root: Path) -> list[str]:
    found = []
    for name, _, tree in modules(root):
        # What is indented is a drawing or an example, and may be as long as it needs to be.
        text = (ast.get_docstring(tree, clean=False) or "").rstrip()
        lines = [line for line in text.splitlines() if not line.startswith("    ")]
        if not 1 <= len(lines) <= LONGEST_DOCSTRING:
            found.append(f"{name} opens with a docstring of {len(lines)} lines")
    return found


_HEADLESS = re.compile(r"\W*(What|Who|Whom|Whose|How|Where|Which|Whether|Why)\b", re.IGNORECASE)
# Found in few files; tokens are looked at in those alone.
_HEADLESS_COMMENT = re.compile("#" + _HEADLESS.pattern, re.IGNORECASE)


@rule
def comments_begin_with_a_verb_or_the_thing(root: Path) -> list[str]:
    """A docstring or comment that begins with “What is …” or “How to …” makes the reader look for its subject."""
    words_of = [(name, (*_docstrings(tree), *_first_comment_lines(text))) for name, text, tree in modules(root)]
    others = ("tests", "bench", "torture", "mutation", "scripts", "simulators", "clients")
    words_of += [(name, tuple(_docstrings(tree))) for name, _, tree in modules(root, *others)]
    return [
        f"{name}:{line} begins with {match[1]}"
        for name, found in words_of
        for line, words in found
        if (match := _HEADLESS.match(words))
    ]


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring."""
    for node in walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant(value=str(text)))]:
                    yield node.body[0].lineno, text


def _first_comment_lines(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment, without the lines that continue the one above them; none where no line begins so."""
    above = -1
    if not _HEADLESS_COMMENT.search(text):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != above + 1:
                yield token.start[0], token.string
            is_alone = not token.line[: token.start[1]].strip()
            above = token.start[0] if is_alone else -1


# Nouns of the trade that happen to end so; any other -ing is something that is done, not a thing.
NOUNS_IN_ING = {"accounting", "banking", "booking", "encoding", "posting", "typesetting"}


@rule
def modules_are_nouns(root: Path) -> list[str]:
    return [
        f"{name} is named after something done, not after a thing"
        for name, _ in files(root, ".py", under="src")
        for part in name.removeprefix("src/kontobahn/").split("/")
        if (word := part.removesuffix(".py").rpartition("_")[2]).endswith("ing") and word not in NOUNS_IN_ING
    ]


EMPTY_NAMES = ("Service", "Manager", "Helper", "Base", "Impl", "Utils")


@rule
def no_empty_names(root: Path) -> list[str]:
    found = []
    for name, _, tree in modules(root):
        words = {part.removesuffix(".py").rpartition("_")[2] for part in name.split("/")}
        found += [f"{name}: the name says nothing" for word in EMPTY_NAMES if word.lower() in words]
        classes = (node for node in walk(tree) if isinstance(node, ast.ClassDef))
        found += [f"{name}:{node.lineno} class {node.name}" for node in classes if node.name.endswith(EMPTY_NAMES)]
    return found


@rule
def nothing_left_to_do(root: Path) -> list[str]:
    marks = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
    return _lines_with(marks, files(root))


@rule
def only_the_command_line_prints(root: Path) -> list[str]:
    return [
        f"{name}:{node.lineno} prints"
        for name, _, tree in modules(root)
        if not name.startswith("src/kontobahn/cli/")
        for node in walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


NETWORK = ("requests", "urllib.request", "urllib3", "aiohttp", "httpx", "http.client", "httptools")


@rule
def only_two_modules_reach_the_network(root: Path) -> list[str]:
    return [
        f"{name}:{line} imports {module}"
        for name, line, module in _imports(root)
        if name not in ("src/kontobahn/outbound.py", "src/kontobahn/posts.py")
        if any(module == client or module.startswith(client + ".") for client in NETWORK)
    ]


def _imports(root: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and every module that an import may mean: `from a import b` is a, and perhaps a.b."""
    for name, _, tree in modules(root):
        package = name.removeprefix("src/").split("/")[:-1]
        for node in walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield name, node.lineno, alias.name
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                source = ".".join([*above, *([node.module] if node.module else [])])
                yield name, node.lineno, source
                for alias in node.names:
                    yield name, node.lineno, f"{source}.{alias.name}"


# American, and what we write instead.
SPELLINGS = {
    r"analyz[a-z]+": "analys…", r"authoriz[a-z]+": "authoris…", r"behaviors?": "behaviour", r"canceled": "cancelled",
    r"catalogs?": "catalogue", r"centers?": "centre", r"colors?": "colour", r"customiz[a-z]+": "customis…",
    r"favor(?:s|ite|able)?": "favour", r"honors?": "honour", r"initializ[a-z]+": "initialis…", r"labeled": "labelled",
    r"normaliz[a-z]+": "normalis…", r"optimiz[a-z]+": "optimis…", r"organiz[a-z]+": "organis…", r"recogniz[a-z]+": "recognis…",
    r"serializ[a-z]+": "serialis…", r"summariz[a-z]+": "summaris…", r"synchroniz[a-z]+": "synchronis…", r"utiliz[a-z]+": "use",
}  # fmt: skip
# A word that is part of a name (organization_id, cli/organizations.py, Authorization:) is no prose.
_AMERICAN = re.compile(rf"(?<![\w./$@{{-])({'|'.join(SPELLINGS)})(?![\w/({{}}:=-]|\.\w)", re.IGNORECASE)
# Without the first letter, which may be a capital: plain words are found sooner.
_MAY_BE_AMERICAN = re.compile("|".join(re.sub(r"[(\[].*|s\?$", "", spelling)[1:] for spelling in SPELLINGS))
_MAY_BE_AN_AMERICAN_COMMENT = re.compile(rf"#.*(?:{_MAY_BE_AMERICAN.pattern})")
_NO_PROSE = re.compile(r"``.+?``|`[^`\n]*`|https?://\S+|\]\([^)]*\)|\bkontobahn [a-z].*", re.DOTALL)


@rule
def british_spelling(root: Path) -> list[str]:
    found = []
    for name, line, text in _prose(root):
        plain = _NO_PROSE.sub(lambda match: "\n" * match[0].count("\n"), text)
        for match in _AMERICAN.finditer(plain):
            found.append(f"{name}:{line + plain[: match.start()].count(chr(10))} {match[0]}")
    return found


def _prose(root: Path) -> Iterator[tuple[str, int, str]]:
    """Comments, docstrings and Markdown, with the line they begin on; of Python only what may have something to find in it."""
    for name, text in files(root, ".py"):
        if not _MAY_BE_AMERICAN.search(text):
            continue
        if _MAY_BE_AN_AMERICAN_COMMENT.search(text):
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    yield name, token.start[0], token.string
        yield from ((name, at, docstring) for at, docstring in _docstrings(parse(text)))
    for name, text in files(root, ".sql"):
        for number, line in enumerate(text.splitlines(), 1):
            yield name, number, line.partition("--")[2]
    for name, text in files(root, ".md"):
        yield name, 1, _without_code_blocks(text)


def _without_code_blocks(markdown: str) -> str:
    fenced = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
    return fenced.sub(lambda match: "\n" * match[0].count("\n"), markdown)


# In pieces, so that this file does not break its own rules.
REGISTRIES = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.", "crates" + ".io", "ghcr" + ".io", "docker" + ".io",
               "arti" + "factory", "un" + "pkg.com", "jsde" + "livr")  # fmt: skip
PLACES = (
    r"/wo" + "rk/",
    r"/ro" + r"ot\b",
    r"/ho" + r"me/\w",
    r"/Us" + r"ers/\w",
    r"[A-Z]:\\" + "Users",
    r"\.\./sha" + "red",
)


@rule
def no_registry_and_no_place_of_one_machine(root: Path) -> list[str]:
    unwanted = "|".join([*map(re.escape, REGISTRIES), *(rf"(?<![\w.]){place}" for place in PLACES)])
    # Hardly any file has one of these plain words, and looking for them takes a tenth of the time.
    words = [word.lower() for word in (*REGISTRIES, *(re.sub(r"\\[bw]|\[A-Z\]|\\", "", place) for place in PLACES))]
    suspects = (
        (name, text) for name, text in files(root) if any(map(text.lower().replace("\\", "").__contains__, words))
    )
    return _lines_with(re.compile(unwanted, re.IGNORECASE), suspects)


def _lines_with(pattern: re.Pattern[str], texts: Iterator[tuple[str, str]]) -> list[str]:
    return [
        f"{name}:{number} {match[0]}"
        for name, text in texts
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]


_GIVEN_UP = re.compile(r"^## Words we gave up\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@rule
def given_up_words_stay_away(root: Path) -> list[str]:
    """docs/glossary.md lists words that readers stumbled over, each with what we write instead."""
    glossary = root / "docs" / "glossary.md"
    section = _GIVEN_UP.search(glossary.read_text("utf-8")) if glossary.exists() else None
    words = re.findall(r"^\| `([^`]+)` \|", section[1], re.MULTILINE) if section else []
    if not words:
        return []
    pattern = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(map(re.escape, words))})(?![A-Za-z0-9])")
    everywhere = (
        (name, text) for folder in ("src", "docs", "bench", "torture") for name, text in files(root, under=folder)
    )
    # A migration is checksummed, so its comments stay as they were written.
    exempt = ("docs/glossary.md", "src/kontobahn/db/migrations/")
    return _lines_with(pattern, ((name, text) for name, text in everywhere if not name.startswith(exempt)))


_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@rule
def links_lead_somewhere(root: Path) -> list[str]:
    found = []
    for name, text in files(root, ".md"):
        for target in _LINK.findall(re.sub(r"`[^`\n]*`", "", _without_code_blocks(text))):
            path, _, anchor = target.partition("#")
            if re.match(r"^(\w+:|/|\$)", target):
                continue
            page = (root / name).parent / path if path else root / name
            if not page.exists():
                found.append(f"{name}: {target} does not exist")
            elif anchor and anchor not in _anchors(page.read_text("utf-8")):
                found.append(f"{name}: {target} has no such heading")
    return found


def _anchors(markdown: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _without_code_blocks(markdown), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


LONGEST_TEMPLATE_LINE = 160


@rule
def no_long_lines_in_templates(root: Path) -> list[str]:
    return [
        f"{name}:{number} has {len(line)} characters"
        for name, text in files(root, ".html", under="src")
        for number, line in enumerate(text.splitlines(), 1)
        if len(line) > LONGEST_TEMPLATE_LINE
    ]


@rule
def tables_label_their_cells(root: Path) -> list[str]:
    """The label of a cell comes from its column, by `col` of parts.table: none is written by hand."""
    return _lines_with(re.compile(r"data-label"), files(root, ".html", under="src"))


_DECISION = re.compile(r"# (\d+)\. .+\n\n\*\*Status\.\*\* (?:Accepted(?:, amended by .+)?|Superseded by .+)\.")


@rule
def decisions_have_a_status_and_stand_in_the_index(root: Path) -> list[str]:
    folder = "docs/decisions"
    decisions = {Path(name).name: text for name, text in files(root, ".md", under=folder)}
    listed = re.findall(
        r"^- \[(.+)\]\(([^)]+)\)( \(superseded by \d+\))?$", decisions.pop("README.md", ""), re.MULTILINE
    )
    found = []
    for name, text in decisions.items():
        status = _DECISION.match(text)
        if not status or int(status[1]) != int(name[:4]):
            found.append(f"{folder}/{name} does not begin with its number, its title and a status")
        lines = [(title, bool(mark)) for title, target, mark in listed if target == name]
        if lines != [(text.partition("\n")[0].removeprefix("# "), "**Status.** Superseded" in text)]:
            found.append(
                f"{folder}/{name} does not stand once in the index, with its title and whether it is superseded"
            )
    numbers = Counter(name[:4] for name in decisions)
    return found + [f"{folder}/{name} shares its number" for name in decisions if numbers[name[:4]] > 1]


@rule
def migrations_are_numbered_without_gaps(root: Path) -> list[str]:
    names = [Path(name).name for name, _ in files(root, ".sql", under="src/kontobahn/db/migrations")]
    found = [f"{name} is no name of a step" for name in names if not re.match(r"^\d{4}_[a-z0-9_]+\.", name)]
    expected = [f"{number:04d}" for number in range(1, len({name[:4] for name in names}) + 1)]
    for engine, other in (("sqlite", "postgres"), ("postgres", "sqlite")):
        numbers = [name[:4] for name in names if not name.endswith(f".{other}.sql")]
        if numbers != expected:
            found.append(f"the steps for {engine} are {', '.join(numbers)}")
    return found


# The one module of the tests that pauses.
_WAITING = "tests/waiting.py"


@rule
def tests_wait_for_facts(root: Path) -> list[str]:
    """No sleeps, no instants until which something must have happened, no deadlines of hypothesis."""
    return [
        f"{name}:{node.lineno} {reason}: wait for the fact, by {_WAITING}"
        for name, _, tree in modules(root, "tests")
        if name != _WAITING
        for node in walk(tree)
        if isinstance(node, ast.Call | ast.BinOp | ast.keyword | ast.ImportFrom) and (reason := _waits_for_time(node))
    ]


def _waits_for_time(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name("time"), attr="sleep")):
            return "time.sleep"
        case ast.ImportFrom(module="time" | "asyncio", names=names) if any(name.name == "sleep" for name in names):
            return "an import of sleep"
        case ast.Call(func=ast.Attribute(value=ast.Name("asyncio"), attr="sleep"), args=[ast.Constant(value=0)]):
            return ""
        case ast.Call(func=ast.Attribute(value=ast.Name("asyncio"), attr="sleep")):
            return "asyncio.sleep"
        case ast.BinOp(
            left=ast.Call(func=ast.Attribute(value=ast.Name("time"), attr="monotonic" | "time")), op=ast.Add()
        ):
            return "a deadline"
        case ast.keyword(arg="timeout" | "connect_timeout", value=ast.Constant(value=int() | float())):
            return "a deadline"
        case ast.Call(
            func=ast.Attribute(attr="wait" | "join" | "result" | "settimeout"),
            args=[ast.Constant(value=int() | float())],
        ):
            return "a deadline"
        case ast.keyword(arg="deadline", value=value) if not (isinstance(value, ast.Constant) and value.value is None):
            return "a deadline"
    return ""
