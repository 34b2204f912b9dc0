"""The faults that are planted in a module's source: each is a piece of text that replaces another.

A fault is small and likely: a limit that is off by one, a condition the wrong way round, a lock that is forgotten, a WHERE that no
longer scopes. Annotations, docstrings and texts for people are left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple


class Fault(NamedTuple):
    start: int
    end: int
    text: str
    line: int
    what: str

    def planted_in(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_ARITHMETIC: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*"}
_SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|VALUES)\b")
_SQL_FAULTS = (
    # A condition that always holds, with its parameter still in place.
    ("condition", re.compile(r"(?<![\w.])([\w.]+ (?:=|<>|<=|>=|<|>) (?:\?|'\w+'|\d+))"), r"(\1 OR 1 = 1)"),
    ("null", re.compile(r"\bIS NOT NULL\b"), "IS NULL"),
    ("null", re.compile(r"\bIS NULL\b"), "IS NOT NULL"),
    ("edge", re.compile(r" <= (?=\?)"), " < "),
    ("edge", re.compile(r" >= (?=\?)"), " > "),
    ("edge", re.compile(r" < (?=\?)"), " <= "),
    ("edge", re.compile(r" > (?=\?)"), " >= "),
    ("sign", re.compile(r" \+ (?=\?|1\b)"), " - "),
    ("sign", re.compile(r" - (?=\?|1\b)"), " + "),
    ("order", re.compile(r"( DESC)(?= LIMIT|\")"), ""),
)


def faults_of(source: bytes) -> list[Fault]:
    """Returns the faults in the order of the source."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(set(finder.found))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.found: list[Fault] = []

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _plant(self, node: ast.expr | ast.stmt, text: str, what: str) -> None:
        self.found.append(Fault(*self._span(node), text, node.lineno, what))

    def _between(self, before: ast.expr, after: ast.expr, text: str, what: str) -> None:
        """Replaces what stands between two operands. A parenthesis between them is left alone, and so is the fault."""
        start, end = self._span(before)[1], self._span(after)[0]
        if not set(self._source[start:end]) & set(b"()#\\"):
            self.found.append(Fault(start, end, f" {text} ", before.lineno, what))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Looks into the body and at the defaults, not at annotations and decorators."""
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """A sentence for people says nothing that a test must notice; whether it is raised at all does."""
        self._plant(node, "pass", "not raised")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        inner = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(inner, ast.Call):
            self._plant(node, "pass", f"not called: {ast.unparse(inner.func)}")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for before, operator, after in zip(operands, node.ops, operands[1:], strict=False):
            other = _COMPARISONS[type(operator)]
            self._between(before, after, other, f"comparison: {other}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = "or" if isinstance(node.op, ast.And) else "and"
        for before, after in zip(node.values, node.values[1:], strict=False):
            self._between(before, after, other, other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._plant(node, f"({self._text(node.operand)})", "without not")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _ARITHMETIC.get(type(node.op))
        if other is not None and not isinstance(node.left, ast.JoinedStr | ast.Tuple | ast.List):
            self._between(node.left, node.right, other, f"arithmetic: {other}")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._plant(node, "pass", "not added")
        self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            self._plant(node.test, f"not ({self._text(node.test)})", "the other branch")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._plant(node, str(not node.value), str(not node.value))
        elif isinstance(node.value, int):
            self._plant(node, f"({self._text(node)} + 1)", "one more")
        elif isinstance(node.value, str):
            self._visit_sql(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._visit_sql(node)

    def _visit_sql(self, node: ast.Constant | ast.JoinedStr) -> None:
        start, _ = self._span(node)
        text = self._text(node)
        if not _SQL.search(text) and not re.search(r"\" (AND|WHERE|SET|ORDER BY) ", text):
            return
        for what, pattern, replacement in _SQL_FAULTS:
            for found in pattern.finditer(text):
                begin = start + len(text[: found.start()].encode())
                end = begin + len(found[0].encode())
                line = node.lineno + text[: found.start()].count("\n")
                self.found.append(Fault(begin, end, found.expand(replacement), line, f"SQL {what}: {found[0].strip()}"))


def unnoticeable(fault: Fault, source: bytes) -> bool:
    """Tells whether a fault is the same program as before: a line that logs or counts for the operator alone."""
    line = source[: fault.start].rsplit(b"\n", 1)[-1] + source[fault.start : fault.end]
    return any(word in line for word in (b"log.", b"metrics."))


def planted(source: bytes) -> Iterator[tuple[Fault, bytes]]:
    """Yields each fault with the source that has it, if that still compiles."""
    for fault in faults_of(source):
        changed = fault.planted_in(source)
        if unnoticeable(fault, source):
            continue
        try:
            compile(changed, "planted", "exec")
        except SyntaxError:
            continue
        yield fault, changed
